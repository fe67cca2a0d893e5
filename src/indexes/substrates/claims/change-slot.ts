import { invariant } from '../../../errors.ts';
import { HEADER_BYTES } from '../../../records/layout.ts';
import {
  type Address,
  copyWord,
  highHalf,
  lowHalf,
  type Operation,
  setWord,
  swapped,
} from '../../../verbs/index.ts';
import type { Proof } from '../proof.ts';
import type { ClaimedSlots } from './claimed-slots.ts';
import { isVacantIn, lengthOf, pointerIn, pointerLow } from './slot-format.ts';
import { type SlotRequest, SWAP_AT } from './slot-request.ts';

/**
 * Last round trip of an update (RACE Algorithm 3): points the slot that `locate` found to the new
 * record. The CAS expects the slot's exact word, and no block is reused while this operation may
 * hold its address. So it succeeds only if the key still has the record that was read, in a bucket
 * that no client moves.
 *
 *   D[WRITE header; CAS old record -> new record]
 *
 * The new version is known only after the old record was read. So the header of the new record,
 * which no other client knows yet, is written again before the CAS, in the same doorbell.
 *
 * Returns false when the operation must begin again.
 */
export function* replaceSlot<R extends SlotRequest>(
  slots: ClaimedSlots<R>,
  request: R,
  attempt: number,
): Operation<boolean> {
  const { batch, words, slotAt } = request;
  const { block } = request.record;
  checkFound(request);
  invariant(block > 0, 'a slot is replaced without a record');
  request.reseal((request.found.version + 1) >>> 0);
  batch.clear();
  if (request.record.isPosted) batch.write(block, HEADER_BYTES, request.outgoing, 0);
  else slots.records.post(request, batch);
  copyWord(words, slotAt, SWAP_AT);
  setWord(words, SWAP_AT + 8, pointerLow(block), slots.entryHigh(request, slotAt));
  yield batch.cas(slots.addressOf(request, slotAt), words, SWAP_AT);
  return yield* retireFound(slots, request, attempt);
}

/** Begins the proof of the record to which `replaceSlot` has pointed the slot. */
export function beginWritten(request: SlotRequest, slot: Address, proof: Proof): void {
  const { words } = request;
  proof.begin(slot, lowHalf(words, SWAP_AT + 8), highHalf(words, SWAP_AT + 8));
  proof.addWritten(request);
}

/** Last round trip of a deletion (RACE Algorithm 2): the slot becomes vacant. */
export function* vacateSlot<R extends SlotRequest>(
  slots: ClaimedSlots<R>,
  request: R,
  attempt: number,
): Operation<boolean> {
  const { batch, words, slotAt } = request;
  checkFound(request);
  copyWord(words, slotAt, SWAP_AT);
  setWord(words, SWAP_AT + 8, 0, slots.vacantHigh(request, slotAt));
  yield batch.clear().cas(slots.addressOf(request, slotAt), words, SWAP_AT);
  return yield* retireFound(slots, request, attempt);
}

/** The slot must hold a committed record: claims are withdrawn, and frozen words are moved. */
function checkFound({ words, slotAt, format }: SlotRequest): void {
  const high = highHalf(words, slotAt);
  const isCommitted = (high & (format.pending | format.frozen)) === 0;
  const isFound = isCommitted && !isVacantIn(format, lowHalf(words, slotAt), high);
  invariant(isFound, 'a slot is changed that has no committed record');
}

/** After the CAS: retires the slot's old record, if this client has unlinked it. */
function* retireFound<R extends SlotRequest>(
  slots: ClaimedSlots<R>,
  request: R,
  attempt: number,
): Operation<boolean> {
  const { words, slotAt, format } = request;
  if (!swapped(words, SWAP_AT)) {
    yield* slots.retry(request, 'slotChanged', attempt);
    return false;
  }
  // First of all, because the new record is linked: a failure below must not give its block back.
  request.record.forgetBlock();
  const high = highHalf(words, slotAt);
  const old = pointerIn(format, lowHalf(words, slotAt), high);
  if (request.found.isChained) yield* slots.records.retireChain(request, old);
  else slots.records.retireFound(request, old, lengthOf(high));
  return true;
}
