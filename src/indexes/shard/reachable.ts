import { SLOT_UNITS_MAX } from '../../records/layout.ts';
import type { Address, Operation } from '../../verbs/index.ts';
import { learnRelocations } from './new-bucket.ts';
import type { Partitions } from './partitions.ts';
import { ShardWalk, WALK_START } from './walk.ts';

/**
 * Visits every block that a key or the root reaches throughout. A walk meets every record that is
 * present from its beginning to its end.
 */
export function* eachReachable(
  partitions: Partitions,
  visit: (address: Address) => void,
): Operation<void> {
  const { geometry, tables } = partitions;
  const [{ records }] = tables;
  const request = tables[0].newRequest();
  const walk = new ShardWalk(partitions, request, { ...WALK_START });
  while (!walk.done) {
    const long: Address[] = [];
    yield* walk.nextSlots((record, units, pending) => {
      visit(record);
      // What hangs on a dead client's claim is never read again.
      if (units === SLOT_UNITS_MAX && !pending) long.push(record);
    }, visit);
    for (const record of long) {
      yield* records.adopt(request, record, SLOT_UNITS_MAX, geometry.shape.seed);
      const blocks = yield* records.foundBlocks(request, record);
      for (const { address } of blocks) visit(address);
    }
  }
  // Read anew: a segment may have been published that no bucket has been moved to yet.
  for (const address of (yield* partitions.directory.places()).keys()) visit(address);
  // The walk has met those of the tables themselves.
  for (const table of tables) {
    const { segments } = table;
    if (segments.former !== undefined) yield* learnRelocations(table, segments.former);
    for (const each of [segments, segments.former]) {
      for (const { address } of each?.relocations() ?? []) visit(address);
    }
  }
}
