import { invariant } from '../../errors.ts';
import {
  type Address,
  copyWord,
  highHalf,
  lowHalf,
  type Operation,
  setWord,
  swapped,
} from '../../verbs/index.ts';
import {
  emptyBelow,
  firstEmpty,
  postLower,
  readCandidates,
  readChain,
  repostLevel1,
  repostLower,
  unsettledPlace,
} from './buckets.ts';
import { catchUp } from './catch-up.ts';
import { extendChain } from './chain.ts';
import { prepareEntry } from './insert.ts';
import { evict, gatherRivals } from './rivals.ts';
import { OVERFLOW, OVERFLOW_MASK, PENDING, TIDYING, usedHigh } from './slot.ts';
import { BUCKETS_AT, OTHER_SWAP_AT, type ShardRequest, type ShardTable, SWAP_AT } from './table.ts';

const PATIENCE_GROWTH_MAX = 32;
/** Between two changes of the overflow bit by others lies a look at all of the table. */
const SWAP_ROUNDS_MAX = 10_000;

/**
 * Insertion where level 1 has no slot that was never used: claim, look, commit, as in RACE here.
 * An emptied slot of level 1 serves, else one of level 2 (the less loaded choice) or 3, once the
 * overflow bit of level 1 tells searches to look there. The slot is PENDING until its owner has
 * read, after claiming it, all slots in which the key may be. Of two inserters of a key the one
 * that claims later sees the other's claim, so they cannot both miss each other. Then
 *   - who meets a committed slot withdraws: the key exists by now;
 *   - who has the higher address withdraws, and waits;
 *   - who has the lower address withdraws the other's pending slot and goes on.
 * Anyone may withdraw anyone's pending slot by CAS: its owner's commit then fails and it begins
 * again. So nobody ever depends on the other being alive.
 *
 *   D[CAS overflow bit; READ level 2, 2, 3] if it was not set and level 1 has no empty slot
 *   D[WRITE record; CAS empty -> pending; READ level 1, 2, 2, 3, known chain nodes]
 *   CAS pending -> committed
 */
export function* claim(
  table: ShardTable,
  request: ShardRequest,
  attempt: number,
): Operation<boolean> {
  let at = firstEmpty(table, request);
  if (at === 0) {
    if (!request.isWide && !(yield* overflow(table, request, attempt))) return false;
    at = emptyBelow(table, request);
  }
  if (at === 0) {
    table.crowded = true;
    yield* extendChain(table, request);
    yield* table.retry(request, 'chainExtended', attempt);
    return false;
  }
  const slot = table.slotAddress(request, at);
  request.slotAt = at;
  if (!(yield* take(table, request, slot))) {
    yield* table.retry(request, 'slotChanged', attempt);
    return false;
  }
  const unsettled = unsettledPlace(table, request);
  if (unsettled >= 0) {
    yield* withdraw(table, request, slot);
    yield* catchUp(table, request, unsettled, attempt);
    return false;
  }
  if (request.slotAt >= request.at[1] && !(yield* keepsOverflow(request))) {
    yield* withdraw(table, request, slot);
    yield* table.retry(request, 'slotChanged', attempt);
    return false;
  }
  const conflict = yield* findConflict(table, request, slot);
  if (conflict !== NONE) {
    yield* withdraw(table, request, slot);
    if (conflict === PENDING_ELSEWHERE) yield* outwait(table, request, attempt);
    yield* table.retry(request, conflict === LOST ? 'withdrawn' : 'pendingKey', attempt);
    return false;
  }
  if (yield* commit(request, slot)) return true;
  // Withdrawn by another inserter, or frozen by a mover, which drops pending slots.
  table.records.retireOutgoing(request);
  yield* table.retry(request, 'withdrawn', attempt);
  return false;
}

/**
 * Sets the overflow bit in the first entry of level 1 and reads levels 2 and 3. From now on no
 * search takes a miss in level 1 for an answer.
 */
