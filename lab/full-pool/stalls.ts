import { LRUCache } from 'lru-cache';
import type { IndexName } from '../../src/store/api.ts';
import type { Plan } from './plan.ts';
import { boundOf, UNREACHED, withStore } from './shared-store.ts';

/** Room for a short record and its share of the index. */
const BYTES_PER_RECORD = 180;
const VALUE_BYTES = '100';
const WRITES = 1_000_000;
/** Rounds of the loop that shows how the machine itself interrupts a process. */
const LOOPS = 200_000;
/** Loops that find out how long such a round must be, and the rounds of each. */
const ADJUSTMENTS = 100;
const ROUNDS = 51;
/** Records written between two checks whether the store is full. */
const STEP = 100_000;

interface Row {
  store: IndexName | 'lru-cache';
  records: number;
  median: number;
  nearlyAll: number;
  slowest: number;
  /** 99.9 % of the rounds of a loop that takes as long as the median write. */
  loop: number;
}

/**
 * How long writing a new key into a full store takes, compared with lru-cache in the same run, and
 * with a loop that only computes. Interrupts of the system and of other processes lengthen both, so
 * the loop shows how much of the slowest writes is the machine's.
 */
export async function stalls({ indexes, records }: Plan): Promise<Row[]> {
  console.log(`A million new keys in a full store: microseconds`);
  console.log(
    'store          records      median      99.9 %     slowest  ratio  loop 99.9 %  ratio',
  );
  const rows: Row[] = [lruCache(records)];
  console.log(lineOf(rows[0]));
  for (const index of indexes) {
    const size = records * BYTES_PER_RECORD;
    const row = await withStore(index, 1, { size, ...UNREACHED }, async (shared) => {
      let from = 0;
      const write = async (count: number, timed: boolean) => {
        const task = { kind: 'write', from, count, sizes: VALUE_BYTES, timed } as const;
        const { nanoseconds } = await shared.crew.one(0, task);
        from += count;
        return nanoseconds;
      };
      while (boundOf(shared).evictions === 0) await write(STEP, false);
      const times = await write(WRITES, true);
      return rowOf(index, boundOf(shared).records, times);
    });
    rows.push(row);
    console.log(lineOf(row));
  }
  return rows;
}

function lruCache(records: number): Row {
  const cache = new LRUCache<string, string>({ max: records });
  const value = 'v'.repeat(Number(VALUE_BYTES));
  for (let i = 0; i < records; i++) cache.set(`k${i}`, value);
  const times = Array.from({ length: WRITES }, (_, i) => {
    const begun = process.hrtime.bigint();
    cache.set(`k${records + i}`, value);
    return Number(process.hrtime.bigint() - begun);
  });
  return rowOf('lru-cache', cache.size, times);
}

function rowOf(store: Row['store'], records: number, nanoseconds: readonly number[]): Row {
  const { median, nearlyAll, slowest } = summary(nanoseconds);
  return { store, records, median, nearlyAll, slowest, loop: loopOf(median).nearlyAll };
}

function summary(nanoseconds: readonly number[]) {
  const sorted = Float64Array.from(nanoseconds).sort();
  const at = (share: number) => sorted[Math.floor(share * (sorted.length - 1))] / 1000;
  return { median: at(0.5), nearlyAll: at(0.999), slowest: at(1) };
}

/** Times of a loop whose rounds take `median` microseconds and touch no memory. */
function loopOf(median: number) {
  let steps = 100;
  for (let i = 0; i < ADJUSTMENTS; i++) {
    const longer = median / summary(timesOf(ROUNDS, steps)).median;
    steps = Math.max(1, Math.round(steps * Math.min(2, Math.max(0.5, longer))));
  }
  return summary(timesOf(LOOPS, steps));
}

function timesOf(rounds: number, steps: number): number[] {
  return Array.from({ length: rounds }, () => {
    const begun = process.hrtime.bigint();
    compute(steps);
    return Number(process.hrtime.bigint() - begun);
  });
}

/** Steps that touch no memory; each needs the one before. */
function compute(steps: number): number {
  let value = steps;
  for (let i = 0; i < steps; i++) value = Math.imul(value ^ i, 0x9e3779b1);
  return value;
}

function lineOf({ store, records, median, nearlyAll, slowest, loop }: Row): string {
  const shown = [median, nearlyAll, slowest].map((time) => time.toFixed(1).padStart(12)).join('');
  const ratios = [nearlyAll / median, loop / median].map((ratio) => ratio.toFixed(1).padStart(7));
  const control = `${ratios[0]}${loop.toFixed(1).padStart(13)}${ratios[1]}`;
  return store.padEnd(11) + String(records).padStart(11) + shown + control;
}
