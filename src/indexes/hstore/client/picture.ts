import { hasCode } from '../../../errors.ts';
import { control } from '../../../pool/control.ts';
import type { Operation } from '../../../verbs/index.ts';
import { type IndexPicture, type PicturePart, pictureOf } from '../../picture.ts';
import type { Pair } from '../pair.ts';
import { PAIR } from '../protocol/geometry.ts';
import { readState } from '../protocol/pair-state.ts';
import { BUCKET_BYTES, SLOTS } from '../protocol/slot.ts';
import { readBuckets, STEP_BUCKETS } from '../protocol/table-reader.ts';
import type { HStoreTable } from './table.ts';

/** Places of a table at which STEP_BUCKETS are read. */
const STEPS = 16;

/** Each pair as it is: some buckets of its table, and how far its servers are. */
export function* paint(table: HStoreTable): Operation<IndexPicture> {
  const shown: PicturePart[] = [];
  for (const pair of table.pairs) shown.push(yield* partOf(pair));
  const layer = { parts: 'pairs of servers', cell: 'bucket', total: table.pairs.length };
  const picture = pictureOf([{ ...layer, isExact: true, shown }]);
  return { ...picture, isExact: table.shape.buckets <= STEPS * STEP_BUCKETS };
}

function* partOf(pair: Pair): Operation<PicturePart> {
  const { geometry } = pair;
  const { buckets, log } = geometry.shape;
  const state = yield* readState(pair);
  const done = Number(yield* control.load(geometry.base + PAIR.applied));
  const cells: number[] = [];
  let chained = 0;
  const steps = Math.min(STEPS, Math.ceil(buckets / STEP_BUCKETS));
  for (let step = 0; step < steps; step++) {
    const first = Math.floor((step * buckets) / steps);
    const some = yield* cellsFrom(pair, first);
    cells.push(...some.cells);
    chained += some.chained;
  }
  const slots = SLOTS * buckets;
  const fill = cells.reduce((sum, cell) => sum + cell, 0) / Math.max(1, cells.length);
  const used = Math.round(fill * slots);
  const behind = state.committed - done;
  const all = buckets / Math.max(1, cells.length);
  return {
    name: `${geometry.number}`,
    used,
    slots,
    cells: cells.map((cell) => Math.min(1, cell)),
    bars: [
      { name: 'hash table', used, slots },
      { name: 'chained buckets', used: Math.round(all * chained), slots: buckets },
      { name: 'log not in skiplist', used: Math.min(log, Math.max(0, behind)), slots: log },
    ],
  };
}

/** How full buckets are with what is chained to them; nothing of a table that was lost. */
function* cellsFrom(
  { geometry }: Pair,
  first: number,
): Operation<{ cells: number[]; chained: number }> {
  try {
    const { count, slots, chained } = yield* readBuckets(geometry, first);
    const start = geometry.bucket(first);
    const cells = new Array<number>(count).fill(0);
    let elsewhere = 0;
    for (const { slot } of slots) {
      const bucket = Math.floor((slot - start) / BUCKET_BYTES);
      if (bucket >= 0 && bucket < count) cells[bucket] += 1 / SLOTS;
      else elsewhere++;
    }
    // Which bucket a chained one hangs on is not told: they are shared out.
    return { cells: cells.map((c) => c + elsewhere / SLOTS / count), chained: chained.length };
  } catch (error) {
    if (hasCode(error, 'SW_POOL_CORRUPT')) return { cells: [], chained: 0 };
    throw error;
  }
}
