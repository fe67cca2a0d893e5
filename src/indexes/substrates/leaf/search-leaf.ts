import type { Batch, Operation } from '../../../verbs/index.ts';
import { type LeafClient, NOT_OWNED, OWNED, UNKNOWN } from './leaf-client.ts';
import type { LeafRequest } from './leaf-request.ts';
import { outwait } from './lock-leaf.ts';
import {
  isCandidate,
  isLeafStill,
  isNeighbourhoodWhole,
  isStill,
  lookAtCandidates,
  lookEverywhere,
  lookInNeighbourhood,
  postCandidate,
  postSearch,
  prepare,
} from './read-leaf.ts';

/**
 * A hit is an item whose checksum holds; it counts whatever else happens to the leaf. A miss counts
 * when the leaf was the key's and still (`isStill`), and the items of the key's home were whole.
 */
export function* searchLeaf(client: LeafClient, request: LeafRequest): Operation<boolean> {
  prepare(client, request);
  yield* client.begin(request);
  for (let attempt = 1; ; attempt++) {
    yield postSearch(client, request, request.batch.clear());
    if (lookInNeighbourhood(client, request)) return true;
    if (request.candidateCount > 0 && (yield* lookAtCandidates(request))) return true;
    if (isAbsent(client, request)) return false;
    if (lookEverywhere(client, request)) return true;
    if (request.candidateCount > 0 && (yield* lookAtCandidates(request))) return true;
    yield* lookAgain(client, request, attempt);
  }
}

function isAbsent(client: LeafClient, request: LeafRequest): boolean {
  return (
    isStill(request) &&
    isLeafStill(request) &&
    client.owns(request) === OWNED &&
    isNeighbourhoodWhole(client, request)
  );
}

/** What was read proves nothing: the leaf is another one, or a client is changing it. */
export function* lookAgain(
  client: LeafClient,
  request: LeafRequest,
  attempt: number,
): Operation<void> {
  if (!isLeafStill(request)) return yield* client.redirect(request, attempt);
  if (isStill(request)) {
    const ownership = client.owns(request);
    if (ownership === NOT_OWNED) return yield* client.redirect(request, attempt);
    if (ownership === UNKNOWN) return yield* client.learnBounds(request);
  }
  client.count('changing', attempt);
  yield* outwait(client, request, attempt);
}

/**
 * Searches of many keys in doorbells that they share; `found[i]` is the answer to request i. What
 * these do not settle is searched for alone.
 */
export function* searchLeaves(
  client: LeafClient,
  requests: readonly LeafRequest[],
  count: number,
  batch: Batch,
  found: boolean[],
): Operation<void> {
  batch.clear();
  for (let i = 0; i < count; i++) {
    prepare(client, requests[i]);
    yield* client.begin(requests[i]);
    postSearch(client, requests[i], batch);
  }
  yield batch;
  batch.clear();
  for (let i = 0; i < count; i++) {
    found[i] = lookInNeighbourhood(client, requests[i]);
    if (!found[i] && requests[i].candidateCount === 1) postCandidate(requests[i], 0, batch);
  }
  if (batch.length > 0) yield batch;
  for (let i = 0; i < count; i++) {
    const request = requests[i];
    if (found[i]) continue;
    found[i] = request.candidateCount === 1 && isCandidate(request, 0);
    const isSettled = found[i] || (request.candidateCount < 2 && isAbsent(client, request));
    if (!isSettled) found[i] = yield* searchLeaf(client, request);
  }
}
