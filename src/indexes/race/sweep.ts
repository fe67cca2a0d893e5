import { SLOT_UNITS_MAX } from '../../records/layout.ts';
import type { Address, Operation } from '../../verbs/index.ts';
import {
  type EachClaim,
  visitClaims,
  withdrawAbandoned,
} from '../substrates/claims/abandoned-claims.ts';
import { eachBucket } from './shape.ts';
import { RACE_SLOTS } from './slot.ts';
import type { RaceTable } from './table.ts';
import { RaceWalk, WALK_START } from './walk.ts';

/** What a sweep of a full pool asks of the index. */

/** Behind a bucket's header. */
const SLOTS_AT = 8;

/**
 * Withdraws the claims that dead clients have left: their records pin chunks of a full pool until
 * the claims' buckets are split. Returns how many there were.
 */
export function compact(table: RaceTable, grace: () => Operation<boolean>): Operation<number> {
  return withdrawAbandoned((visit) => eachClaim(table, visit), RACE_SLOTS, grace);
}

/** Of buckets that are not being split: a mover drops the claims that it has frozen. */
function eachClaim(table: RaceTable, visit: Parameters<EachClaim>[0]): Operation<void> {
  const { geometry } = table;
  const { associativity } = geometry.shape;
  return eachBucket(table, (words, at, subtable, bucket) => {
    const slots = geometry.bucketAddress(subtable, bucket) + SLOTS_AT;
    visitClaims(RACE_SLOTS, words, at + SLOTS_AT, associativity, slots, visit);
  });
}

/**
 * Visits every block that a key or the directory reaches throughout. A walk meets every record that
 * is present from its beginning to its end.
 */
export function* eachReachable(
  table: RaceTable,
  visit: (address: Address) => void,
): Operation<void> {
  const request = table.newRequest();
  const walk = new RaceWalk(table, request, { ...WALK_START });
  while (walk.position !== undefined) {
    const long: Address[] = [];
    yield* walk.nextSlots((record, units, pending) => {
      visit(record);
      // A claim that was withdrawn while a mover had frozen it may name a block re-used since, and
      // what hangs on a dead client's claim is never read again.
      if (units === SLOT_UNITS_MAX && !pending) long.push(record);
    });
    for (const record of long) {
      yield* table.records.adopt(request, record, SLOT_UNITS_MAX);
      const blocks = yield* table.records.foundBlocks(request, record);
      for (const { address } of blocks) visit(address);
    }
  }
  // Read anew: a splitter may have died right after it had published a child that no client has met
  // yet.
  yield* table.directory.load();
  for (const subtable of table.directory.subtables()) visit(subtable);
}
