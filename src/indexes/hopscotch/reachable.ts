import type { Address, Operation } from '../../verbs/index.ts';
import { visitRecordBlocks } from '../substrates/leaf/picture.ts';
import { SegmentWalk } from './segments.ts';
import type { HopscotchTable } from './table.ts';

/** Visits every block that a key or the directory reaches throughout. */
export function* eachReachable(
  table: HopscotchTable,
  visit: (address: Address) => void,
): Operation<void> {
  const request = table.newRequest();
  const walk = new SegmentWalk(table);
  while (walk.position !== undefined) {
    const segment = yield* walk.next();
    visit(segment.leaf);
    yield* visitRecordBlocks(table, segment, request, visit);
  }
}
