import { type Address, Batch, type Operation, Scratch, UNIT_BYTES } from '../../verbs/index.ts';
import type { IndexShape } from '../contract.ts';
import { type IndexPicture, type PicturePart, pictureOf, spread } from '../picture.ts';
import { slotsSettled } from './buckets.ts';
import { settle } from './migrate.ts';
import { depthOf, isLive, isReady } from './slot.ts';
import type { RaceTable } from './table.ts';

const READ_BYTES = 32 * 1024;
const SETTLE_ROUNDS_MAX = 1000;
const BUCKETS_PER_GROUP = 3;
/** Groups that are read of one subtable. */
const GROUPS_MAX = 128;

/**
 * Visits every bucket of every subtable once, after finishing moves that a dead client may have
 * left half done. `at` is the bucket's offset in the scratch.
 */
export function* eachBucket(
  table: RaceTable,
  visit: (words: Scratch, at: number, subtable: Address, bucket: number) => void,
): Operation<void> {
  const { geometry, directory } = table;
  yield* directory.load();
  const perRead = Math.min(geometry.buckets, Math.floor(READ_BYTES / geometry.bucketBytes) || 1);
  const area = new Scratch(perRead * geometry.bucketBytes);
  for (const subtable of directory.subtables()) {
    for (let first = 0; first < geometry.buckets; first += perRead) {
      const count = Math.min(perRead, geometry.buckets - first);
      yield* readSettled(table, subtable, first, count, area);
      for (let i = 0; i < count; i++) visit(area, i * geometry.bucketBytes, subtable, first + i);
    }
  }
}

function* readSettled(
  table: RaceTable,
  subtable: Address,
  first: number,
  count: number,
  area: Scratch,
): Operation<void> {
  const { geometry } = table;
  for (let round = 0; round < SETTLE_ROUNDS_MAX; round++) {
    const address = geometry.bucketAddress(subtable, first);
    yield new Batch().read(address, count * geometry.bucketBytes, area, 0);
    let unsettled = 0;
    for (let i = 0; i < count; i++) {
      const at = i * geometry.bucketBytes;
      const header = area.i32[(at >> 2) + 1];
      if (isReady(header) && slotsSettled(area.i32, at, geometry.bucketBytes, depthOf(header))) {
        continue;
      }
      unsettled++;
      yield* settle(table, subtable, first + i);
    }
    if (unsettled === 0) return;
  }
}

/** Counts by a walk over the slots, without reading records. */
export function* shapeOf(table: RaceTable): Operation<IndexShape> {
  const { bucketBytes } = table.geometry;
  let records = 0;
  yield* eachBucket(table, ({ i32 }, at) => {
    const end = (at + bucketBytes) >> 2;
    for (let word = (at >> 2) + 2; word < end; word += 2) {
      if (isLive(i32[word], i32[word + 1])) records++;
    }
  });
  const subtables = table.directory.subtables().length;
  return {
    globalDepth: table.directory.depth,
    subtables,
    slots: subtables * table.geometry.slots,
    records,
  };
}

/** Some subtables as they are: a record that is being moved may be missed, or be met twice. */
export function* paint(table: RaceTable, partsMax: number): Operation<IndexPicture> {
  const { directory } = table;
  const subtables = directory.subtables();
  const shown: PicturePart[] = [];
  for (const subtable of spread(subtables, partsMax)) shown.push(yield* partOf(table, subtable));
  const layer = { parts: 'subtables', cell: 'bucket group', total: subtables.length };
  return pictureOf([{ ...layer, isExact: true, shown }], directory.depth);
}

function* partOf({ geometry }: RaceTable, subtable: Address): Operation<PicturePart> {
  const { associativity, groups } = geometry.shape;
  const read = Math.min(groups, GROUPS_MAX);
  const groupBytes = BUCKETS_PER_GROUP * geometry.bucketBytes;
  const words = new Scratch(read * groupBytes);
  yield new Batch().read(subtable + UNIT_BYTES, read * groupBytes, words, 0);
  const slots = BUCKETS_PER_GROUP * associativity;
  const cells = Array.from({ length: read }, (_, group) => {
    return liveIn(words, group * groupBytes, groupBytes, geometry.bucketBytes) / slots;
  });
  const used = slots * cells.reduce((sum, fill) => sum + fill, 0) * (groups / read);
  const depth = depthOf(words.i32[1]);
  const suffix = words.i32[0] >>> 0;
  const name = suffix.toString(2).padStart(depth, '0');
  return { name, suffix, depth, used: Math.round(used), slots: geometry.slots, cells };
}

function liveIn({ i32 }: Scratch, start: number, bytes: number, bucketBytes: number): number {
  let live = 0;
  for (let at = start; at < start + bytes; at += 8) {
    const isHeader = (at - start) % bucketBytes === 0;
    if (!isHeader && isLive(i32[at >> 2], i32[(at >> 2) + 1])) live++;
  }
  return live;
}
