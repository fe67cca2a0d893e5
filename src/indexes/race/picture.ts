import { type Address, Batch, type Operation, Scratch, UNIT_BYTES } from '../../verbs/index.ts';
import { type IndexPicture, type PicturePart, pictureOf, spread } from '../picture.ts';
import { GROUP_BUCKETS } from './parts.ts';
import { depthOf, isLive } from './slot.ts';
import type { RaceTable } from './table.ts';

/** Groups that are read of one subtable. */
const GROUPS_MAX = 128;

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
  const groupBytes = GROUP_BUCKETS * geometry.bucketBytes;
  const words = new Scratch(read * groupBytes);
  yield new Batch().read(subtable + UNIT_BYTES, read * groupBytes, words, 0);
  const slots = GROUP_BUCKETS * associativity;
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
