/**
 * Compares two builds of the package: what a call costs on each index, in processor time and in
 * garbage. The builds alternate. Each measurement has its own process, so that no build profits
 * from code that the other has warmed up.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { cpuTime } from '../support/clock.ts';
import { describeMachine } from '../support/machine.ts';
import { parseOptions, UsageError } from '../support/options.ts';
import { median } from '../support/statistics.ts';
import { figure, table } from '../support/text.ts';
import { KeyGenerator, Permutation, ValueGenerator } from '../workloads/index.ts';

const SPEC = {
  old: { kind: 'text', fallback: '', help: 'the older build: its dist folder' },
  new: { kind: 'text', fallback: 'dist', help: 'the newer build: its dist folder' },
  node: { kind: 'text', fallback: process.execPath, help: 'path of the node to run both with' },
  indexes: {
    kind: 'text',
    fallback: 'race,sephash,shard,chime,hopscotch,hstore',
    help: 'names, with commas',
  },
  records: {
    kind: 'integer',
    fallback: 200_000,
    minimum: 1000,
    help: 'calls of each kind to measure',
  },
  rounds: { kind: 'integer', fallback: 5, minimum: 1, help: 'measurements of each build' },
  url: { kind: 'text', fallback: 'memory:', help: 'where each process creates its pool' },
  json: { kind: 'text', fallback: '', help: 'file to write every figure to' },
} as const;

type Options = ReturnType<typeof parseOptions<typeof SPEC>>;

/** What one process measures of one build. */
interface Task {
  dist: string;
  index: string;
  url: string;
  records: number;
  seed: number;
  /** Garbage needs a large young generation, which would change the times. */
  measures: 'time' | 'garbage';
}

/** Nanoseconds of processor time a call, or bytes a call, by call. */
type Costs = Record<Call, number>;

const CALLS = ['insert', 'set', 'get'] as const;
type Call = (typeof CALLS)[number];

/** The members of a store that both builds have. In older builds `set` is called `put`. */
interface AnyStore {
  set?(key: string, value: Uint8Array): unknown;
  put?(key: string, value: Uint8Array): unknown;
  get(key: string): Uint8Array | undefined;
  close(): void;
}

const POOL_BYTES_A_RECORD = 4096;
const POOL_BYTES_MIN = 256 * 2 ** 20;
/** How many calls to count the garbage of: too few to fill the young generation. */
const COUNTED = 20_000;
const GARBAGE_FLAGS = ['--expose-gc', '--max-semi-space-size=256', '--min-semi-space-size=256'];

/** Runs the calls of one build. */
async function measure(task: Task): Promise<Costs> {
  const { openSync, destroySync } = await import(
    pathToFileURL(resolve(task.dist, 'index.js')).href
  );
  const size = Math.max(POOL_BYTES_MIN, POOL_BYTES_A_RECORD * task.records);
  const options = { size, index: task.index, keys: 'utf8', values: 'bytes' };
  const store: AnyStore = openSync(task.url, options);
  const write = (store.set ?? store.put)?.bind(store);
  if (write === undefined) throw new Error(`${task.dist} has neither set nor put`);
  const calls = callsOf(task, store, write);
  const costs = { insert: 0, set: 0, get: 0 };
  for (const call of CALLS) {
    const count = task.measures === 'time' ? task.records : COUNTED;
    // The second run counts: V8 compiles the functions during the first.
    for (let turn = 0; turn < 2; turn++) costs[call] = calls[call](count);
  }
  store.close();
  if (task.url !== 'memory:') destroySync(task.url, { force: true });
  return costs;
}

/** By call: runs `count` of them and returns what one costs. */
function callsOf(
  { records, seed, measures }: Task,
  store: AnyStore,
  write: (key: string, value: Uint8Array) => unknown,
): Record<Call, (count: number) => number> {
  const keys = new KeyGenerator();
  const values = new ValueGenerator();
  const order = new Permutation(Math.max(records, COUNTED), seed);
  const cost = measures === 'time' ? () => Number(cpuTime()) : garbage;
  let inserted = 0;
  // Keys and values are made before the clock starts.
  const phase = (
    count: number,
    record: (i: number) => number,
    call: (key: string, value: Uint8Array) => void,
  ) => {
    const names = Array.from({ length: count }, (_, i) => keys.string(record(i)));
    const bytes = names.map((_, i) => values.buffer(record(i), seed));
    globalThis.gc?.();
    const before = cost();
    for (let i = 0; i < count; i++) call(names[i], bytes[i]);
    return (cost() - before) / count;
  };
  const existing = (i: number) => order.at(i) % inserted;
  return {
    insert: (count) => {
      const first = inserted;
      const spent = phase(count, (i) => first + i, write);
      inserted += count;
      return spent;
    },
    set: (count) => phase(count, existing, write),
    get: (count) =>
      phase(count, existing, (key) => {
        if (store.get(key) === undefined) throw new Error(`${key} is missing`);
      }),
  };
}

