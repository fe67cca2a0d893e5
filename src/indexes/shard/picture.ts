import { Batch, type Operation, Scratch } from '../../verbs/index.ts';
import {
  type IndexPicture,
  type PictureBar,
  type PicturePart,
  pictureOf,
  spread,
} from '../picture.ts';
import type { Partitions } from './partitions/partitions.ts';
import { LEVEL3_LINK, LEVELS } from './table/geometry.ts';
import { isLive, pointerOf } from './table/slot.ts';
import type { ShardTable } from './table/table.ts';

/** Buckets of each level that are read, of all partitions together, and of each at least. */
const BUCKETS_MAX = 512;
const BUCKETS_MIN = 16;

/**
 * Some partitions, and some buckets of all levels of each, as they are. Buckets that no client has
 * come to since a resize are empty; their records stand in the buckets that they are split from.
 */
export function* paint(partitions: Partitions, partsMax: number): Operation<IndexPicture> {
  const { tables } = partitions;
  const chosen = spread(tables, partsMax);
  const buckets = Math.max(BUCKETS_MIN, Math.floor(BUCKETS_MAX / chosen.length));
  const shown: PicturePart[] = [];
  for (const table of chosen) shown.push(yield* partOf(table, buckets));
  const layer = { parts: 'partitions', cell: 'bucket of level 1', total: tables.length };
  const picture = pictureOf([{ ...layer, isExact: true, shown }]);
  const isWhole = shown.every(({ bars, cells }) => bars?.[0].slots === cells.length);
  return { ...picture, isExact: picture.isExact && isWhole };
}

function* partOf(table: ShardTable, bucketsMax: number): Operation<PicturePart> {
  const { geometry, segments } = table;
  const all = geometry.bucketsAt(segments.version);
  const read = Math.min(all, bucketsMax);
  const bytes = geometry.bucketBytes.reduce((sum, each) => sum + each, 0);
  const words = new Scratch(read * bytes);
  const batch = new Batch();
  for (let i = 0; i < read; i++) {
    const bucket = Math.floor((i * all) / read);
    let at = i * bytes;
    for (let level = 0; level < LEVELS; level++) {
      const size = geometry.bucketBytes[level];
      batch.read(segments.bucketAddress(level, bucket), size, words, at);
      at += size;
    }
  }
  yield batch;
  const live: number[][] = [];
  let chains = 0;
  for (let i = 0; i < read; i++) {
    live.push(liveByLevel(geometry.entries, geometry.bucketBytes, words, i * bytes));
    const link = ((i + 1) * bytes - LEVEL3_LINK) >> 2;
    if (pointerOf(words.i32[link], words.i32[link + 1]) !== 0) chains++;
  }
  const sums = live.reduce((sum, one) => sum.map((count, level) => count + one[level]));
  const bars: PictureBar[] = sums.map((count, level) => {
    const slots = geometry.entries[level] * all;
    return { name: `level ${level + 1}`, used: Math.round((count * all) / read), slots };
  });
  bars.push({ name: 'chains', used: Math.round((chains * all) / read), slots: all });
  const levels = bars.slice(0, LEVELS);
  return {
    name: `${table.partition}`,
    used: levels.reduce((sum, { used }) => sum + used, 0),
    slots: levels.reduce((sum, { slots }) => sum + slots, 0),
    cells: live.map(([first]) => first / geometry.entries[0]),
    bars,
  };
}

/** Live entries of the buckets of one number. */
function liveByLevel(
  entries: readonly number[],
  bytes: readonly number[],
  { i32 }: Scratch,
  start: number,
): number[] {
  let from = start;
  return entries.map((count, level) => {
    let live = 0;
    for (let at = from; at < from + 8 * count; at += 8) {
      if (isLive(i32[at >> 2], i32[(at >> 2) + 1])) live++;
    }
    from += bytes[level];
    return live;
  });
}
