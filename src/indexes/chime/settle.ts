import type { Operation } from '../../verbs/index.ts';
import type { ChimeRequest, LeafClient } from './leaf-client.ts';
import { gatherLive, matchCandidate, postCandidates, postLongKeys } from './neighbourhood.ts';

/** Looks among the candidates of a neighbourhood that counts. */
export function* settle(tree: LeafClient, request: ChimeRequest): Operation<boolean> {
  const { batch } = request;
  if (gatherLive(tree, request) === 0) return false;
  yield postCandidates(request, batch.clear());
  if (request.longCandidates && postLongKeys(request, batch.clear())) yield batch;
  return matchCandidate(request);
}

/** The candidates that were looked at all have other keys; insertion need not read them again. */
export function rememberOthers(request: ChimeRequest): void {
  const { candidates, candidateCount, others, words } = request;
  request.otherCount = candidateCount;
  for (let i = 0; i < candidateCount; i++) {
    others[2 * i] = words.i32[candidates[i] >> 2];
    others[2 * i + 1] = words.i32[(candidates[i] >> 2) + 1];
  }
}
