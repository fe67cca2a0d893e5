import {
  type Batch,
  copyWord,
  highHalf,
  lowHalf,
  type Operation,
  setWord,
  swapped,
} from '../../verbs/index.ts';
import {
  type ChimeRequest,
  type LeafClient,
  NEIGHBOURS_AT,
  OTHER_SWAP_AT,
  type RetryReason,
  SWAP_AT,
} from './leaf-client.ts';
import {
  CURRENT,
  distanceAt,
  judge,
  pendingSlot,
  postCandidates,
  postLongKeys,
  repostNeighbourhood,
  slotAddress,
  vacantSlot,
} from './neighbourhood.ts';
import { type ClaimRules, type Conflict, findRival, outwait } from './rival-claims.ts';
import { PENDING, SLOT_FROZEN, slotHigh, slotLow } from './slot.ts';

/**
 * Lock-free insertion of a key that `locate` did not find. `locate` was the first round trip; these
 * are the second and the third. The paper locks the leaf instead.
 *
 * The slot is PENDING until its owner has seen, after claiming it, that no other slot of the
 * neighbourhood has the key (rival-claims.ts: of two claims the nearer one to the home goes on).
 * Who replaces the leaf drops pending slots.
 *
 * Returns false when the operation must begin again.
 */
export function* insert(
  tree: LeafClient,
  request: ChimeRequest,
  attempt: number,
): Operation<boolean> {
  const { batch } = request;
  if (vacantSlot(tree, request) === 0) {
    yield* makePlace(tree, request, attempt);
    return false;
  }
  // 2nd round trip: claim the slot and read the neighbourhood again.
  yield postClaim(tree, request, batch.clear());
  if (!isClaimed(request)) {
    yield* tree.retry(request, 'slotChanged', attempt);
    return false;
  }
  return yield* afterClaim(tree, request, attempt);
}

/** What is left of an insertion when its slot has been claimed. */
export function* afterClaim(
  tree: LeafClient,
  request: ChimeRequest,
  attempt: number,
): Operation<boolean> {
  if (!isAlone(tree, request)) {
    const conflict = yield* conflictOf(tree, request);
    if (conflict !== undefined) {
      yield* withdraw(tree, request);
      if (conflict === 'pendingElsewhere') yield* outwait(claimRules(tree), request, attempt);
      yield* tree.retry(request, RETRY_REASON[conflict], attempt);
      return false;
    }
  }
  // 3rd round trip: commit.
  yield postCommit(tree, request, request.batch.clear());
  if (swapped(request.words, SWAP_AT)) return true;
  // Withdrawn by another inserter, or frozen by who replaces the leaf.
  tree.records.retireOutgoing(request);
  yield* tree.retry(request, 'withdrawn', attempt);
  return false;
}

/**
 * Adds the CAS that claims the empty slot nearest to the key's home (there is one), and behind it
 * the READ of the neighbourhood.
 */
export function postClaim(tree: LeafClient, request: ChimeRequest, batch: Batch): Batch {
  const at = vacantSlot(tree, request);
  request.claimedAt = at;
  prepareClaim(tree, request, at);
  tree.records.postFirst(request, batch);
  batch.cas(slotAddress(tree, request, at), request.words, SWAP_AT);
  repostNeighbourhood(tree, request, batch);
  request.checked = false;
  request.blockExposed = true;
  return batch;
}

/** Whether the claim has succeeded. */
export function isClaimed(request: ChimeRequest): boolean {
  if (swapped(request.words, SWAP_AT)) return true;
  request.blockExposed = false;
  return false;
}

/**
 * Whether nothing that was read behind the claim can have the key: no other slot of the
 * neighbourhood has its fingerprint, but for those whose keys are known, and none is frozen.
 */
export function isAlone(tree: LeafClient, request: ChimeRequest): boolean {
  return judge(tree, request) === CURRENT && gatherUnknown(tree, request) === 0;
}

/** Adds the CAS that commits the claim. */
export function postCommit(tree: LeafClient, request: ChimeRequest, batch: Batch): Batch {
  prepareCommit(request);
  return batch.cas(slotAddress(tree, request, request.claimedAt), request.words, SWAP_AT);
}

/**
 * The neighbourhood is full. While a slot of it is only claimed, its fate is awaited first: a
 * client that replaced the leaf for that would drop the claim, and two could do so to each other
 * for ever.
 */
export function* makePlace(
  tree: LeafClient,
  request: ChimeRequest,
  attempt: number,
): Operation<void> {
  yield* tree.retry(request, 'neighbourhoodFull', attempt);
  request.slotAt = pendingSlot(tree, request);
  if (request.slotAt === 0) yield* tree.makePlace(request);
  else yield* outwait(claimRules(tree), request, attempt);
}

