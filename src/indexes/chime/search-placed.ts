import type { Batch, Operation } from '../../verbs/index.ts';
import type { ChimeRequest, LeafClient } from './leaf-client.ts';
import {
  CURRENT,
  FROZEN_STILL,
  gatherLive,
  judge,
  matchCandidate,
  postCandidates,
  postNeighbourhood,
} from './neighbourhood.ts';

/**
 * Searches of many keys whose leaves are known (`leaf`, `checked`) in two doorbells, so that their
 * latencies overlap; `found[i]` is the answer to request i. What these do not settle is searched
 * for alone.
 */
export function* searchPlaced<C extends LeafClient>(
  client: C,
  requests: readonly ChimeRequest[],
  count: number,
  batch: Batch,
  found: boolean[],
  search: (client: C, request: ChimeRequest) => Operation<boolean>,
): Operation<void> {
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
