import { hasCode } from '../../../errors.ts';
import { Frame, type Operation } from '../../../verbs/index.ts';
import { type IndexPicture, type PicturePart, pictureOf } from '../../picture.ts';
import type { Pair } from '../pair.ts';
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
  const { number, shape } = pair.geometry;
  const { buckets, log } = shape;
  const { committed, skiplist } = yield* readState(pair);
  const cells: number[] = [];
  let chained = 0;
  const steps = Math.min(STEPS, Math.ceil(buckets / STEP_BUCKETS));
  for (let step = 0; step < steps; step++) {
    chained += yield* addCells(pair, Math.floor((step * buckets) / steps), cells);
  }
  const slots = SLOTS * buckets;
  const part = 1 / Math.max(1, cells.length);
  const used = Math.round(part * slots * cells.reduce((sum, cell) => sum + cell, 0));
  const behind = Math.min(log, Math.max(0, committed - skiplist.applied));
  return {
    name: `${number}`,
    used,
    slots,
    cells: cells.map((cell) => Math.min(1, cell)),
    bars: [
      { name: 'hash table', used, slots },
      { name: 'chained buckets', used: Math.round(part * buckets * chained), slots: buckets },
      { name: 'log not in skiplist', used: behind, slots: log },
    ],
  };
}

/**
 * Adds how full buckets are with what is chained to them, and returns how many are chained; nothing
 * of a table that was lost.
 */
function* addCells({ geometry }: Pair, first: number, all: number[]): Operation<number> {
  try {
    const count = Math.min(STEP_BUCKETS, geometry.shape.buckets - first);
    const cells = new Array<number>(count).fill(0);
    const chained = yield* readBuckets(geometry, first, count, new Frame(0), (slot) => {
      const bucket = Math.floor((slot - geometry.bucket(first)) / BUCKET_BYTES);
      // Which bucket a chained one hangs on is not told: they are shared out.
      if (bucket >= 0 && bucket < count) cells[bucket] += 1 / SLOTS;
      else for (let i = 0; i < count; i++) cells[i] += 1 / SLOTS / count;
    });
    all.push(...cells);
    return chained.size;
  } catch (error) {
    if (hasCode(error, 'SW_POOL_CORRUPT')) return 0;
    throw error;
  }
}