/** CAS words: an empty slot, and the pending word. */
function prepareClaim(tree: LeafClient, request: ChimeRequest, at: number): void {
  const { words, block, fingerprint, headUnits } = request;
  const hint = tree.hintOf(request);
  const high = slotHigh(block, fingerprint, headUnits, distanceAt(at), hint) | PENDING;
  setWord(words, SWAP_AT, 0, 0);
  setWord(words, SWAP_AT + 8, slotLow(block), high);
}

/** CAS words: the pending word, and the same without PENDING. */
function prepareCommit({ words }: ChimeRequest): void {
  copyWord(words, SWAP_AT + 8, SWAP_AT);
  words.i32[((SWAP_AT + 8) >> 2) + 1] &= ~PENDING;
}

/**
 * Takes the claimed slot back, unless another inserter did so or the leaf has been frozen. Others
 * may have seen the record, so the next attempt writes another one.
 */
function* withdraw(tree: LeafClient, request: ChimeRequest): Operation<void> {
  const { batch, words, claimedAt } = request;
  copyWord(words, SWAP_AT + 8, SWAP_AT);
  setWord(words, SWAP_AT + 8, 0, 0);
  yield batch.clear().cas(slotAddress(tree, request, claimedAt), words, SWAP_AT);
  tree.records.retireOutgoing(request);
}

const RETRY_REASON: Record<Conflict | 'replaced', RetryReason> = {
  committedElsewhere: 'pendingKey',
  pendingElsewhere: 'pendingKey',
  lost: 'withdrawn',
  replaced: 'replacedLeaf',
};

/** What the neighbourhood shows of other claims, as it was read after this client's own. */
function* conflictOf(
  tree: LeafClient,
  request: ChimeRequest,
): Operation<Conflict | 'replaced' | undefined> {
  const { batch } = request;
  if (judge(tree, request) !== CURRENT) return 'replaced';
  yield postCandidates(request, batch.clear());
  if (request.longCandidates && postLongKeys(request, batch.clear())) yield batch;
  return yield* findRival(claimRules(tree), request, request.claimedAt);
}

/** Of two claims the one that is nearer to the home goes on. */
function claimRules(tree: LeafClient): ClaimRules<ChimeRequest> {
  return {
    pending: PENDING,
    scratchAt: OTHER_SWAP_AT,
    patience: tree.patience,
    slotAddress: (request, at) => slotAddress(tree, request, at),
    rank: (_, at) => at,
    evict: (request, at) => evict(tree, request, at),
  };
}

/** Slots with the fingerprint, without those of which `locate` has seen that their keys differ. */
function gatherUnknown(tree: LeafClient, request: ChimeRequest): number {
  const { words, candidates, fingerprint, others, otherCount } = request;
  const { i32 } = words;
  const ownLow = i32[(SWAP_AT + 8) >> 2];
  const ownHigh = i32[((SWAP_AT + 8) >> 2) + 1];
  const end = (NEIGHBOURS_AT + tree.geometry.neighbourhoodBytes) >> 2;
  let count = 0;
  for (let word = NEIGHBOURS_AT >> 2; word < end; word += 2) {
    const high = i32[word + 1];
    if (high >>> 24 !== fingerprint) continue;
    const low = i32[word];
    if (low === ownLow && high === ownHigh) continue;
    let known = false;
    for (let i = 0; i < otherCount && !known; i++) {
      known = others[2 * i] === low && others[2 * i + 1] === high;
    }
    if (!known) candidates[count++] = word << 2;
  }
  request.candidateCount = count;
  request.longCandidates = false;
  return count;
}

/**
 * Withdraws another client's pending slot. False when it was committed or frozen meanwhile.
 *
 * When its owner, or somebody else, withdrew it just before, it is gone as well: were that a
 * conflict, inserters in step could withdraw for each other for ever. So it is when there is
 * another claim: that came after this client's own, which its owner will see and give way to. But
 * not when it is frozen: the insertion may go on in another leaf.
 */
function* evict(tree: LeafClient, request: ChimeRequest, at: number): Operation<boolean> {
  const { batch, words } = request;
  copyWord(words, at, OTHER_SWAP_AT);
  setWord(words, OTHER_SWAP_AT + 8, 0, 0);
  yield batch.clear().cas(slotAddress(tree, request, at), words, OTHER_SWAP_AT);
  if (swapped(words, OTHER_SWAP_AT)) return true;
  const low = lowHalf(words, OTHER_SWAP_AT + 16);
  const high = highHalf(words, OTHER_SWAP_AT + 16);
  return (low === 0 && high === 0) || (high & (PENDING | SLOT_FROZEN)) === PENDING;
}
