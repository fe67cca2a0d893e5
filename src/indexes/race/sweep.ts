import type { Operation } from '../../verbs/index.ts';
import {
  type EachClaim,
  visitClaims,
  withdrawAbandoned,
} from '../substrates/claims/abandoned-claims.ts';
import { eachBucket } from './parts.ts';
import { RACE_SLOTS } from './slot.ts';
import type { RaceTable } from './table.ts';

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
