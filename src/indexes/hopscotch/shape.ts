import type { Operation } from '../../verbs/index.ts';
import { slotsOf } from '../chime/node-io.ts';
import { isLive } from '../chime/slot.ts';
import type { IndexShape } from '../contract.ts';
import { SegmentWalk } from './segments.ts';
import type { HopscotchTable } from './table.ts';

/** Counts by a walk over the segments, without reading records. */
export function* shapeOf(table: HopscotchTable): Operation<IndexShape> {
  table.directory.begin();
  const walk = new SegmentWalk(table);
  let subtables = 0;
  let records = 0;
  while (walk.position !== undefined) {
    const slots = slotsOf(table, (yield* walk.next()).segment);
    subtables++;
    for (let i = 0; i < slots.length; i += 2) if (isLive(slots[i], slots[i + 1])) records++;
  }
  const globalDepth = yield* table.directory.readDepth();
  return { globalDepth, subtables, slots: subtables * table.geometry.shape.span, records };
}
