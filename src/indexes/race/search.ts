import type { Batch, Operation } from '../../verbs/index.ts';
import {
  matchCandidate,
  postCandidates,
  postLongKeys,
} from '../substrates/claims/slot-candidates.ts';
import { CERTAIN, certainty, gatherLive, isWritable, postBuckets } from './buckets.ts';
import { catchUp } from './migrate.ts';
import type { RaceRequest } from './request.ts';
import type { RaceTable } from './table.ts';

/**
 * Lock-free search (RACE Algorithm 4): 2 round trips. A hit is valid even while its bucket is being
 * split: a frozen slot cannot change, so its record is the current one. A miss is valid only if the
 * buckets could not be hiding the key (`certainty`).
 */
export function* search(table: RaceTable, request: RaceRequest): Operation<boolean> {
  const { batch } = request;
  for (let attempt = 1; ; attempt++) {
    yield postBuckets(table, request, batch.clear());
    if (gatherLive(table, request) > 0) {
      yield postCandidates(request, batch.clear());
      if (request.candidates.mayBeLong && postLongKeys(request, batch.clear())) yield batch;
      if (matchCandidate(request)) return true;
    }
    if (certainty(table, request) === CERTAIN) return false;
    yield* catchUp(table, request, attempt);
  }
}

/**
 * Searches for many keys in the same two doorbells, so that their latencies overlap; `found[i]`
 * answers request i. A key that needs another round trip or meets a split is searched for alone.
 */
export function* searchMany(
  table: RaceTable,
  requests: readonly RaceRequest[],
  count: number,
  batch: Batch,
  found: boolean[],
): Operation<void> {
  batch.clear();
  for (let i = 0; i < count; i++) postBuckets(table, requests[i], batch);
  yield batch;
  batch.clear();
  for (let i = 0; i < count; i++) {
    if (gatherLive(table, requests[i]) > 0) postCandidates(requests[i], batch);
  }
  if (batch.length > 0) yield batch;
  for (let i = 0; i < count; i++) {
    const request = requests[i];
    const settled = !request.candidates.mayBeLong;
    found[i] = settled && matchCandidate(request);
    if (found[i] || (settled && certainty(table, request) === CERTAIN)) continue;
    found[i] = yield* search(table, request);
  }
}

/**
 * The first two round trips of insertion, update and deletion: a search that WRITEs the operation's
 * record in its first doorbell (Figure 7). A hit must be in a bucket that may be written to.
 */
export function* locate(table: RaceTable, request: RaceRequest): Operation<boolean> {
  const { batch } = request;
  for (let attempt = 1; ; attempt++) {
    postBuckets(table, request, batch.clear());
    if (request.record.block !== 0) table.records.post(request, batch);
    yield batch;
    if (gatherLive(table, request) > 0) {
      yield postCandidates(request, batch.clear());
      if (request.candidates.mayBeLong && postLongKeys(request, batch.clear())) yield batch;
      if (matchCandidate(request)) {
        if (isWritable(table, request, request.slotAt)) return true;
        yield* catchUp(table, request, attempt);
        continue;
      }
    }
    if (certainty(table, request) === CERTAIN) {
      rememberOthers(request);
      return false;
    }
    yield* catchUp(table, request, attempt);
  }
}

/** Notes the candidates, which all turned out to have other keys, so that insertion skips them. */
function rememberOthers(request: RaceRequest): void {
  const { candidateSlots, others, words } = request;
  const { count: candidateCount } = request.candidates;
  request.otherCount = Math.min(candidateCount, others.length >> 1);
  for (let i = 0; i < request.otherCount; i++) {
    others[2 * i] = words.i32[candidateSlots[i] >> 2];
    others[2 * i + 1] = words.i32[(candidateSlots[i] >> 2) + 1];
  }
}
