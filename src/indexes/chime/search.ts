import type { Batch, Fabric, Operation } from '../../verbs/index.ts';
import { descend, reach, refresh } from './descent.ts';
import { type ChimeRequest, IDENTITY_AT } from './leaf-client.ts';
import { mend } from './mend.ts';
import {
  CURRENT,
  FROZEN_MAYBE_REPLACED,
  FROZEN_STILL,
  GONE,
  gatherLive,
  judge,
  matchCandidate,
  place,
  postCandidates,
  postNeighbourhood,
  TAKEN_UP,
} from './neighbourhood.ts';
import type { CachedNode } from './node-book.ts';
import { searchPlaced } from './search-placed.ts';
import { rememberOthers, settle } from './settle.ts';
import { hotspotOf, postSpeculation, rememberSpot, speculatedRight } from './speculate.ts';
import { adoptLeaf, sureLeaf } from './sure-leaf.ts';
import type { ChimeTree } from './tree.ts';

/**
 * Lock-free search (CHIME section 4.4): with the internal nodes remembered, one round trip for the
 * neighbourhood and one for the record. It waits for nobody: what a leaf that is being replaced
 * says counts until it has been replaced. A key of the hotspot buffer takes one round trip.
 */
export function* search(tree: ChimeTree, request: ChimeRequest): Operation<boolean> {
  const { batch } = request;
  place(tree, request);
  let doubtful = false;
  let spot = hotspotOf(tree, request);
  for (let attempt = 1; ; attempt++) {
    const parent = yield* reach(tree, request);
    const checked = doubtful || !tree.cache.isKnown(parent, request.child);
    const { child } = request;
    if (spot >= 0) {
      yield postSpeculation(tree, request, spot, batch.clear(), checked);
      if (speculatedRight(tree, request)) {
        if (checked) confirm(tree, request, parent, child);
        return true;
      }
      spot = -1;
    }
    yield postNeighbourhood(tree, request, batch.clear(), checked);
    const verdict = judge(tree, request);
    if (verdict === CURRENT || verdict === FROZEN_STILL) {
      if (checked) confirm(tree, request, parent, child);
      const found = yield* settle(tree, request);
      if (found) rememberSpot(tree, request);
      return found;
    }
    doubtful = verdict === FROZEN_MAYBE_REPLACED;
    if (verdict === GONE) yield* leaveGone(tree, request, parent, child, attempt);
    if (verdict !== TAKEN_UP) continue;
    adoptLeaf(tree, request, yield* sureLeaf(tree, request));
    const found = yield* settle(tree, request);
    yield* refresh(tree, request);
    return found;
  }
}

/** The leaf was in use in this operation: the link is sure while the epoch stands. */
export function confirm(
  tree: ChimeTree,
  { leafLow, leafHigh }: ChimeRequest,
  parent: CachedNode,
  child: number,
): void {
  if (parent.leadsTo(child, leafLow, leafHigh)) parent.know(child, tree.cache.epoch);
}

/**
 * The leaf has been replaced. When its block cannot hold anything else yet, its first word is the
 * link to the replacement; else the way is read anew (CHIME section 4.2.3, cache validation).
 */
export function* leaveGone(
  tree: ChimeTree,
  request: ChimeRequest,
  parent: CachedNode,
  child: number,
  attempt: number,
): Operation<void> {
  const { words, leafLow, leafHigh } = request;
  const known = tree.cache.isKnown(parent, child);
  const same = parent.leadsTo(child, leafLow, leafHigh);
  const low = words.i32[IDENTITY_AT >> 2];
  const high = words.i32[(IDENTITY_AT >> 2) + 1];
  yield* tree.retry(request, 'staleCache', attempt);
  if (!known) yield* refresh(tree, request);
  else if (same) parent.relink(child, low, high, tree.cache.epoch);
}

/**
 * The first attempt of `search`, on a fabric that executes at once: the same verbs and the same
 * tests, without what a generator costs. Undefined when the answer takes more than that.
 */
export function searchOnce(
  tree: ChimeTree,
  request: ChimeRequest,
  fabric: Fabric,
): boolean | undefined {
  const { batch } = request;
  place(tree, request);
  const parent = descend(tree, request);
  if (parent === undefined || request.leaf === 0) return undefined;
  const checked = !tree.cache.isKnownLink(request);
  fabric.execute(postNeighbourhood(tree, request, batch.clear(), checked));
  const verdict = judge(tree, request);
  if (verdict !== CURRENT && verdict !== FROZEN_STILL) return undefined;
  if (checked) confirm(tree, request, parent, request.child);
  if (gatherLive(tree, request) === 0) return false;
  fabric.execute(postCandidates(request, batch.clear()));
  return request.longCandidates ? undefined : matchCandidate(request);
}

/**
 * Searches of many keys in the same two doorbells, so that their latencies overlap; `found[i]` is
 * the answer to request i. What these do not settle is searched for alone.
 */
export function* searchMany(
  tree: ChimeTree,
  requests: readonly ChimeRequest[],
  count: number,
  batch: Batch,
  found: boolean[],
): Operation<void> {
  for (let i = 0; i < count; i++) {
    const request = requests[i];
    place(tree, request);
    const parent = yield* reach(tree, request);
    request.checked = !tree.cache.isKnown(parent, request.child);
  }
  // Not before: `reach` may have rung the doorbell.
  yield* searchPlaced(tree, requests, count, batch, found, search);
}

/** For the hint of the slot that is going to be written: while it is known which way was taken. */
export function noteBorders(request: ChimeRequest, parent: CachedNode): void {
  request.lower = parent.lowerOf(request.child);
  request.upper = parent.upperOf(request.child);
}

/**
 * The first two round trips of insertion, update and deletion: a search that writes the operation's
 * own record in the same doorbell, and whose leaf may be written to.
 */
export function* locate(tree: ChimeTree, request: ChimeRequest): Operation<boolean> {
  const { batch } = request;
  let doubtful = false;
  for (let attempt = 1; ; attempt++) {
    const parent = yield* reach(tree, request);
    const { child } = request;
    noteBorders(request, parent);
    const checked = doubtful || !tree.cache.isKnown(parent, child);
    postNeighbourhood(tree, request, batch.clear(), checked);
    if (request.block !== 0) tree.records.post(request, batch);
    yield batch;
    const verdict = judge(tree, request);
    if (verdict === CURRENT) {
      if (checked) confirm(tree, request, parent, child);
      const found = yield* settle(tree, request);
      if (!found) rememberOthers(request);
      return found;
    }
    doubtful = verdict === FROZEN_MAYBE_REPLACED;
    if (verdict === GONE) yield* leaveGone(tree, request, parent, child, attempt);
    else yield* tree.retry(request, 'replacedLeaf', attempt);
    // Only what is not replaced yet has to be finished; and in a full pool that is all that can be.
    if (verdict === FROZEN_STILL || verdict === TAKEN_UP) yield* mend(tree, request);
  }
}
