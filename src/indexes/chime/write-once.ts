import { type Fabric, run, swapped } from '../../verbs/index.ts';
import type { Outcome } from '../contract.ts';
import {
  type Condition,
  IF_PRESENT,
  IF_VERSION,
  INSERTED,
  REFUSED,
  REPLACED,
} from '../contract.ts';
import { linked, refuses } from '../slot-operations.ts';
import { afterClaim, isAlone, isClaimed, makePlace, postClaim, postCommit } from './insert.ts';
import { type ChimeRequest, type LeafClient, SWAP_AT } from './leaf-client.ts';
import {
  CURRENT,
  gatherLive,
  judge,
  matchCandidate,
  place,
  postCandidates,
  postNeighbourhood,
  vacantSlot,
} from './neighbourhood.ts';
import { rememberOthers } from './settle.ts';
import { postReplacement, renewHotspot, retireUnlinked } from './update.ts';

/**
 * The first attempt of a write, on a fabric that executes at once: the same verbs and the same
 * tests as in `locate`, `insert` and `replace`, without what generators cost. An insertion that has
 * to make a place for its key first gets a second one. Undefined when that does not tell: then the
 * write has to be run, and goes on with the request as it was left here. The request's record has a
 * block.
 */
export function writeOnce(
  client: LeafClient,
  request: ChimeRequest,
  condition: Condition,
  expected: number,
  fabric: Fabric,
): Outcome | undefined {
  for (let attempt = 1; ; attempt++) {
    const outcome = attemptOnce(client, request, condition, expected, fabric);
    if (outcome !== FULL) return outcome;
    if (attempt > 1) return undefined;
    run(fabric, makePlace(client, request, attempt));
  }
}

/** No outcome: the key's neighbourhood has no empty slot. */
const FULL = -1;

function attemptOnce(
  client: LeafClient,
  request: ChimeRequest,
  condition: Condition,
  expected: number,
  fabric: Fabric,
): Outcome | typeof FULL | undefined {
  const found = locateOnce(client, request, fabric);
  if (found === undefined) return undefined;
  if (found) {
    if (refuses(condition, expected, request.foundVersion)) return REFUSED;
    return replaceOnce(client, request, fabric) ? linked(request, REPLACED) : undefined;
  }
  if (condition === IF_PRESENT || condition === IF_VERSION) {
    request.foundAt = -1;
    return REFUSED;
  }
  if (vacantSlot(client, request) === 0) return FULL;
  return insertOnce(client, request, fabric) ? linked(request, INSERTED) : undefined;
}

/** D[READ neighbourhood; (READ first word); WRITE record] -> READ records */
function locateOnce(
  client: LeafClient,
  request: ChimeRequest,
  fabric: Fabric,
): boolean | undefined {
  const { batch } = request;
  place(client, request);
  if (!client.aim(request)) return undefined;
  const checked = !client.isSure(request);
  postNeighbourhood(client, request, batch.clear(), checked);
  client.records.post(request, batch);
  fabric.execute(batch);
  if (judge(client, request) !== CURRENT) return undefined;
  if (checked) client.confirm(request);
  if (gatherLive(client, request) > 0) {
    fabric.execute(postCandidates(request, batch.clear()));
    if (request.longCandidates) return undefined;
    if (matchCandidate(request)) return request.foundChained ? undefined : true;
  }
  rememberOthers(request);
  return false;
}

/** D[WRITE header; CAS] */
function replaceOnce(client: LeafClient, request: ChimeRequest, fabric: Fabric): boolean {
  fabric.execute(postReplacement(client, request, request.batch.clear()));
  if (!swapped(request.words, SWAP_AT)) {
    client.retries.slotChanged++;
    return false;
  }
  // As in `replace`: before anything can fail.
  request.forgetBlock();
  retireUnlinked(client, request);
  renewHotspot(client, request);
  return true;
}

/** D[CAS empty -> pending; READ neighbourhood] -> CAS pending -> live */
function insertOnce(client: LeafClient, request: ChimeRequest, fabric: Fabric): boolean {
  const { batch } = request;
  fabric.execute(postClaim(client, request, batch.clear()));
  if (!isClaimed(request)) {
    client.retries.slotChanged++;
    return false;
  }
  // From here on the claim must not be left behind.
  if (!isAlone(client, request)) return run(fabric, afterClaim(client, request, 1));
  fabric.execute(postCommit(client, request, batch.clear()));
  if (swapped(request.words, SWAP_AT)) return true;
  client.records.retireOutgoing(request);
  client.retries.withdrawn++;
  return false;
}
