import { invariant } from '../../../errors.ts';
import {
  type Address,
  copyWord,
  highHalf,
  lowHalf,
  type Operation,
  setWord,
  swapped,
} from '../../../verbs/index.ts';
import type { ClaimedSlots } from './claimed-slots.ts';
import { awaitClaim, findRival } from './rival-claims.ts';
import { isVacantIn, pointerLow } from './slot-format.ts';
import { type SlotRequest, SWAP_AT } from './slot-request.ts';

/** Each failed round means that another client has changed the slot's shared bits. */
const SWAP_ROUNDS_MAX = 10_000;

/**
 * Inserts the outgoing record into the vacant slot at `at`: the second and third round trip of
 * RACE's insertion (section 3.3, "Lock-free Insertion", Algorithm 1). SHARD uses it for step 4 of
 * its own (section 3.2.1) when Ordered-CAS cannot succeed. The paper's RACE makes the slot live by
 * its CAS and removes duplicates after a re-read. Here the slot is pending until its owner has
 * read, after the claim, every slot that may hold the key. So two copies of a key are never
 * visible, and a client that dies leaves a claim, not a duplicate.
 *
 *   D[WRITE record; CAS vacant -> pending; READ the key's places]
 *   READ the records that may have the key                             only if there are any
 *   CAS pending -> committed
 *
 * Returns false when the operation must begin again.
 */
export function* claimSlot<R extends SlotRequest>(
  slots: ClaimedSlots<R>,
  request: R,
  at: number,
  attempt: number,
): Operation<boolean> {
  const { batch, words } = request;
  const slot = slots.addressOf(request, at);
  request.slotAt = at;
  prepareClaim(slots, request, at);

  // Algorithm 1, 2nd RTT (CAS) and 3rd (re-read) in one doorbell: claim the slot, then read every
  // place of the key.
  slots.records.postFirst(request, batch.clear());
  slots.postPlaces(request, batch.cas(slot, words, SWAP_AT));
  request.record.isExposed = true;
  yield batch;
  if (!swapped(words, SWAP_AT)) {
    request.record.isExposed = false;
    yield* slots.retry(request, 'slotChanged', attempt);
    return false;
  }
  copyWord(words, SWAP_AT + 8, SWAP_AT);

  // IsBucketCorrect and RemoveDuplicate: a client that claims a slot of the key from now on sees
  // this claim.
  if (slots.isCertain && !(yield* slots.isCertain(request))) {
    yield* withdraw(slots, request, slot);
    yield* slots.catchUp?.(request, attempt) ?? [];
    return false;
  }
  const mayHaveRivals = slots.gatherRivals(request) > 0;
  const conflict = mayHaveRivals ? yield* findRival(slots, request, slot) : undefined;
  if (conflict !== undefined) {
    yield* withdraw(slots, request, slot);
    if (conflict === 'pendingElsewhere') yield* awaitClaim(slots, request, attempt);
    yield* slots.retry(request, conflict === 'lost' ? 'withdrawn' : 'pendingKey', attempt);
    return false;
  }

  // Commit. This is the third round trip; in the paper that is the re-read.
  if (yield* swapOwn(request, slot, prepareCommit)) return true;
  // Withdrawn by another inserter, or frozen by a mover, which drops pending slots.
  slots.records.retireOutgoing(request);
  yield* slots.retry(request, 'withdrawn', attempt);
  return false;
}

/** Sets the CAS words: the slot's word as read, and the pending word. */
function prepareClaim<R extends SlotRequest>(slots: ClaimedSlots<R>, request: R, at: number): void {
  const { words, format } = request;
  const { block } = request.record;
  const seen = highHalf(words, at);
  const isOpen = isVacantIn(format, lowHalf(words, at), seen) && (seen & format.frozen) === 0;
  invariant(isOpen && block > 0, 'a claim of a used slot, or without a record');
  copyWord(words, at, SWAP_AT);
  const high = slots.entryHigh(request, at) | format.pending;
  setWord(words, SWAP_AT + 8, pointerLow(block), high);
}

/** Sets the CAS words: the pending word, and the same without the flag. */
function prepareCommit({ words, format }: SlotRequest): void {
  const high = highHalf(words, SWAP_AT) & ~format.pending;
  setWord(words, SWAP_AT + 8, lowHalf(words, SWAP_AT), high);
}

/** Sets the CAS words: the pending word, and that of an empty slot. */
function prepareWithdrawal({ words, format }: SlotRequest): void {
  setWord(words, SWAP_AT + 8, 0, format.emptied(highHalf(words, SWAP_AT)));
}

/**
 * Withdraws the claim, unless another inserter has done so or a mover, which drops pending slots,
 * has frozen it. Others may have seen the record, so the next attempt writes a new one.
 */
function* withdraw<R extends SlotRequest>(
  slots: ClaimedSlots<R>,
  request: R,
  slot: Address,
): Operation<void> {
  yield* swapOwn(request, slot, prepareWithdrawal);
  slots.records.retireOutgoing(request);
}

/**
 * CASes the claimed slot, whose last known word is at SWAP_AT. Tries again if other clients change
 * its shared bits, because the claim is still this client's.
 */
function* swapOwn(
  request: SlotRequest,
  slot: Address,
  prepare: (request: SlotRequest) => void,
): Operation<boolean> {
  const { batch, words, format } = request;
  for (let round = 0; round < SWAP_ROUNDS_MAX; round++) {
    const isClaim = (highHalf(words, SWAP_AT) & format.pending) !== 0;
    invariant(isClaim, 'a commit or withdrawal of an unclaimed slot');
    prepare(request);
    yield batch.clear().cas(slot, words, SWAP_AT);
    if (swapped(words, SWAP_AT)) return true;
    const found = SWAP_AT + 16;
    const changed = highHalf(words, found) ^ highHalf(words, SWAP_AT);
    if (lowHalf(words, found) !== lowHalf(words, SWAP_AT)) return false;
    if ((changed & ~format.shared) !== 0) return false;
    copyWord(words, found, SWAP_AT);
  }
  return invariant(false, 'the shared bits of a claimed slot keep changing') as never;
}
