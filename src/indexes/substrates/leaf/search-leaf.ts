import type { Batch, Operation } from '../../../verbs/index.ts';
import { type LeafClient, NOT_OWNED, OWNED, UNKNOWN } from './leaf-client.ts';
import { IMAGE_AT, type LeafRequest } from './leaf-request.ts';
import { outwait } from './lock-leaf.ts';
import {
  isCandidate,
  isLeafStill,
  isNeighbourhoodWhole,
  isStill,
  lookAtCandidates,
  lookAtSpot,
  lookEverywhere,
  lookInNeighbourhood,
  postCandidate,
  postNeighbourhood,
  postSearch,
  postSpot,
  prepare,
} from './read-leaf.ts';

/**
 * A hit is an item whose checksum holds, whatever else happens to the leaf. A miss counts if the
 * leaf was the key's and still (`isStill`), and the items of the key's home were whole.
 */
export function* searchLeaf(client: LeafClient, request: LeafRequest): Operation<boolean> {
  prepare(client, request);
  yield* client.begin(request);
  const spot = client.spotOf(request);
  if (spot >= 0) {
    yield postSpot(client, request, spot, request.batch.clear());
    if (lookAtSpot(client, request, spot)) return foundAt(client, request, true);
    const isThere = request.candidates.count > 0 && (yield* lookAtCandidates(request));
    if (isThere) return foundAt(client, request, true);
  }
  const found = yield* searchNeighbourhood(client, request);
  client.missProof.note(found);
  if (!found && spot >= 0) client.forgetSpot(request);
  return found;
}

function* searchNeighbourhood(client: LeafClient, request: LeafRequest): Operation<boolean> {
  if (client.missProof.comesLate) {
    yield postNeighbourhood(client, request, request.batch.clear());
    if (lookInNeighbourhood(client, request)) return foundAt(client, request);
    const isThere = request.candidates.count > 0 && (yield* lookAtCandidates(request));
    if (isThere) return foundAt(client, request);
  }
  return yield* searchProven(client, request);
}

/** Searches the neighbourhood together with the proof of a miss. */
function* searchProven(client: LeafClient, request: LeafRequest): Operation<boolean> {
  for (let attempt = 1; ; attempt++) {
    yield postSearch(client, request, request.batch.clear());
    if (lookInNeighbourhood(client, request)) return foundAt(client, request);
    if (request.candidates.count > 0 && (yield* lookAtCandidates(request))) {
      return foundAt(client, request);
    }
    if (isAbsent(client, request)) return false;
    if (lookEverywhere(client, request)) return foundAt(client, request);
    if (request.candidates.count > 0 && (yield* lookAtCandidates(request))) {
      return foundAt(client, request);
    }
    yield* lookAgain(client, request, attempt);
  }
}

function foundAt(client: LeafClient, request: LeafRequest, wasSpot = false): true {
  client.noteSpot(request, client.geometry.entryOf(request.entry - IMAGE_AT), wasSpot);
  return true;
}

function isAbsent(client: LeafClient, request: LeafRequest): boolean {
  return (
    isStill(request) &&
    isLeafStill(request) &&
    client.owns(request) === OWNED &&
    isNeighbourhoodWhole(client, request)
  );
}

/**
 * Prepares another read after one that proved nothing: the leaf is not the key's, or is changing.
 */
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
  client.count('changing', attempt - request.looks, request);
  yield* outwait(client, request, attempt);
}

/**
 * Searches many keys with shared doorbells; `found[i]` is the answer to request i. A key for which
 * these are not enough is searched for alone.
 */
export function* searchLeaves(
  client: LeafClient,
  requests: readonly LeafRequest[],
  count: number,
  batch: Batch,
  found: boolean[],
): Operation<void> {
  const { comesLate } = client.missProof;
  batch.clear();
  for (let i = 0; i < count; i++) {
    const request = requests[i];
    prepare(client, request);
    yield* client.begin(request);
    request.spot = client.spotOf(request);
    if (request.spot >= 0) postSpot(client, request, request.spot, batch);
    else if (comesLate) postNeighbourhood(client, request, batch);
    else postSearch(client, request, batch);
  }
  yield batch;
  batch.clear();
  for (let i = 0; i < count; i++) {
    const request = requests[i];
    found[i] = lookAtOnce(client, request);
    if (!found[i] && request.candidates.count === 1) postCandidate(request, 0, batch);
  }
  if (batch.length > 0) yield batch;
  for (let i = 0; i < count; i++) {
    const request = requests[i];
    const isCandidateFound = !found[i] && request.candidates.count === 1 && isCandidate(request, 0);
    if (found[i] || isCandidateFound) {
      found[i] = foundAt(client, request, request.spot >= 0);
      continue;
    }
    const isRead = request.spot < 0 && request.candidates.count < 2 && !comesLate;
    if (isRead && isAbsent(client, request)) continue;
    found[i] = yield* searchProven(client, request);
    if (!found[i] && request.spot >= 0) client.forgetSpot(request);
  }
  for (let i = 0; i < count; i++) if (requests[i].spot < 0) client.missProof.note(found[i]);
}

function lookAtOnce(client: LeafClient, request: LeafRequest): boolean {
  const { spot } = request;
  return spot >= 0 ? lookAtSpot(client, request, spot) : lookInNeighbourhood(client, request);
}