function* overflow(table: ShardTable, request: ShardRequest, attempt: number): Operation<boolean> {
  const { batch, words, addresses } = request;
  copyWord(words, BUCKETS_AT, SWAP_AT);
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

/**
 * Whether searches look for a claim below level 1 once it is committed, by the word as it was read
 * after the claim. Who is about to find out that nothing is there any more (tidy.ts) may have
 * missed the claim: then the bucket is marked as one that keeps its overflow bit, or the claim was
 * too late. Whoever sets TIDYING after that READ looks after the claim, and finds it.
 */
function* keepsOverflow({ batch, words, addresses }: ShardRequest): Operation<boolean> {
  const low = lowHalf(words, BUCKETS_AT);
  const high = highHalf(words, BUCKETS_AT);
  if ((high & OVERFLOW_MASK) !== TIDYING) return (high & OVERFLOW_MASK) !== 0;
  copyWord(words, BUCKETS_AT, OTHER_SWAP_AT);
  setWord(words, OTHER_SWAP_AT + 8, low, high | OVERFLOW);
  yield batch.clear().cas(addresses[0], words, OTHER_SWAP_AT);
  return swapped(words, OTHER_SWAP_AT);
}

/** Claims the slot and reads all places of the key again: one doorbell. */
function* take(table: ShardTable, request: ShardRequest, slot: Address): Operation<boolean> {
  const { batch, words } = request;
  prepareEntry(table, request, request.slotAt, PENDING);
  table.records.postFirst(request, batch.clear());
  repostLevel1(table, request, batch.cas(slot, words, SWAP_AT));
  if (request.isWide) repostLower(table, request, batch);
  else postLower(table, request, batch);
  request.blockExposed = true;
  yield batch;
  if (!swapped(words, SWAP_AT)) {
    request.blockExposed = false;
    return false;
  }
  copyWord(words, SWAP_AT + 8, SWAP_AT);
  yield* readChain(request);
  return true;
}

/** CAS words at SWAP_AT: the pending word as it was last known, expected by what comes next. */
function* commit(request: ShardRequest, slot: Address): Operation<boolean> {
  const { words } = request;
  return yield* swapOwn(request, slot, () => {
    setWord(words, SWAP_AT + 8, lowHalf(words, SWAP_AT), highHalf(words, SWAP_AT) & ~PENDING);
  });
}

/**
 * Takes the claimed slot back, unless another inserter did so or a mover has frozen it, who drops
 * pending slots. Others may have seen the record, so the next attempt writes another one.
 */
function* withdraw(table: ShardTable, request: ShardRequest, slot: Address): Operation<void> {
  const { words } = request;
  yield* swapOwn(request, slot, () => {
    setWord(words, SWAP_AT + 8, 0, usedHigh(highHalf(words, SWAP_AT)));
  });
  table.records.retireOutgoing(request);
}

/**
 * Swaps the pending slot. When it is the first of its bucket, the overflow bit may have been set in
 * it meanwhile, or one who tidies has changed it: it is still this client's then.
 */
function* swapOwn(request: ShardRequest, slot: Address, desire: () => void): Operation<boolean> {
  const { batch, words } = request;
  for (let round = 0; round < SWAP_ROUNDS_MAX; round++) {
    desire();
    yield batch.clear().cas(slot, words, SWAP_AT);
    if (swapped(words, SWAP_AT)) return true;
    const found = SWAP_AT + 16;
    const only = highHalf(words, found) ^ highHalf(words, SWAP_AT);
    if (lowHalf(words, found) !== lowHalf(words, SWAP_AT) || (only & ~OVERFLOW_MASK) !== 0) {
      return false;
    }
    copyWord(words, found, SWAP_AT);
  }
  return invariant(false, 'the overflow bit changes for ever') as never;
}

const NONE = 0;
const LIVE_ELSEWHERE = 1;
const PENDING_ELSEWHERE = 2;
/**
 * Another claim of the key stands in the very slot: this one was withdrawn. Were the other evicted
 * for that, two inserters in step could go on evicting each other for ever.
 */
const LOST = 3;

/**
 * Looks at the other slots with the fingerprint as they were read after the claim. A pending slot
 * of the same key at a higher address is withdrawn here.
 */
function* findConflict(table: ShardTable, request: ShardRequest, slot: Address): Operation<number> {
  const { candidates, candidateAt, words } = request;
  gatherRivals(table, request, 0);
  yield* readCandidates(request);
  for (let i = 0; i < request.candidateCount; i++) {
    if (!request.matches(candidateAt[i])) continue;
    const other = candidates[i];
    if ((highHalf(words, other) & PENDING) === 0) return LIVE_ELSEWHERE;
    request.slotAt = other;
    const address = table.slotAddress(request, other);
    if (address < slot) return PENDING_ELSEWHERE;
    if (address === slot) return LOST;
    if (!(yield* evict(table, request, other))) return LIVE_ELSEWHERE;
  }
  return NONE;
}

/**
 * Waits for the fate of the earlier pending slot that made this client withdraw (`slotAt`); when
 * nothing happens to it for too long, its owner is slow or dead and the slot is withdrawn for it.
 */
function* outwait(table: ShardTable, request: ShardRequest, attempt: number): Operation<void> {
  const { batch, words, slotAt } = request;
  const { polls, microseconds } = table.patience;
  const address = table.slotAddress(request, slotAt);
  // Longer each time: two whose stalls exceed a fixed patience would evict each other for ever.
  const enough = polls * Math.min(attempt, PATIENCE_GROWTH_MAX);
  for (let poll = 0; poll < enough; poll++) {
    yield batch.clear().pause(microseconds, words).read(address, 8, words, OTHER_SWAP_AT);
    if (lowHalf(words, OTHER_SWAP_AT) !== lowHalf(words, slotAt)) return;
    if (highHalf(words, OTHER_SWAP_AT) !== highHalf(words, slotAt)) return;
  }
  yield* evict(table, request, slotAt);
}
