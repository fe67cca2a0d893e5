import type { Batch, Operation } from '../../../verbs/index.ts';
import { firstMatch, postRecords } from '../../substrates/claims/candidates.ts';
import type { SepHashRequest } from '../request.ts';
import { ENTRY_UNITS_MAX } from '../segments/entry.ts';
import {
  filterIsClear,
  filterNamesOther,
  isMarked,
  noteMark,
  postFilter,
} from '../segments/filter.ts';
import type { SepHashTable } from '../table.ts';
import {
  firstCandidates,
  gather,
  isPresent,
  postMeta,
  postRange,
  postSlots,
  readCandidates,
} from './lookup.ts';
import { aimForSearch, catchUp, followFilter } from './refresh.ts';

/**
 * Lock-free search (section 4.4). It takes 2 round trips, or 3 when the filter says that the
 * CurSegment may have the key. A client that knows this beforehand, from a write or search of its
 * own, reads the CurSegment at once.
 *
 *   D[READ entries of the fingerprint in Main; READ filter word] -> READ record
 *   D[…] -> D[READ CurSegment; READ metadata] -> READ record
 *   D[READ entries of the fingerprint in Main; READ CurSegment; READ metadata] -> READ record
 *
 * The result counts only when the metadata, or the filter word that equals them, are those of the
 * caches. Then the MainSegment that was read is the one below the CurSegment, and no merge came in
 * between. The paper reads them independently: after a merge that a client has not heard of, the
 * old Main and the new CurSegment together lack keys.
 */
export function* search(table: SepHashTable, request: SepHashRequest): Operation<boolean> {
  const { batch } = request;
  const { slots } = table.geometry;
  request.begin();
  for (let attempt = 1; ; attempt++) {
    if (!aimForSearch(table, request)) {
      yield* catchUp(table, request, attempt);
      continue;
    }
    let recent = slotsAtFirst(table, request);
    yield postFirst(table, request, batch.clear(), recent);
    if (recent > 0) {
      if (!request.metaHolds()) continue;
    } else if (filterNamesOther(request)) {
      yield* followFilter(table, request);
      continue;
    } else if (!filterIsClear(request)) {
      yield postMeta(request, postSlots(table, request, batch.clear()));
      // If the segment was merged meanwhile, the word has most likely been cleared since.
      request.readsSlots = true;
      if (!request.metaHolds()) continue;
      noteMark(table, request);
      recent = slots;
    }
    if (gather(request, recent) === 0) return false;
    return yield* readCandidates(request);
  }
}

/** Entries of the CurSegment that the first doorbell reads: all or none. */
function slotsAtFirst(table: SepHashTable, request: SepHashRequest): number {
  const asksFilter = table.techniques.filter && !request.readsSlots && !isMarked(table, request);
  return asksFilter ? 0 : table.geometry.slots;
}

function postFirst(
  table: SepHashTable,
  request: SepHashRequest,
  batch: Batch,
  recent: number,
): Batch {
  postRange(request, batch);
  if (recent === 0) return postFilter(table, request, batch);
  return postMeta(request, postSlots(table, request, batch));
}

/** What the first candidates say, or undefined when they do not tell. */
function settled(request: SepHashRequest, end: number): boolean | undefined {
  if (request.candidates.mayBeLong) return undefined;
  request.match = firstMatch(request, 0, end);
  if (request.match < 0 && end < request.candidates.count) return undefined;
  return isPresent(request);
}

/**
 * Searches of many keys in doorbells that they share: 2 of them, or 3 when a filter is hit. What
 * these do not settle is searched for alone.
 */
export function* searchMany(
  table: SepHashTable,
  requests: readonly SepHashRequest[],
  count: number,
  batch: Batch,
  found: boolean[],
): Operation<void> {
  /** Entries of the CurSegment that a request has read, or -1 when it is searched for alone. */
  const recent: number[] = [];
  batch.clear();
  for (let i = 0; i < count; i++) {
    requests[i].begin();
    recent[i] = aimForSearch(table, requests[i]) ? slotsAtFirst(table, requests[i]) : -1;
    if (recent[i] >= 0) postFirst(table, requests[i], batch, recent[i]);
  }
  if (batch.length > 0) yield batch;
  batch.clear();
  for (let i = 0; i < count; i++) {
    if (recent[i] !== 0 || filterIsClear(requests[i])) continue;
    postMeta(requests[i], postSlots(table, requests[i], batch));
    recent[i] = table.geometry.slots;
  }
  if (batch.length > 0) yield batch;
  batch.clear();
  for (let i = 0; i < count; i++) {
    if (recent[i] > 0 && !requests[i].metaHolds()) recent[i] = -1;
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
