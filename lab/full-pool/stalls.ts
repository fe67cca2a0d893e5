import { LRUCache } from 'lru-cache';
import type { IndexName } from '../../src/store/api.ts';
import type { Plan } from './plan.ts';
import { boundOf, UNREACHED, withStore } from './shared-store.ts';

/** Room for a short record and its share of the index. */
const BYTES_PER_RECORD = 180;
const VALUE_BYTES = '100';
const WRITES = 1_000_000;
/** Records written between two checks whether the store is full. */
const STEP = 100_000;

interface Row {
  store: IndexName | 'lru-cache';
  records: number;
  median: number;
  nearlyAll: number;
  slowest: number;
}

/** How long writing a new key into a full store takes, compared with lru-cache in the same run. */
export async function stalls({ indexes, records }: Plan): Promise<Row[]> {
  console.log(`A million new keys in a full store: microseconds`);
  console.log('store          records     median      99.9 %     slowest');
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
  const sorted = Float64Array.from(nanoseconds).sort();
  const at = (share: number) => sorted[Math.floor(share * (sorted.length - 1))] / 1000;
  return { store, records, median: at(0.5), nearlyAll: at(0.999), slowest: at(1) };
}

function lineOf({ store, records, median, nearlyAll, slowest }: Row): string {
  const shown = [median, nearlyAll, slowest].map((time) => time.toFixed(1).padStart(12)).join('');
  return store.padEnd(11) + String(records).padStart(11) + shown;
}
