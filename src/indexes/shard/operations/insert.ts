import { invariant } from '../../../errors.ts';
import {
  copyWord,
  highHalf,
  lowHalf,
  type Operation,
  setWord,
  swapped,
} from '../../../verbs/index.ts';
import { claimSlot } from '../../substrates/claims/claim-slot.ts';
import { evict } from '../../substrates/claims/rival-claims.ts';
import { readCandidates } from '../../substrates/claims/slot-candidates.ts';
import { pointerLow } from '../../substrates/claims/slot-format.ts';
import { BUCKETS_AT, SWAP_AT } from '../../substrates/claims/slot-request.ts';
import { extendChain } from '../overflow/extend-chain.ts';
import { catchUp } from '../resizing/catch-up.ts';
import type { ShardRequest } from '../table/request.ts';
import { FROZEN, isOpen, OVERFLOW, PENDING } from '../table/slot.ts';
import type { ShardTable } from '../table/table.ts';
import {
  emptyBelow,
  firstEmpty,
  firstFresh,
  postLower,
  readChain,
  unsettledPlace,
} from './buckets.ts';
import { gatherRivals, type ShardSlots } from './slots.ts';

/**
 * Insertion of a key that `locate` did not find (Algorithm 1). `locate` was the first round trip.
 *
 * As long as level 1 has a slot that was never used at this version, the first such slot in the
 * key's rotated order is taken by one CAS (Ordered-CAS, section 3.2): the second and last round
 * trip. Slots are used once a version, so of two inserters of a key that both missed the other the
 * second finds the first in its way: two copies of a key cannot come into being.
 *
 * When every slot has been used, no CAS of that kind can succeed any more in this version. From
 * then on all insertions claim an empty slot, wherever it is.
 *
 * Returns false when the operation must begin again.
 */
export function* insert(
  slots: ShardSlots,
  request: ShardRequest,
  attempt: number,
): Operation<boolean> {
  const { table } = slots;
  const at = table.techniques.ordered ? firstFresh(table, request) : 0;
  if (at === 0) return yield* claim(slots, request, attempt);
  // A claim below that was made before this bucket left its last version may still be committed.
  if (request.isWide && (yield* evictClaims(slots, request))) {
    yield* table.retry(request, 'pendingKey', attempt);
    return false;
  }
  const { batch, words } = request;
  prepareEntry(slots, request, at);
  table.records.postFirst(request, batch.clear());
  yield batch.cas(table.slotAddress(request, at), words, SWAP_AT);
  request.slotAt = at;
  if (swapped(words, SWAP_AT)) return true;
  yield* table.retry(request, 'slotChanged', attempt);
  return false;
}

/** CAS words: what the slot at `at` was seen to hold, and the entry of the outgoing record. */
export function prepareEntry(slots: ShardSlots, request: ShardRequest, at: number): void {
  copyWord(request.words, at, SWAP_AT);
  const isFree = isOpen(lowHalf(request.words, at), highHalf(request.words, at));
  invariant(isFree, 'an entry is put into a slot that is taken');
  setWord(request.words, SWAP_AT + 8, pointerLow(request.block), slots.entryHigh(request, at));
}

/** Withdraws claims of the key in levels 2 and 3; returns whether there were any. */
function* evictClaims(slots: ShardSlots, request: ShardRequest): Operation<boolean> {
  const { candidates, candidateAt, words } = request;
  gatherRivals(slots.table, request, 1);
  let pending = 0;
  for (let i = 0; i < request.candidateCount; i++) {
    if ((highHalf(words, candidates[i]) & PENDING) !== 0) candidates[pending++] = candidates[i];
  }
  request.candidateCount = pending;
  yield* readCandidates(request);
  let evicted = false;
  for (let i = 0; i < pending; i++) {
    if (!request.matches(candidateAt[i])) continue;
    evicted = true;
    yield* evict(slots, request, candidates[i]);
  }
  return evicted;
}

/**
 * Insertion where level 1 has no slot that was never used. An emptied slot of level 1 serves, else
 * one of level 2 (the less loaded choice) or 3, once the overflow bit of level 1 tells searches to
 * look there.
 *
 *   D[CAS overflow bit; READ level 2, 2, 3]   if it was not set and level 1 has no empty slot
 *   D[WRITE record; CAS empty -> pending; READ level 1, 2, 2, 3, known chain nodes]
 *   CAS pending -> committed                  both in claim-slot.ts
 */
function* claim(slots: ShardSlots, request: ShardRequest, attempt: number): Operation<boolean> {
  const { table } = slots;
  let at = firstEmpty(table, request);
  if (at === 0) {
    if (!request.isWide && !(yield* overflow(table, request, attempt))) return false;
    at = emptyBelow(table, request);
  }
  if (at !== 0) return yield* claimSlot(slots, request, at, attempt);
  table.crowded = true;
  yield* extendChain(table, request);
  yield* table.retry(request, 'chainExtended', attempt);
  return false;
}

/**
 * Sets the overflow bit in the first entry of level 1 and reads levels 2 and 3. From now on no
 * search takes a miss in level 1 for an answer.
 */
function* overflow(table: ShardTable, request: ShardRequest, attempt: number): Operation<boolean> {
  const { batch, words, addresses } = request;
  copyWord(words, BUCKETS_AT, SWAP_AT);
  invariant((highHalf(words, SWAP_AT) & FROZEN) === 0, 'a frozen word gets an overflow bit');
  const high = highHalf(words, BUCKETS_AT) | OVERFLOW;
  setWord(words, SWAP_AT + 8, lowHalf(words, BUCKETS_AT), high);
  yield postLower(table, request, batch.clear().cas(addresses[0], words, SWAP_AT));
  if (!swapped(words, SWAP_AT)) {
    yield* table.retry(request, 'slotChanged', attempt);
    return false;
  }
  setWord(words, BUCKETS_AT, lowHalf(words, BUCKETS_AT), high);
  yield* readChain(request);
  const place = unsettledPlace(table, request);
  if (place < 0) return true;
  yield* catchUp(table, request, place, attempt);
  return false;
}
