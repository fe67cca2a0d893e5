import type { Operation } from '../../verbs/index.ts';
import type { IndexShape } from '../contract.ts';
import { ItemCounts } from '../substrates/leaf/picture.ts';
import { SegmentWalk } from './segments.ts';
import type { HopscotchTable } from './table.ts';

/** Counts by a walk over the segments, without reading records: no writer makes it fail. */
export function* shapeOf(table: HopscotchTable): Operation<IndexShape> {
  const walk = new SegmentWalk(table);
  let subtables = 0;
  const items = new ItemCounts();
  while (walk.position !== undefined) {
    items.add(table, yield* walk.nextAsItIs());
    subtables++;
  }
  const globalDepth = yield* table.directory.parts.readDepth();
  return { globalDepth, subtables, slots: subtables * table.geometry.shape.span, ...items };
}
