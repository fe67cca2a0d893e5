import type { Batch, Fabric, Operation } from '../../verbs/index.ts';
import { type ChimeRequest, IDENTITY_AT } from '../chime/leaf-client.ts';
import { addressOfLink, depthOfLink } from '../chime/link.ts';
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
} from '../chime/neighbourhood.ts';
import { searchPlaced } from '../chime/search-placed.ts';
import { rememberOthers, settle } from '../chime/settle.ts';
import { hotspotOf, postSpeculation, rememberSpot, speculatedRight } from '../chime/speculate.ts';
import { suffixOf } from '../directory.ts';
import { halfFor, isFork } from './fork.ts';
import { mend } from './mend.ts';
import type { HopscotchTable } from './table.ts';

/** Aims the request at its segment as it is remembered, without a verb; false when it is not. */
function aim({ directory }: HopscotchTable, request: ChimeRequest): boolean {
  const at = directory.lookup(request.hash.h1);
  if (at < 0) return false;
  request.child = at;
  request.leafLow = directory.low(at);
  request.leafHigh = directory.high(at);
  request.leaf = addressOfLink(request.leafLow, request.leafHigh);
  return true;
}

/** As `aim`, but reads what is not remembered. */
export function* reach(table: HopscotchTable, request: ChimeRequest): Operation<void> {
  for (let step = 1; !aim(table, request); step++) {
    table.giveUpAfter(step);
    yield* table.directory.ensureLoaded();
    if (table.directory.lookup(request.hash.h1) < 0) yield* table.directory.find(request.hash.h1);
  }
}

/** Whether the link may lead to a re-used block, so that the segment's first word must tell. */
function isOld({ directory }: HopscotchTable, { child }: ChimeRequest): boolean {
  return !directory.isKnown(child);
}

/** The segment was in use in this operation: the link is sure while the epoch stands. */
function confirm({ directory }: HopscotchTable, request: ChimeRequest): void {
  if (request.checked) directory.confirm(request.child, request.leafLow, request.leafHigh);
}

/**
 * The segment has been replaced. When its block cannot hold anything else yet, its first word leads
 * to what counts now; else the directory is asked.
 */
function* leaveGone(
  table: HopscotchTable,
  request: ChimeRequest,
  attempt: number,
): Operation<void> {
  const { directory } = table;
  const { words, hash, leafHigh } = request;
  const to = { low: words.i32[IDENTITY_AT >> 2], high: words.i32[(IDENTITY_AT >> 2) + 1] };
  const known = isStillKnown(table, request);
  yield* table.retry(request, 'staleCache', attempt);
  if (!known) {
    yield* directory.find(hash.h1);
    return;
  }
  const now = isFork(to) ? yield* halfFor(table, to, hash.h1) : to;
  const depth = depthOfLink(now.high);
  if (depth >= depthOfLink(leafHigh)) directory.learn(suffixOf(hash.h1, depth), now);
}

function isStillKnown({ directory }: HopscotchTable, request: ChimeRequest): boolean {
  const { child, leafLow, leafHigh } = request;
  const same = directory.low(child) === leafLow && directory.high(child) === leafHigh;
  return same && directory.isKnown(child);
}

/**
 * Lock-free search: one round trip for the neighbourhood and one for the record, as in the tree
 * (CHIME section 4.4), but for the way, which is one look into the directory. It waits for nobody.
 */
export function* search(table: HopscotchTable, request: ChimeRequest): Operation<boolean> {
  const { batch } = request;
  place(table, request);
  let doubtful = false;
  let spot = hotspotOf(table, request);
  for (let attempt = 1; ; attempt++) {
    yield* reach(table, request);
    const checked = doubtful || isOld(table, request);
    if (spot >= 0) {
      yield postSpeculation(table, request, spot, batch.clear(), checked);
      if (speculatedRight(table, request)) {
        confirm(table, request);
        return true;
      }
      spot = -1;
    }
    yield postNeighbourhood(table, request, batch.clear(), checked);
    const verdict = judge(table, request);
    if (verdict === CURRENT || verdict === FROZEN_STILL) {
      confirm(table, request);
      const found = yield* settle(table, request);
      if (found) rememberSpot(table, request);
      return found;
    }
    doubtful = verdict === FROZEN_MAYBE_REPLACED;
    if (verdict === GONE) yield* leaveGone(table, request, attempt);
  }
}

/**
 * The first attempt of `search`, on a fabric that executes at once. Undefined when the answer takes
 * more than that.
 */
export function searchOnce(
  table: HopscotchTable,
  request: ChimeRequest,
  fabric: Fabric,
): boolean | undefined {
  const { batch } = request;
  place(table, request);
  if (!aim(table, request)) return undefined;
  fabric.execute(postNeighbourhood(table, request, batch.clear(), isOld(table, request)));
  const verdict = judge(table, request);
  if (verdict !== CURRENT && verdict !== FROZEN_STILL) return undefined;
  confirm(table, request);
  if (gatherLive(table, request) === 0) return false;
  fabric.execute(postCandidates(request, batch.clear()));
  return request.longCandidates ? undefined : matchCandidate(request);
}

/**
 * Searches of many keys in the same two doorbells, so that their latencies overlap; `found[i]` is
 * the answer to request i. What these do not settle is searched for alone.
 */
export function* searchMany(
  table: HopscotchTable,
  requests: readonly ChimeRequest[],
  count: number,
  batch: Batch,
  found: boolean[],
): Operation<void> {
  for (let i = 0; i < count; i++) {
    const request = requests[i];
    place(table, request);
    yield* reach(table, request);
    // At once: what the next one has to read may put another link, a sure one, in this one's place.
    request.checked = isOld(table, request);
  }
  // Not before: `reach` may have rung the doorbell.
  yield* searchPlaced(table, requests, count, batch, found, search);
}

/**
 * The first two round trips of insertion, update and deletion: a search that writes the operation's
 * own record in the same doorbell, and whose segment may be written to.
 */
export function* locate(table: HopscotchTable, request: ChimeRequest): Operation<boolean> {
  const { batch } = request;
  let doubtful = false;
  for (let attempt = 1; ; attempt++) {
    yield* reach(table, request);
    const checked = doubtful || isOld(table, request);
    postNeighbourhood(table, request, batch.clear(), checked);
    if (request.block !== 0) table.records.post(request, batch);
    yield batch;
    const verdict = judge(table, request);
    if (verdict === CURRENT) {
      confirm(table, request);
      const found = yield* settle(table, request);
      if (!found) rememberOthers(request);
      return found;
    }
    doubtful = verdict === FROZEN_MAYBE_REPLACED;
    if (verdict === GONE) yield* leaveGone(table, request, attempt);
    else yield* table.retry(request, 'replacedLeaf', attempt);
    // Only what is not replaced yet has to be finished; and in a full pool that is all that can be.
    if (verdict === FROZEN_STILL) yield* mend(table, request);
  }
}
