import { setTimeout as pause } from 'node:timers/promises';
import type { IndexName } from '../../src/store/api.ts';
import type { Plan } from './plan.ts';
import { boundOf, type SharedStore, UNREACHED, withStore } from './shared-store.ts';

const POOL_BYTES = 24 * 2 ** 20;
const VALUE_BYTES = '300';
/** All processes together write more than fits. */
const FILL = 70_000;
const WRITES = 10_000;
/** Long enough for all processes to go idle. */
const REST_MS = 1500;

interface Row {
  index: IndexName;
  processes: number;
  writers: number;
  before: number;
  after: number;
  evicted: number;
  refused: number;
}

/** How many records 10,000 writes evict from a full store in which all records have one size. */
export async function evictions({ indexes, processes }: Plan): Promise<Row[]> {
  const rows: Row[] = [];
  console.log(`${WRITES} writes to a full store: records that they evict`);
  console.log('index      processes  writers  records before   after  evicted  refused');
  for (const index of indexes) {
    for (const count of processes) {
      for (const writers of new Set([count, 1])) {
        const row = await withStore(index, count, { size: POOL_BYTES, ...UNREACHED }, (shared) =>
          measure(index, shared, writers),
        );
        rows.push(row);
        console.log(lineOf(row));
      }
    }
  }
  return rows;
}

async function measure(index: IndexName, shared: SharedStore, writers: number): Promise<Row> {
  const { crew } = shared;
  const share = Math.ceil(FILL / crew.size);
  const write = (from: number, count: number) =>
    ({ kind: 'write', from, count, sizes: VALUE_BYTES, timed: false }) as const;
  await crew.all((i) => write(i * share, share));
  await pause(REST_MS);
  const before = boundOf(shared);
  const each = WRITES / writers;
  const done = await Promise.all(
    Array.from({ length: writers }, (_, i) => crew.one(i, write(FILL * (2 + i), each))),
  );
  await pause(REST_MS);
  const after = boundOf(shared);
  const evicted = after.evictions - before.evictions;
  const refused = done.reduce((sum, one) => sum + one.refused, 0);
  const processes = crew.size;
  return {
    index,
    processes,
    writers,
    before: before.records,
    after: after.records,
    evicted,
    refused,
  };
}

function lineOf({ index, processes, writers, before, after, evicted, refused }: Row): string {
  const left = index.padEnd(10) + String(processes).padStart(10) + String(writers).padStart(9);
  const records = String(before).padStart(16) + String(after).padStart(8);
  return left + records + String(evicted).padStart(9) + String(refused).padStart(9);
}