function garbage(): number {
  return process.memoryUsage().heapUsed;
}

/** The process of one measurement. */
async function serveTask(): Promise<void> {
  const [task] = (await once(process, 'message')) as [Task];
  process.send?.(await measure(task));
  process.disconnect();
}

function ask(node: string, task: Task): Promise<Costs> {
  return new Promise((answered, failed) => {
    const flags = task.measures === 'garbage' ? GARBAGE_FLAGS : ['--expose-gc'];
    const child: ChildProcess = fork(process.argv[1], ['compare-builds'], {
      execPath: node,
      // Without the parent's loader, which would compile the builds again.
      execArgv: flags,
      env: { ...process.env, STEPWELL_COMPARE: '1' },
    });
    let answer: Costs | undefined;
    child.on('message', (message) => {
      answer = message as Costs;
    });
    child.on('exit', (code) => {
      if (answer === undefined)
        failed(new Error(`${task.dist}, ${task.index}: ended with ${code}`));
      else answered(answer);
    });
    child.send(task);
  });
}

interface Row {
  index: string;
  call: Call;
  /** One figure per round. */
  old: number[];
  new: number[];
  oldGarbage: number;
  newGarbage: number;
}

async function compare(options: Options, index: string): Promise<Row[]> {
  const { node, rounds, records, url } = options;
  const task = { index, url, records, seed: 1, measures: 'time' as const };
  const builds = [options.old, options.new];
  const costs: Costs[][] = [[], []];
  for (let round = 0; round < rounds; round++) {
    // The build that ran second goes first in the next round.
    for (const build of round % 2 === 0 ? [0, 1] : [1, 0]) {
      costs[build].push(await ask(node, { ...task, dist: builds[build], seed: round + 1 }));
    }
  }
  const [oldGarbage, newGarbage] = [
    await ask(node, { ...task, dist: options.old, measures: 'garbage' }),
    await ask(node, { ...task, dist: options.new, measures: 'garbage' }),
  ];
  return CALLS.map((call) => ({
    index,
    call,
    old: costs[0].map((cost) => cost[call]),
    new: costs[1].map((cost) => cost[call]),
    oldGarbage: oldGarbage[call],
    newGarbage: newGarbage[call],
  }));
}

function report(rows: readonly Row[]): string {
  const header = ['index', 'call', 'old us', 'new us', 'ratio', 'of rounds', 'old bytes', 'new'];
  const cells = rows.map((row) => {
    const ratios = row.new.map((time, round) => time / row.old[round]);
    const range = `${figure(Math.min(...ratios))}-${figure(Math.max(...ratios))}`;
    const times = [median(row.old) / 1000, median(row.new) / 1000, median(ratios)].map(figure);
    const bytes = [row.oldGarbage, row.newGarbage].map((of) => String(Math.round(of)));
    return [row.index, row.call, ...times, range, ...bytes];
  });
  return table(header, cells, 2);
}

export async function main(argv: string[]): Promise<void> {
  if (process.env.STEPWELL_COMPARE) return serveTask();
  const options = parseOptions('stepwell-lab compare-builds', SPEC, argv);
  if (options.old === '') throw new UsageError('--old needs the dist folder of a build');
  const rows: Row[] = [];
  for (const index of options.indexes.split(',')) {
    rows.push(...(await compare(options, index)));
    console.log(`${index}: done`);
  }
  console.log(`\n${report(rows)}\n\nMedians; ratio: new to old in the same round.`);
  if (options.json === '') return;
  const whole = { options, machine: describeMachine(), rows };
  writeFileSync(options.json, `${JSON.stringify(whole, null, 2)}\n`);
}
