import { SLOT_UNITS_MAX } from '../../records/layout.ts';
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
  CERTAIN,
  certainty,
  chooseSlot,
  depthAt,
  postCandidates,
  postLongKeys,
  repostBuckets,
  slotAddress,
} from './buckets.ts';
import { emptySlot, PENDING, pointerHigh, pointerLow, slotHigh, stampOf } from './slot.ts';
import { split } from './split.ts';
import {
  BUCKETS_AT,
  OTHER_SWAP_AT,
  type RaceRequest,
  type RaceTable,
  type RetryReason,
  SWAP_AT,
} from './table.ts';

/**
 * Lock-free insertion (RACE Algorithm 1) of a key that `locate` did not find. `locate` was the
 * first round trip; these are the second and the third.
 *
 * The published protocol makes the slot visible at once and looks for duplicates afterwards, so for
 * a while two copies of a key can be seen. Here the slot is PENDING until its owner has seen, after
 * claiming it, that no other slot has the key (rival-claims.ts: of two claims the one at the lower
 * address goes on).
 *
 * Returns false when the operation must begin again.
 */
export function* insert(
  table: RaceTable,
  request: RaceRequest,
  attempt: number,
): Operation<boolean> {
  const at = chooseSlot(table, request);
  if (at === 0) {
    yield* table.retry(request, 'subtableFull', attempt);
    yield* split(table, request);
    return false;
  }
  const slot = slotAddress(table, request, at);
  const { batch, words } = request;
  request.slotAt = at;
  prepareClaim(table, request, at);

  // 2nd round trip: claim the slot and read both combined buckets again.
  table.records.postFirst(request, batch.clear());
  repostBuckets(table, request, batch.cas(slot, words, SWAP_AT));
  request.blockExposed = true;
  yield batch;
  if (!swapped(words, SWAP_AT)) {
    request.blockExposed = false;
    yield* table.retry(request, 'slotChanged', attempt);
    return false;
  }

  const conflict = isAlone(table, request) ? undefined : yield* conflictOf(table, request, slot);
  if (conflict !== undefined) {
    yield* withdraw(table, request, slot);
    if (conflict === 'pendingElsewhere') yield* outwait(claimRules(table), request, attempt);
    yield* table.retry(request, RETRY_REASON[conflict], attempt);
    return false;
  }

  // 3rd round trip: commit.
  prepareCommit(request);
  yield batch.clear().cas(slot, words, SWAP_AT);
  if (swapped(words, SWAP_AT)) return true;
  // Withdrawn by another inserter, or frozen by a mover, which drops pending slots.
  table.records.retireOutgoing(request);
  yield* table.retry(request, 'withdrawn', attempt);
  return false;
}

/** CAS words: what the slot was seen to hold, and the pending word. */
function prepareClaim(table: RaceTable, request: RaceRequest, at: number): void {
  const { words, block, fingerprint, headUnits } = request;
  copyWord(words, at, SWAP_AT);
  const units = Math.min(headUnits, SLOT_UNITS_MAX);
  const high = slotHigh(block, fingerprint, units, depthAt(table, request, at)) | PENDING;
  setWord(words, SWAP_AT + 8, pointerLow(block), high);
}

/** CAS words: the pending word, and the same without PENDING. */
function prepareCommit(request: RaceRequest): void {
  const { words } = request;
  copyWord(words, SWAP_AT + 8, SWAP_AT);
  const desired = (SWAP_AT + 8) >> 2;
  words.i32[desired + 1] &= ~PENDING;
}

/**
 * Takes the claimed slot back, unless another inserter did so or a mover has frozen it, who drops
 * pending slots. Others may have seen the record, so the next attempt writes another one.
 */
function* withdraw(table: RaceTable, request: RaceRequest, slot: Address): Operation<void> {
  const { batch, words } = request;
  copyWord(words, SWAP_AT + 8, SWAP_AT);
  setWord(words, SWAP_AT + 8, 0, emptySlot(stampOf(highHalf(words, SWAP_AT))));
  yield batch.clear().cas(slot, words, SWAP_AT);
  table.records.retireOutgoing(request);
}

const RETRY_REASON: Record<Conflict | 'uncertain', RetryReason> = {
  committedElsewhere: 'pendingKey',
  pendingElsewhere: 'pendingKey',
  lost: 'withdrawn',
  uncertain: 'movingBucket',
};

/** Whether nothing that was read behind the claim can have the key. */
function isAlone(table: RaceTable, request: RaceRequest): boolean {
  return certainty(table, request) === CERTAIN && gatherUnknown(table, request) === 0;
}

/** What the slots show of other claims, as they were read after this client's own. */
function* conflictOf(
  table: RaceTable,
  request: RaceRequest,
  slot: Address,
): Operation<Conflict | 'uncertain' | undefined> {
  const { batch } = request;
  if (certainty(table, request) !== CERTAIN) return 'uncertain';
  yield postCandidates(request, batch.clear());
  if (request.longCandidates && postLongKeys(request, batch.clear())) yield batch;
  return yield* findRival(claimRules(table), request, slot);
}

function claimRules(table: RaceTable): ClaimRules<RaceRequest> {
  return {
    pending: PENDING,
    scratchAt: OTHER_SWAP_AT,
    patience: table.patience,
    slotAddress: (request, at) => slotAddress(table, request, at),
    rank: (request, at) => slotAddress(table, request, at),
    evict: (request, at) => evict(table, request, at),
  };
}

/** Slots with the fingerprint, without those of which `locate` has seen that their keys differ. */
function gatherUnknown(table: RaceTable, request: RaceRequest): number {
  const { words, candidates, fingerprint, others, otherCount } = request;
  const { i32 } = words;
  const ownLow = pointerLow(request.block);
  const ownHigh = pointerHigh(request.block);
  const end = (BUCKETS_AT + 2 * table.geometry.combinedBytes) >> 2;
  let count = 0;
  for (let word = BUCKETS_AT >> 2; word < end; word += 2) {
    const high = i32[word + 1];
    if (high >>> 24 !== fingerprint) continue;
    const low = i32[word];
    if (low === ownLow && (high & 0xff) === ownHigh) continue;
    let known = false;
    for (let i = 0; i < otherCount && !known; i++) {
      known = others[2 * i] === low && others[2 * i + 1] === high;
    }
    if (!known) candidates[count++] = word << 2;
  }
  request.candidateCount = count;
  return count;
}

/**
 * Withdraws another client's pending slot. False when it was committed or frozen meanwhile.
 *
 * When its owner, or somebody else, withdrew it just before, it is gone as well: were that a
 * conflict, inserters in step could withdraw for each other for ever. Exactly the empty word that a
 * withdrawal leaves will do: one with a later stamp may be what a mover left of a slot that was
 * committed and moved. So will another claim of the same stamp: it came after this client's own,
 * which its owner will see and give way to.
 */
function* evict(table: RaceTable, request: RaceRequest, at: number): Operation<boolean> {
  const { batch, words } = request;
  const vacant = emptySlot(stampOf(highHalf(words, at)));
  copyWord(words, at, OTHER_SWAP_AT);
  setWord(words, OTHER_SWAP_AT + 8, 0, vacant);
  yield batch.clear().cas(slotAddress(table, request, at), words, OTHER_SWAP_AT);
  if (swapped(words, OTHER_SWAP_AT)) return true;
  const low = lowHalf(words, OTHER_SWAP_AT + 16);
  const high = highHalf(words, OTHER_SWAP_AT + 16);
  if (stampOf(high) !== stampOf(vacant)) return false;
  return (low === 0 && high === vacant) || (high & PENDING) !== 0;
}
