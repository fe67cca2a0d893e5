import type { Address, Operation } from '../../verbs/index.ts';
import { visitLeafRecords } from '../chime/leaf-records.ts';
import { addressOfLink } from '../chime/link.ts';
import { SegmentWalk } from './segments.ts';
import type { HopscotchTable } from './table.ts';

/**
 * Visits every block that a key or the directory reaches throughout: also what has been replaced
 * and is not unlinked yet, which somebody will retire, and records that are not committed.
 */
export function* eachReachable(
  table: HopscotchTable,
  visit: (address: Address) => void,
): Operation<void> {
  table.directory.begin();
  const request = table.newRequest();
  const walk = new SegmentWalk(table);
  while (walk.position !== undefined) {
    const { segment, replaced } = yield* walk.next();
    visit(segment.address);
    for (const { low, high } of replaced) visit(addressOfLink(low, high));
    yield* visitLeafRecords(table, request, segment, visit);
  }
}
