/**
 * Reads with a near cache over a network, beside reads of the same store without one: time, and
 * round trips and bytes as the clients' fabrics count them.
 */
import { loadavg } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import type { AsyncStore, IndexName, OpenOptions } from '../../src/store/api.ts';
import { RemoteClients } from '../../src/store/remote/remote-clients.ts';
import { openRemote } from '../../src/store/remote/remote-store.ts';
import { startMemoryNode } from '../../src/store/servers/memory-node.ts';
import { Cleanup } from '../support/cleanup.ts';
import { parseOptions } from '../support/options.ts';
import { median } from '../support/statistics.ts';
import { table } from '../support/text.ts';
import { keysOf } from './plan.ts';

const SPEC = {
  index: { kind: 'text', fallback: 'race', help: 'kind of index of the store' },
  fabrics: { kind: 'text', fallback: 'tcp,ucx', help: 'tcp, ucx' },
  nodes: { kind: 'text', fallback: '1,2', help: 'numbers of memory nodes' },
  bytes: { kind: 'text', fallback: '100,4096,65536', help: 'bytes of a value' },
  keys: { kind: 'integer', fallback: 200, minimum: 10, help: 'records that are read' },
  rounds: { kind: 'integer', fallback: 7, minimum: 1, help: 'rounds, of which the median counts' },
} as const;
type Settings = ReturnType<typeof parseOptions<typeof SPEC>>;

const NODE_BYTES = 2 ** 27;
/** Writes of other keys, each of which retires a block, so that their client advances the epoch. */
const WRITES_BETWEEN = 300;
/** A client without operations for this long is idle, and announces the current epoch next time. */
const IDLE_MS = 100;
/** Near cache entries per key: more than enough room for all. */
const ROOM = 10;
/** Rounds after which the near cache has all values, and the code is compiled. */
const WARMING = 10;

type Texts = Pick<AsyncStore<unknown>, 'get' | 'set' | 'counters'>;

interface Setting {
  readonly fabric: string;
  readonly nodes: number;
  readonly bytes: number;
}

/** Mean costs of a read. */
interface Cost {
  readonly micros: number;
  readonly roundTrips: number;
  readonly bytesRead: number;
}

export async function main(argv: string[]): Promise<void> {
  const settings = parseOptions('stepwell-lab near-network', SPEC, argv);
  const before = loadavg()[0];
  const rows: string[][] = [];
  for (const fabric of settings.fabrics.split(',')) {
    for (const nodes of settings.nodes.split(',').map(Number)) {
      for (const bytes of settings.bytes.split(',').map(Number)) {
        rows.push(...(await measure({ fabric, nodes, bytes }, settings)));
      }
    }
  }
  const header = ['fabric', 'nodes', 'value', 'reads', 'us', 'round trips', 'bytes read'];
  console.log(table(header, rows, 4));
  console.log(`\nload average: ${before.toFixed(1)} before, ${loadavg()[0].toFixed(1)} after`);
}

async function measure(setting: Setting, settings: Settings): Promise<string[][]> {
  const { fabric, nodes, bytes } = setting;
  const cleanup = new Cleanup();
  try {
    const ports: number[] = [];
    for (let i = 0; i < nodes; i++) {
      const ucx = fabric === 'ucx' ? ({ fabric: 'ucx', transports: 'tcp' } as const) : {};
      const node = await startMemoryNode({ port: 0, size: NODE_BYTES, ...ucx });
      cleanup.add(() => node.stop());
      ports.push(node.port);
    }
    const url = `${fabric}://${ports.map((port) => `127.0.0.1:${port}`).join(',')}/near`;
    const opened = async (options: OpenOptions = {}) => {
      const index = settings.index as IndexName;
      // A separate client, whose counters count only its own reads.
      const store = await openRemote(url, { index, ...options }, new RemoteClients());
      cleanup.add(() => store.close());
      return store;
    };
    const plain = await opened();
    const near = await opened({ nearCache: ROOM * settings.keys });
    const keys = keysOf(settings.keys);
    for (const key of keys) await plain.set(key, 'v'.repeat(bytes));
    const costs = await costsOf(plain, near, keys, settings.rounds);
    return [...costs].map(([reads, cost]) => [
      fabric,
      String(nodes),
      bytes < 1024 ? `${bytes} B` : `${bytes / 1024} KB`,
      reads,
      ...shown(cost),
    ]);
  } finally {
    await cleanup.run();
  }
}

async function costsOf(
  plain: Texts,
  near: Texts,
  keys: readonly string[],
  rounds: number,
): Promise<Map<string, Cost[]>> {
  const costs = new Map<string, Cost[]>();
  for (let round = -WARMING; round < rounds; round++) {
    const note = (reads: string, cost: Cost) => {
      if (round >= 0) costs.set(reads, [...(costs.get(reads) ?? []), cost]);
    };
    note('without near cache', await pass(plain, keys));
    note('near, epoch as before', await pass(near, keys));
    if (round < 0) continue;
    await changeEpoch(plain);
    note('near, epoch changed', await pass(near, keys));
  }
  return costs;
}

async function changeEpoch(plain: Texts): Promise<void> {
  for (let i = 0; i < WRITES_BETWEEN; i++) await plain.set(`other ${i % 10}`, 'v');
  await pause(IDLE_MS);
  await plain.set('other', 'v');
}

/** Reads every key once, one after another. */
async function pass(store: Texts, keys: readonly string[]): Promise<Cost> {
  const { traffic: before } = await store.counters();
  const began = performance.now();
  for (const key of keys) await store.get(key);
  const micros = (1000 * (performance.now() - began)) / keys.length;
  const { traffic: after } = await store.counters();
  return {
    micros,
    roundTrips: (after.roundTrips - before.roundTrips) / keys.length,
    bytesRead: (after.bytesRead - before.bytesRead) / keys.length,
  };
}

function shown(costs: readonly Cost[]): string[] {
  const of = (what: keyof Cost) => median(costs.map((cost) => cost[what]));
  return [of('micros').toFixed(0), of('roundTrips').toFixed(2), of('bytesRead').toFixed(0)];
}
