import { writeFile } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { hasCode } from '../../errors.ts';
import type { PoolHandle } from '../../store/api.ts';
import { formatCount } from '../../store/watching/units.ts';
import type { BenchClient, BenchTask } from '../bench/bench-client.ts';
import { defineCommand } from '../command.ts';
import { type Context, type Library, throwIfInterrupted } from '../context.ts';
import { EXIT } from '../failures.ts';
import { parseCount, parseSeconds, plural } from '../sizes.ts';
import { POOL_OPTIONS, storeNamed } from '../store-options.ts';
import { type Style, styleFor } from '../terminal/style.ts';
import { table } from '../terminal/table.ts';

const ROUNDS = 5;

export interface Plan {
  url: string;
  records: number;
  seconds: number;
  clients: number;
  valueSize: number;
}

export interface Rate {
  operation: string;
  /** Operations per second of all clients together, a number per round. */
  rounds: number[];
  median: number;
}

export const bench = defineCommand({
  name: 'bench',
  arguments: '[url]',
  summary: 'Measure how many gets and sets per second a store does here',
  details:
    `  Works on a store of its own in the pool (default: a new memory: pool), ${ROUNDS} rounds\n` +
    '  per operation, each client in its own thread. Other work on the machine shows in the rates.',
  options: {
    records: { value: 'N', read: parseCount(1), about: 'Records in the store (default: 100000)' },
    seconds: { value: 'S', read: parseSeconds, about: 'Time per operation (default: 2)' },
    clients: { value: 'P', read: parseCount(1, 1024), about: 'Client threads (default: 1)' },
    'value-size': { value: 'B', read: parseCount(0, 1 << 26), about: 'Value bytes (default: 32)' },
    size: POOL_OPTIONS.size,
    json: { value: 'FILE', about: 'Write the result as JSON (`-`: standard output)' },
  },
  examples: ['bench', 'bench tcp://127.0.0.1:7471 --clients 2', 'bench --json - --records 1000000'],
  async run(context, [url = 'memory:'], options) {
    const plan: Plan = {
      url,
      records: options.records ?? 100_000,
      seconds: options.seconds ?? 2,
      clients: options.clients ?? 1,
      valueSize: options['value-size'] ?? 32,
    };
    const rates = await inTemporaryStore(context, plan, options.size, (clients) =>
      measureAll(context, plan, clients),
    );
    const style = styleFor(context.stdout.isTTY, context.env);
    const json = JSON.stringify(describeRun(context, plan, rates), null, 2);
    await context.stdout.line(options.json === '-' ? json : describe(plan, rates, style));
    if (options.json !== undefined && options.json !== '-') {
      await writeFile(options.json, `${json}\n`);
    }
    return EXIT.ok;
  },
});

/** Afterwards the pool is as before: absent, or with one more store, which is empty. */
async function inTemporaryStore<T>(
  context: Context,
  plan: Plan,
  size: number | undefined,
  use: (clients: BenchClient[]) => Promise<T>,
): Promise<T> {
  const library = await context.library();
  const name = `bench-${context.pid}`;
  const made = await makePool(library, plan.url, size);
  try {
    const poolSize = plan.url.startsWith('memory:') ? size : undefined;
    const options = { ...storeNamed('bench', name), create: true, size: poolSize };
    const store = await library.open(plan.url, options);
    try {
      // A killed process with the same number may have left records.
      await store.clear();
      const clients = await startClients(context, plan, name, store.handle);
      try {
        return await use(clients);
      } finally {
        await Promise.all(clients.map((client) => client.stop()));
        if (!made) await store.clear();
      }
    } finally {
      await store.close();
    }
  } finally {
    if (made) await library.destroy(plan.url);
  }
}

/** Returns whether it created the pool. A `memory:` pool comes and goes with its store. */
async function makePool(library: Library, url: string, size: number | undefined): Promise<boolean> {
  if (url.startsWith('memory:')) return false;
  try {
    await library.create(url, { size });
    return true;
  } catch (error) {
    if (hasCode(error, 'SW_POOL_EXISTS')) return false;
    throw error;
  }
}

async function startClients(
  context: Context,
  { clients, records, valueSize }: Plan,
  store: string,
  handle: PoolHandle,
): Promise<BenchClient[]> {
  const setups = Array.from({ length: clients }, (_, client) => {
    return { handle, store, client, clients, records, valueSize };
  });
  const starts = await Promise.allSettled(setups.map((setup) => context.startBenchClient(setup)));
  const started = starts.filter((start) => start.status === 'fulfilled').map(({ value }) => value);
  const failure = starts.find((start) => start.status === 'rejected');
  if (failure === undefined) return started;
  await Promise.all(started.map((client) => client.stop()));
  throw failure.reason;
}

async function measureAll(context: Context, plan: Plan, clients: BenchClient[]): Promise<Rate[]> {
  const milliseconds = (plan.seconds * 1000) / ROUNDS;
  return [
    // A record can be inserted only once, so this has a single round.
    await measure(context, clients, { operation: 'insert' }, 1),
    await measure(context, clients, { operation: 'get', milliseconds }, ROUNDS),
    await measure(context, clients, { operation: 'set', milliseconds }, ROUNDS),
  ];
}

async function measure(
  { signal }: Context,
  clients: BenchClient[],
  task: BenchTask,
  count: number,
): Promise<Rate> {
  const rounds: number[] = [];
  while (rounds.length < count) {
    throwIfInterrupted(signal, 'interrupted');
    const measured = await Promise.all(clients.map((client) => client.run(task)));
    rounds.push(
      measured.reduce((sum, { operations, milliseconds }) => {
        return sum + (operations * 1000) / Math.max(milliseconds, 0.001);
      }, 0),
    );
  }
  return { operation: task.operation, rounds, median: median(rounds) };
}

export function median(numbers: readonly number[]): number {
  const sorted = [...numbers].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

function describeRun({ version }: Context, plan: Plan, results: Rate[]): object {
  const machine = `${process.platform}-${process.arch}, ${availableParallelism()} cores`;
  return { stepwell: version, node: process.version, machine, ...plan, results };
}

function describe(plan: Plan, rates: Rate[], style: Style): string {
  const rows = rates.map(({ operation, rounds, median: middle }) => [
    operation,
    formatCount(middle),
    formatCount(Math.min(...rounds)),
    formatCount(Math.max(...rounds)),
    // Each client has one operation in flight.
    `${((plan.clients * 1e6) / middle).toFixed(2)} µs`,
    String(rounds.length),
  ]);
  const heads = 'OPERATION | MEDIAN/S: | MIN/S: | MAX/S: | EACH: | ROUNDS:';
  const setting =
    `${plural(plan.records, 'record')} of ${plural(plan.valueSize, 'byte')}, ` +
    `${plural(plan.clients, 'client')}, in ${plan.url}`;
  return `${setting}\n${table(heads, rows, style)}`;
}
