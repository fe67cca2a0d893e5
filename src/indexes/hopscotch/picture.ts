import { Batch, type Operation, Scratch } from '../../verbs/index.ts';
import { type IndexPicture, type PicturePart, pictureOf, spread } from '../picture.ts';
import { paintEntries } from '../substrates/leaf/picture.ts';
import { depthIn, suffixIn } from './bounds.ts';
import type { HopscotchTable } from './table.ts';

/** Some segments as they are: a key that moves meanwhile may be missed, or be met twice. */
export function* paint(table: HopscotchTable, partsMax: number): Operation<IndexPicture> {
  const { directory, geometry } = table;
  const segments = directory.subtables();
  const shown: PicturePart[] = [];
  for (const segment of spread(segments, partsMax)) {
    const words = new Scratch(geometry.leafBytes);
    yield new Batch().read(segment, geometry.leafBytes, words, 0);
    const suffix = suffixIn(words, 0) >>> 0;
    const depth = depthIn(words, 0);
    const name = suffix.toString(2).padStart(depth, '0');
    shown.push({ name, suffix, depth, ...paintEntries(geometry, words) });
  }
  const layer = { parts: 'segments', cell: 'entry', total: segments.length };
  return pictureOf([{ ...layer, isExact: true, shown }], directory.depth);
}
