import { invariant } from '../../../errors.ts';
import {
  copyWord,
  highHalf,
  lowHalf,
  type Operation,
  setWord,
  swapped,
} from '../../../verbs/index.ts';
import type { ClaimedSlots } from './claimed-slots.ts';
import { readCandidates } from './slot-candidates.ts';
import { isVacantIn } from './slot-format.ts';
import { OTHER_SWAP_AT, type SlotRequest } from './slot-request.ts';

/**
 * Decides between two claims of one key. An inserter claims a slot and then reads all candidate
 * slots of the key, so of two inserters the later one sees the other's claim. An inserter that
 * meets
 *   - a committed slot of the key withdraws, because the key exists by now;
 *   - a claim at a lower address withdraws, and waits for that claim's fate;
 *   - a claim at a higher address evicts it and goes on.
 * Any client may withdraw any claim by CAS: its owner's commit then fails, and the owner begins
 * again. So no client depends on another one being alive.
 */
export type Conflict = 'committedElsewhere' | 'pendingElsewhere' | 'lost';

const PATIENCE_GROWTH_MAX = 32;

/**
 * Reads the records of the gathered rivals, and evicts claims at higher addresses than `own`, this
 * client's slot. Returns the conflict with the first rival that stays; `slotAt` is its slot.
 */
export function* findRival<R extends SlotRequest>(
  slots: ClaimedSlots<R>,
  request: R,
  own: number,
): Operation<Conflict | undefined> {
  yield* readCandidates(request);
  const { candidateSlots, words, format } = request;
  const { at: candidateAt } = request.candidates;
  for (let i = 0; i < request.candidates.count; i++) {
    if (!request.matches(candidateAt[i])) continue;
    const other = candidateSlots[i];
    if ((highHalf(words, other) & format.pending) === 0) return 'committedElsewhere';
    request.slotAt = other;
    const rank = slots.addressOf(request, other);
    if (rank < own) return 'pendingElsewhere';
    // This client's own slot holds another claim of the key, so its claim was withdrawn. If it
    // evicted the other one for that, two inserters in lockstep could evict each other for ever.
    if (rank === own) return 'lost';
    if (!(yield* evict(slots, request, other))) return 'committedElsewhere';
  }
  return undefined;
}

/**
 * Withdraws another client's claim. False when it was committed or frozen meanwhile.
 *
 * If its owner or a third client has just withdrawn the claim, that counts as success: otherwise
 * inserters in lockstep could make each other withdraw for ever. An empty word counts only if no
 * mover has changed it: with a later stamp, the slot may have been committed and moved. Another
 * claim in the slot counts, too: it came after this client's own, so its owner will see that and
 * give way.
 */
export function* evict<R extends SlotRequest>(
  slots: ClaimedSlots<R>,
  request: R,
  at: number,
): Operation<boolean> {
  const { batch, words, format } = request;
  invariant((highHalf(words, at) & format.pending) !== 0, 'a withdrawal of an unclaimed slot');
  const emptied = format.emptied(highHalf(words, at));
  copyWord(words, at, OTHER_SWAP_AT);
  setWord(words, OTHER_SWAP_AT + 8, 0, emptied);
  yield batch.clear().cas(slots.addressOf(request, at), words, OTHER_SWAP_AT);
  if (swapped(words, OTHER_SWAP_AT)) return true;
  const low = lowHalf(words, OTHER_SWAP_AT + 16);
  const high = highHalf(words, OTHER_SWAP_AT + 16);
  if (((high ^ emptied) & format.moved) !== 0) return false;
  return isVacantIn(format, low, high) || isOtherClaim(request, at, low, high);
}

/** Whether this is another claim, not the same one with other shared bits. */
function isOtherClaim(
  { words, format }: SlotRequest,
  at: number,
  low: number,
  high: number,
): boolean {
  if ((high & format.pending) === 0) return false;
  return low !== lowHalf(words, at) || ((high ^ highHalf(words, at)) & format.pointer) !== 0;
}

/**
 * Waits until the claim at `slotAt`, for which this client has withdrawn, changes. If it does not
 * for too long, its owner is slow or dead, and this client withdraws it.
 */
export function* awaitClaim<R extends SlotRequest>(
  slots: ClaimedSlots<R>,
  request: R,
  attempt: number,
): Operation<void> {
  const { batch, words, slotAt } = request;
  const { polls, microseconds } = slots.patience;
  const address = slots.addressOf(request, slotAt);
  // Longer each time: clients slower than a fixed limit would evict each other for ever.
  const enough = polls * Math.min(attempt, PATIENCE_GROWTH_MAX);
  for (let poll = 0; poll < enough; poll++) {
    yield batch.clear().pause(microseconds, words).read(address, 8, words, OTHER_SWAP_AT);
    if (lowHalf(words, OTHER_SWAP_AT) !== lowHalf(words, slotAt)) return;
    if (highHalf(words, OTHER_SWAP_AT) !== highHalf(words, slotAt)) return;
  }
  yield* evict(slots, request, slotAt);
}
