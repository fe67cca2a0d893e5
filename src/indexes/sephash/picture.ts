import {
  type Address,
  Batch,
  highHalf,
  lowHalf,
  type Operation,
  Scratch,
} from '../../verbs/index.ts';
import { type IndexPicture, type PicturePart, pictureOf, spread } from '../picture.ts';
import { isPad, signOf } from './segments/entry.ts';
import { epochOf, mainOf, signOfEpoch } from './segments/header.ts';
import { MAIN_LINE_BYTES, parseMainHeader } from './segments/main-segment.ts';
import type { SepHashTable } from './table.ts';

/** Some segments as they are. A MainSegment's records may have been replaced by later entries. */
export function* paint(table: SepHashTable, partsMax: number): Operation<IndexPicture> {
  const { directory } = table;
  const segments = directory.subtables();
  const shown: PicturePart[] = [];
  for (const segment of spread(segments, partsMax)) {
    const part = yield* partOf(table, segment);
    if (part !== undefined) shown.push(part);
  }
  const layer = { parts: 'segments', cell: 'entry of the CurSegment', total: segments.length };
  return pictureOf([{ ...layer, isExact: true, shown }], directory.depth);
}

/** Undefined when the segment was merged between the READs. */
function* partOf({ geometry }: SepHashTable, header: Address): Operation<PicturePart | undefined> {
  const words = new Scratch(16);
  yield new Batch().read(header, 8, words, 0);
  const main = new Scratch(MAIN_LINE_BYTES);
  const [low, high] = [lowHalf(words, 0), highHalf(words, 0)];
  yield new Batch().read(mainOf(low, high), MAIN_LINE_BYTES, main, 0);
  const { count, suffix, depth, slots } = parseMainHeader(main, 0);
  const entries = new Scratch(geometry.slotsBytes);
  yield new Batch().read(slots, geometry.slotsBytes, entries, 0).read(header, 8, words, 8);
  if (lowHalf(words, 8) !== low || highHalf(words, 8) !== high) return undefined;
  const sign = signOfEpoch(epochOf(high));
  const cells = Array.from({ length: geometry.slots }, (_, i) => {
    const entry = highHalf(entries, 8 * i);
    return signOf(entry) === sign && !isPad(entry) ? 1 : 0;
  });
  const current = cells.reduce<number>((sum, cell) => sum + cell, 0);
  const { mainLimit, slots: ofCurrent } = geometry;
  return {
    name: suffix.toString(2).padStart(depth, '0'),
    suffix,
    depth,
    used: count + current,
    slots: mainLimit + ofCurrent,
    cells,
    bars: [
      { name: 'MainSegment', used: count, slots: mainLimit },
      { name: 'CurSegment', used: current, slots: ofCurrent },
    ],
  };
}
