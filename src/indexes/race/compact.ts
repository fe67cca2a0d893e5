import type { Operation } from '../../verbs/index.ts';
import { type EachClaim, withdrawAbandoned } from '../substrates/claims/abandoned-claims.ts';
import { eachBucket } from './shape.ts';
import { emptySlot, isVacant, PENDING, stampOf } from './slot.ts';
import type { RaceTable } from './table.ts';

/** Behind a bucket's header. */
const SLOTS_AT = 8;

/**
 * Withdraws the claims that dead clients have left: their records pin chunks of a full pool until
 * the claims' buckets are split. Returns how many there were.
 */
export function compact(table: RaceTable, grace: () => Operation<boolean>): Operation<number> {
  const emptied = (high: number) => emptySlot(stampOf(high));
  return withdrawAbandoned((visit) => eachClaim(table, visit), emptied, grace);
}

/** Of buckets that are not being split: a mover drops the claims that it has frozen. */
function eachClaim(table: RaceTable, visit: Parameters<EachClaim>[0]): Operation<void> {
  const { geometry } = table;
  return eachBucket(table, ({ i32 }, at, subtable, bucket) => {
    const address = geometry.bucketAddress(subtable, bucket);
    for (let slot = SLOTS_AT; slot < geometry.bucketBytes; slot += 8) {
      const [low, high] = [i32[(at + slot) >> 2], i32[(at + slot + 4) >> 2]];
      if (!isVacant(low, high) && (high & PENDING) !== 0) visit(address + slot, low, high);
    }
  });
}
