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
  type ClaimRules,
  type Conflict,
  findRival,
  outwait,
} from '../substrates/claims/rival-claims.ts';
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

/** Between two changes of the overflow bit by others lies a look at all of the table. */
const SWAP_ROUNDS_MAX = 10_000;

/**
 * Insertion where level 1 has no slot that was never used: claim, look, commit, as in RACE here.
 * An emptied slot of level 1 serves, else one of level 2 (the less loaded choice) or 3, once the
 * overflow bit of level 1 tells searches to look there. The slot is PENDING until its owner has
 * read, after claiming it, all slots in which the key may be (rival-claims.ts: of two claims the
 * one at the lower address goes on).
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
  const conflict = yield* conflictOf(table, request, slot);
  if (conflict !== undefined) {
    yield* withdraw(table, request, slot);
    if (conflict === 'pendingElsewhere') yield* outwait(claimRules(table), request, attempt);
    yield* table.retry(request, conflict === 'lost' ? 'withdrawn' : 'pendingKey', attempt);
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

/** What the slots show of other claims, as they were read after this client's own. */
function* conflictOf(
  table: ShardTable,
  request: ShardRequest,
  slot: Address,
): Operation<Conflict | undefined> {
  gatherRivals(table, request, 0);
  yield* readCandidates(request);
  return yield* findRival(claimRules(table), request, slot);
}

function claimRules(table: ShardTable): ClaimRules<ShardRequest> {
  return {
    pending: PENDING,
    scratchAt: OTHER_SWAP_AT,
    patience: table.patience,
    slotAddress: (request, at) => table.slotAddress(request, at),
    rank: (request, at) => table.slotAddress(request, at),
    evict: (request, at) => evict(table, request, at),
  };
}
