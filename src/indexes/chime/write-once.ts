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
import { descend } from './descent.ts';
import { afterClaim, isAlone, isClaimed, postClaim, postCommit } from './insert.ts';
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
import { confirm, noteBorders } from './search.ts';
import { rememberOthers } from './settle.ts';
import { type ChimeRequest, type ChimeTree, SWAP_AT } from './tree.ts';
import { postReplacement, renewHotspot, retireUnlinked } from './update.ts';

/**
 * The first attempt of a write, on a fabric that executes at once: the same verbs and the same
 * tests as in `locate`, `insert` and `replace`, without what generators cost. Undefined when that
 * does not tell: then the write has to be run, and goes on with the request as it was left here.
 * The request's record has a block.
 */
export function writeOnce(
  tree: ChimeTree,
  request: ChimeRequest,
  condition: Condition,
  expected: number,
  fabric: Fabric,
): Outcome | undefined {
  const found = locateOnce(tree, request, fabric);
  if (found === undefined) return undefined;
  if (found) {
    if (refuses(condition, expected, request.foundVersion)) return REFUSED;
    return replaceOnce(tree, request, fabric) ? linked(request, REPLACED) : undefined;
  }
  if (condition === IF_PRESENT || condition === IF_VERSION) {
    request.foundAt = -1;
    return REFUSED;
  }
  return insertOnce(tree, request, fabric) ? linked(request, INSERTED) : undefined;
}

/** D[READ neighbourhood; (READ first word); WRITE record] -> READ records */
function locateOnce(tree: ChimeTree, request: ChimeRequest, fabric: Fabric): boolean | undefined {
  const { batch } = request;
  place(tree, request);
  const parent = descend(tree, request);
  if (parent === undefined || request.leaf === 0) return undefined;
  noteBorders(request, parent);
  const checked = !tree.cache.isKnownLink(request);
  postNeighbourhood(tree, request, batch.clear(), checked);
  tree.records.post(request, batch);
  fabric.execute(batch);
  if (judge(tree, request) !== CURRENT) return undefined;
  if (checked) confirm(tree, request, parent, request.child);
  if (gatherLive(tree, request) > 0) {
    fabric.execute(postCandidates(request, batch.clear()));
    if (request.longCandidates) return undefined;
    if (matchCandidate(request)) return request.foundChained ? undefined : true;
  }
  rememberOthers(request);
  return false;
}

/** D[WRITE header; CAS] */
function replaceOnce(tree: ChimeTree, request: ChimeRequest, fabric: Fabric): boolean {
  fabric.execute(postReplacement(tree, request, request.batch.clear()));
  if (!swapped(request.words, SWAP_AT)) {
    tree.retries.slotChanged++;
    return false;
  }
  // As in `replace`: before anything can fail.
  request.forgetBlock();
  retireUnlinked(tree, request);
  renewHotspot(tree, request);
  return true;
}

/** D[CAS empty -> pending; READ neighbourhood] -> CAS pending -> live */
function insertOnce(tree: ChimeTree, request: ChimeRequest, fabric: Fabric): boolean {
  const { batch } = request;
  if (vacantSlot(tree, request) === 0) return false;
  fabric.execute(postClaim(tree, request, batch.clear()));
  if (!isClaimed(request)) {
    tree.retries.slotChanged++;
    return false;
  }
  // From here on the claim must not be left behind.
  if (!isAlone(tree, request)) return run(fabric, afterClaim(tree, request, 1));
  fabric.execute(postCommit(tree, request, batch.clear()));
  if (swapped(request.words, SWAP_AT)) return true;
  tree.records.retireOutgoing(request);
  tree.retries.withdrawn++;
  return false;
}
