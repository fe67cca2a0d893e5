import type { AsyncStore, IndexName, OpenOptions, Value } from '../../src/store/api.ts';
import { open } from '../../src/store/open.ts';
import { inFlight } from '../../src/store/remote/remote-clients.ts';
import { Cleanup } from '../support/cleanup.ts';
import { firstMessage, startProcess } from '../tcp/processes.ts';
import type { Plan } from './plan.ts';
import { UNREACHED } from './shared-store.ts';

const NODE_BYTES = 64 * 2 ** 20;
/** A pool of this size is full before its store is. */
const SMALL_NODE_BYTES = 12 * 2 ** 20;
/** Short values stand in the leaves of chime and hopscotch; long ones have blocks. */
const VALUE_BYTES = [32, 300];
const RECORDS = 8192;
/**
 * As many as a full pool has records. Fewer would count the writes while a chunk is drained, or
 * those that find its blocks free, and not both.
 */
const WRITES = 16_384;
/** Writes in flight together. */
const WIDTH = 64;

/** How much room writes find. */
const ROOMS = {
  /** None of its writes evicts, or counts what the store holds. */
  unbounded: {},
  'full store': { eviction: 'lru', maxRecords: RECORDS },
  'full pool': { eviction: 'lru', ...UNREACHED },
} as const satisfies Record<string, OpenOptions>;

type Room = keyof typeof ROOMS;

interface Counts {
  /** Doorbells of a write that are waited for. */
  doorbells: number;
  evictions: number;
}

type Row = { index: IndexName; bytes: number } & Record<Room, Counts>;

/** Doorbells of writes of new keys over TCP, in stores that are full and in one that is not. */
export async function doorbells({ indexes }: Plan): Promise<Row[]> {
  const rows: Row[] = [];
  console.log(`Doorbells of a write of a new key over TCP, ${WIDTH} in flight`);
  console.log(
    'index      bytes  unbounded   full store  evictions  more    full pool  evictions  more',
  );
  for (const bytes of VALUE_BYTES) {
    for (const index of indexes) {
      const counts: Partial<Record<Room, Counts>> = {};
      for (const room of Object.keys(ROOMS) as Room[]) {
        counts[room] = await measure(index, bytes, room);
      }
      const row = { index, bytes, ...(counts as Record<Room, Counts>) };
      rows.push(row);
      console.log(lineOf(row));
    }
  }
  return rows;
}

async function measure(index: IndexName, bytes: number, room: Room): Promise<Counts> {
  const cleanup = new Cleanup();
  try {
    const size = room === 'full pool' ? SMALL_NODE_BYTES : NODE_BYTES;
    const node = startProcess(cleanup, 'node-process', [String(size)]);
    const url = `tcp://127.0.0.1:${await firstMessage<number>(node)}`;
    const store = await open(url, { index, maxClients: 8, ...ROOMS[room] });
    cleanup.add(() => store.close());
    return await count(store, 'v'.repeat(bytes), room);
  } finally {
    await cleanup.run();
  }
}

async function count(store: AsyncStore<Value>, value: string, room: Room): Promise<Counts> {
  let next = 0;
  const write = async (records: number) => {
    const keys = Array.from({ length: records }, () => `k${next++}`);
    await inFlight(keys, WIDTH, (key) => store.set(key, value));
  };
  await write(RECORDS);
  if (room === 'full pool') while ((await evictionsOf(store)) === 0) await write(WIDTH);
  // A store that was filled just now has more chunks at hand than one that has been full for long.
  if (room !== 'unbounded') await write(RECORDS);
  // Figures of a store take round trips of their own.
  const evictedBefore = await evictionsOf(store);
  const before = (await store.counters()).traffic.roundTrips;
  await write(WRITES);
  const posted = (await store.counters()).traffic.roundTrips - before;
  const evictions = (await evictionsOf(store)) - evictedBefore;
  return { doorbells: posted / WRITES, evictions: evictions / WRITES };
}

async function evictionsOf(store: AsyncStore<Value>): Promise<number> {
  return (await store.stats()).bound?.evictions ?? 0;
}

function lineOf(row: Row): string {
  const { index, bytes, unbounded } = row;
  const shown = (number: number, width: number) => number.toFixed(2).padStart(width);
  const left = index.padEnd(11) + String(bytes).padStart(5) + shown(unbounded.doorbells, 11);
  const others = [row['full store'], row['full pool']].map(({ doorbells, evictions }) => {
    return shown(doorbells, 13) + shown(evictions, 11) + shown(doorbells - unbounded.doorbells, 6);
  });
  return left + others.join('');
}
