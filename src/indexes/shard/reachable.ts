import { SLOT_UNITS_MAX } from '../../records/layout.ts';
import type { Address, Operation } from '../../verbs/index.ts';
import type { ShardTable } from './table.ts';
import { ShardWalk, WALK_START } from './walk.ts';

/**
 * Visits every block that a key or the root reaches throughout. A walk meets every record that is
 * present from its beginning to its end.
 */
export function* eachReachable(
  table: ShardTable,
  visit: (address: Address) => void,
): Operation<void> {
  const request = table.newRequest();
  const walk = new ShardWalk(table, request, { ...WALK_START });
  while (!walk.done) {
    const long: Address[] = [];
    yield* walk.nextSlots((record, units, pending) => {
      visit(record);
      // What hangs on a dead client's claim is never read again.
      if (units === SLOT_UNITS_MAX && !pending) long.push(record);
    }, visit);
    for (const record of long) {
      yield* table.records.adopt(request, record, SLOT_UNITS_MAX, table.geometry.shape.seed);
      const blocks = yield* table.records.foundBlocks(request, record);
      for (const { address } of blocks) visit(address);
    }
  }
  // Read anew: a segment may have been published that no bucket has been moved to yet.
  yield* table.segments.load();
  for (const segment of table.segments.addresses) visit(segment);
  // The walk has met them all.
  for (const bucket of table.segments.relocations) visit(bucket);
}
