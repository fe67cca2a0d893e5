import type { Batch, Operation } from '../../../verbs/index.ts';
import { firstMatch, postRecords } from '../../substrates/claims/candidates.ts';
import type { SepHashRequest } from '../request.ts';
import { ENTRY_UNITS_MAX } from '../segments/entry.ts';
import { mayHaveRecent } from '../segments/filter.ts';
import type { SepHashTable } from '../table.ts';
import {
  firstCandidates,
  gather,
  isPresent,
  postHeader,
  postRange,
  postSlots,
  readCandidates,
} from './lookup.ts';
import { aimForSearch, catchUp } from './refresh.ts';

/**
 * Lock-free search (section 4.4). It takes 2 round trips, or 3 when the filter says that the
 * CurSegment may have the key.
 *
 *   D[READ entries of the fingerprint in Main; READ header] -> READ record
 *   D[…] -> D[READ CurSegment; READ header] -> READ record
 *
 * The result counts only when every header that was read has the same metadata as the caches. Then
 * the MainSegment that was read is the one below the CurSegment that was read, and no merge came in
 * between. The paper reads them independently: after a merge that the client does not know of, the
 * old Main and the new CurSegment together lack keys.
 */
export function* search(table: SepHashTable, request: SepHashRequest): Operation<boolean> {
  const { batch } = request;
  request.begin();
  for (let attempt = 1; ; attempt++) {
    if (!aimForSearch(table, request)) {
      yield* catchUp(table, request, attempt);
      continue;
    }
    yield postFirst(table, request, batch.clear());
    if (!request.metaHolds()) continue;
    let recent = slotsAtFirst(table);
    if (needsSlots(table, request)) {
      yield postHeader(request, postSlots(table, request, batch.clear()));
      if (!request.metaHolds()) continue;
      recent = table.geometry.slots;
    }
    if (gather(request, recent) === 0) return false;
    return yield* readCandidates(request);
  }
}

/** The first doorbell: without a filter it reads the CurSegment too. */
function postFirst(table: SepHashTable, request: SepHashRequest, batch: Batch): Batch {
  postRange(request, batch);
  if (!table.techniques.filter) postSlots(table, request, batch);
  return postHeader(request, batch);
}

function slotsAtFirst({ geometry, techniques }: SepHashTable): number {
  return techniques.filter ? 0 : geometry.slots;
}

function needsSlots(table: SepHashTable, request: SepHashRequest): boolean {
  return table.techniques.filter && mayHaveRecent(request);
}

/** Whether the key is present, or undefined if the first candidates do not tell. */
function settled(request: SepHashRequest, end: number): boolean | undefined {
  if (request.candidates.mayBeLong) return undefined;
  request.match = firstMatch(request, 0, end);
  if (request.match < 0 && end < request.candidates.count) return undefined;
  return isPresent(request);
}

/**
 * Searches many keys with shared doorbells: 2 of them, or 3 when a filter is hit. A key for which
 * these are not enough is then searched for alone.
 */
export function* searchMany(
  table: SepHashTable,
  requests: readonly SepHashRequest[],
  count: number,
  batch: Batch,
  found: boolean[],
): Operation<void> {
  /** How many entries of the CurSegment a request has read; -1: it is searched for alone. */
  const recent: number[] = [];
  batch.clear();
  for (let i = 0; i < count; i++) {
    requests[i].begin();
    const aimed = aimForSearch(table, requests[i]);
    recent[i] = aimed ? slotsAtFirst(table) : -1;
    if (aimed) postFirst(table, requests[i], batch);
  }
  if (batch.length > 0) yield batch;
  batch.clear();
  for (let i = 0; i < count; i++) {
    if (recent[i] >= 0 && !requests[i].metaHolds()) recent[i] = -1;
    if (recent[i] < 0 || !needsSlots(table, requests[i])) continue;
    postHeader(requests[i], postSlots(table, requests[i], batch));
    recent[i] = table.geometry.slots;
  }
  if (batch.length > 0) yield batch;
  batch.clear();
  for (let i = 0; i < count; i++) {
    if (recent[i] >= 0 && !requests[i].metaHolds()) recent[i] = -1;
    if (recent[i] < 0 || gather(requests[i], recent[i]) === 0) continue;
    postRecords(requests[i], batch, ENTRY_UNITS_MAX, 0, firstCandidates(requests[i]));
  }
  if (batch.length > 0) yield batch;
  for (let i = 0; i < count; i++) {
    const request = requests[i];
    const answer = recent[i] < 0 ? undefined : answerOf(request);
    found[i] = answer ?? (yield* search(table, request));
  }
}

function answerOf(request: SepHashRequest): boolean | undefined {
  return request.candidates.count === 0 ? false : settled(request, firstCandidates(request));
}
