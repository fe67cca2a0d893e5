import type { Batch, Operation } from '../../verbs/index.ts';
import type { ChimeRequest, LeafClient } from './leaf-client.ts';
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
import { rememberOthers, settle } from './settle.ts';
import { hotspotOf, postSpeculation, rememberSpot, speculatedRight } from './speculate.ts';

/**
 * Lock-free search (CHIME section 4.4): with the way to the leaf remembered, one round trip for the
 * neighbourhood and one for the record. It waits for nobody: what a leaf that is being replaced
 * says counts until it has been replaced. A key of the hotspot buffer takes one round trip.
 */
export function* search(client: LeafClient, request: ChimeRequest): Operation<boolean> {
  const { batch } = request;
  place(client, request);
  let doubtful = false;
  let spot = hotspotOf(client, request);
  for (let attempt = 1; ; attempt++) {
    yield* client.reach(request);
    const checked = doubtful || !client.isSure(request);
    if (spot >= 0) {
      yield postSpeculation(client, request, spot, batch.clear(), checked);
      if (speculatedRight(client, request)) {
        if (checked) client.confirm(request);
        return true;
      }
      spot = -1;
    }
    yield postNeighbourhood(client, request, batch.clear(), checked);
    const verdict = judge(client, request);
    if (verdict === CURRENT || verdict === FROZEN_STILL) {
      if (checked) client.confirm(request);
      const found = yield* settle(client, request);
      if (found) rememberSpot(client, request);
      return found;
    }
    doubtful = verdict === FROZEN_MAYBE_REPLACED;
    if (verdict === GONE) yield* client.leaveGone(request, attempt);
    if (verdict !== TAKEN_UP) continue;
    const found = yield* client.searchTakenUp(request, attempt);
    if (found !== undefined) return found;
  }
}

/**
 * Searches of many keys in the same two doorbells, so that their latencies overlap; `found[i]` is
 * the answer to request i. What these do not settle is searched for alone.
 */
export function* searchMany(
  client: LeafClient,
  requests: readonly ChimeRequest[],
  count: number,
  batch: Batch,
  found: boolean[],
): Operation<void> {
  for (let i = 0; i < count; i++) {
    place(client, requests[i]);
    yield* client.reach(requests[i]);
    // At once: what the next one has to read may put another link, a sure one, in this one's place.
    requests[i].checked = !client.isSure(requests[i]);
  }
  // Not before: `reach` may have rung the doorbell.
  batch.clear();
  for (let i = 0; i < count; i++) {
    postNeighbourhood(client, requests[i], batch, requests[i].checked);
  }
  yield batch;
  batch.clear();
  for (let i = 0; i < count; i++) {
    const verdict = judge(client, requests[i]);
    found[i] = verdict === CURRENT || verdict === FROZEN_STILL;
    // Only then do its slots point to records at all.
    if (found[i] && gatherLive(client, requests[i]) > 0) postCandidates(requests[i], batch);
  }
  if (batch.length > 0) yield batch;
  for (let i = 0; i < count; i++) {
    const request = requests[i];
    const settled = found[i] && !request.longCandidates;
    found[i] = settled ? matchCandidate(request) : yield* search(client, request);
  }
}

/**
 * The first two round trips of insertion, update and deletion: a search that writes the operation's
 * own record in the same doorbell, and whose leaf may be written to.
 */
export function* locate(client: LeafClient, request: ChimeRequest): Operation<boolean> {
  const { batch } = request;
  let doubtful = false;
  for (let attempt = 1; ; attempt++) {
    yield* client.reach(request);
    const checked = doubtful || !client.isSure(request);
    postNeighbourhood(client, request, batch.clear(), checked);
    if (request.block !== 0) client.records.post(request, batch);
    yield batch;
    const verdict = judge(client, request);
    if (verdict === CURRENT) {
      if (checked) client.confirm(request);
      const found = yield* settle(client, request);
      if (!found) rememberOthers(request);
      return found;
    }
    doubtful = verdict === FROZEN_MAYBE_REPLACED;
    if (verdict === GONE) yield* client.leaveGone(request, attempt);
    else yield* client.retry(request, 'replacedLeaf', attempt);
    // Only what is not replaced yet has to be finished; and in a full pool that is all that can be.
    if (verdict === FROZEN_STILL || verdict === TAKEN_UP) yield* client.mend(request);
  }
}
