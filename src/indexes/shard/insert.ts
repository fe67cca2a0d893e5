import { SLOT_UNITS_MAX } from '../../records/layout.ts';
import { copyWord, highHalf, type Operation, setWord, swapped } from '../../verbs/index.ts';
import { firstFresh } from './buckets.ts';
import { claim } from './claim.ts';
import { hashOfPlace } from './geometry.ts';
import { evictClaims } from './rivals.ts';
import { entryHigh, KEPT_MASK, pointerLow } from './slot.ts';
import { type ShardRequest, type ShardTable, SWAP_AT } from './table.ts';

/**
 * Insertion of a key that `locate` did not find (Algorithm 1). `locate` was the first round trip.
 *
 * As long as level 1 has a slot that was never used at this version, the first such slot in the
 * key's rotated order is taken by one CAS (Ordered-CAS, section 3.2): the second and last round
 * trip. Slots are used once a version, so of two inserters of a key that both missed the other the
 * second finds the first in its way: two copies of a key cannot come into being.
 *
 * When every slot has been used, no CAS of that kind can succeed any more in this version. From
 * then on all insertions claim an empty slot, wherever it is, make sure that the key has no other,
 * and commit; see claim.ts.
 *
 * Returns false when the operation must begin again.
 */
export function* insert(
  table: ShardTable,
  request: ShardRequest,
  attempt: number,
): Operation<boolean> {
  const at = table.geometry.shape.ordered === 1 ? firstFresh(table, request) : 0;
  if (at === 0) return yield* claim(table, request, attempt);
  // A claim below that was made before this bucket left its last version may still be committed.
  if (request.isWide && (yield* evictClaims(table, request))) {
    yield* table.retry(request, 'pendingKey', attempt);
    return false;
  }
  const { batch, words } = request;
  prepareEntry(table, request, at, 0);
  table.records.postFirst(request, batch.clear());
  yield batch.cas(table.slotAddress(request, at), words, SWAP_AT);
  request.slotAt = at;
  if (swapped(words, SWAP_AT)) return true;
  yield* table.retry(request, 'slotChanged', attempt);
  return false;
}

/** CAS words: what the slot at `at` was seen to hold, and the entry of the outgoing record. */
export function prepareEntry(
  table: ShardTable,
  request: ShardRequest,
  at: number,
  flags: number,
): void {
  const { words, block, fingerprint, headUnits, hash, version, nodesAt } = request;
  const units = Math.min(headUnits, SLOT_UNITS_MAX);
  const seen = highHalf(words, at);
  // Chain nodes are of no version.
  const place = table.placeOf(request, at);
  const id = at >= nodesAt ? 0 : table.geometry.segmentId(hashOfPlace(hash, place), version);
  const high = entryHigh(block, fingerprint, units, id) | (seen & KEPT_MASK);
  copyWord(words, at, SWAP_AT);
  setWord(words, SWAP_AT + 8, pointerLow(block), high | flags);
}
