import type { Operation, Scratch } from '../../verbs/index.ts';
import { lengthOf } from '../substrates/claims/slot-format.ts';
import { partOf, visitSample } from '../traversal/sample.ts';
import { GROUP_BUCKETS } from './parts.ts';
import type { RaceRequest } from './request.ts';
import { depthOf, isLive, pointerOf } from './slot.ts';
import type { RaceTable } from './table.ts';

/**
 * `Index.sample`: a place is a group of buckets. A group that is being split is read as it is: a
 * record in it may be missed, or be met in either half.
 */
export function* sampleRecords(
  table: RaceTable,
  request: RaceRequest,
  places: readonly number[],
  enough: number,
  visit: (request: RaceRequest, keyBytes: number) => void,
): Operation<void> {
  const { directory, geometry, records } = table;
  const groupBytes = GROUP_BUCKETS * geometry.bucketBytes;
  const { depth } = directory;
  const { batch, words } = request;
  words.ensure(places.length * groupBytes);
  batch.clear();
  for (let i = 0; i < places.length; i++) {
    const { part: suffix, rest } = partOf(places[i], 2 ** depth);
    const { part: group } = partOf(rest, geometry.shape.groups);
    const bucket = geometry.bucketAddress(directory.lookup(suffix), GROUP_BUCKETS * group);
    batch.read(bucket, groupBytes, words, i * groupBytes);
  }
  yield batch;
  request.candidateCount = 0;
  let stale: number | undefined;
  for (let i = 0; i < places.length; i++) {
    const { part: suffix } = partOf(places[i], 2 ** depth);
    if (ownsSuffix(words, i * groupBytes, suffix)) noteLive(table, request, i * groupBytes);
    else stale = suffix;
  }
  // What a subtable held before it was split is elsewhere, or has been re-used: for the next time.
  if (stale !== undefined) yield* directory.refresh(stale);
  const picked = { place: (places[0] * 2 ** 24) % 1, enough };
  yield* visitSample(records, request, picked, visit);
}

/** Whether the bucket whose header stands there is of the keys with this suffix. */
function ownsSuffix({ i32 }: Scratch, at: number, suffix: number): boolean {
  const mask = 2 ** depthOf(i32[(at >> 2) + 1]) - 1;
  return (suffix & mask) === i32[at >> 2];
}

/** Notes the records of the group that stands at `start` of the request's words. */
function noteLive({ geometry }: RaceTable, request: RaceRequest, start: number): void {
  const { bucketBytes } = geometry;
  const { i32 } = request.words;
  for (let at = start; at < start + GROUP_BUCKETS * bucketBytes; at += 8) {
    if ((at - start) % bucketBytes === 0) continue;
    const low = i32[at >> 2];
    const high = i32[(at >> 2) + 1];
    if (isLive(low, high)) request.noteRecord(pointerOf(low, high), lengthOf(high));
  }
}
