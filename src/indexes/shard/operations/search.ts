import { type Batch, highHalf, type Operation, Scratch } from '../../../verbs/index.ts';
import {
  matchCandidate,
  postCandidates,
  readCandidates,
} from '../../substrates/claims/slot-candidates.ts';
import { bringTo, catchUp } from '../resizing/catch-up.ts';
import { LEVEL_OF_PLACE, PLACES } from '../table/geometry.ts';
import type { ShardRequest } from '../table/request.ts';
import { stampOf } from '../table/slot.ts';
import type { ShardTable } from '../table/table.ts';
import {
  beginGathering,
  gather,
  gatherFirst,
  gatherNodes,
  gatherOthers,
  hasOverflowed,
  isReadAgain,
  postLevel1,
  postLower,
  readChain,
  unsettledPlace,
} from './buckets.ts';

/**
 * Search (Algorithm 2): 1 round trip to the index and 1 for the record. A hit counts whatever state
 * the rest of its bucket is in. A miss counts only if no word of the bucket was frozen, and each
 * had the version by which the bucket was chosen. A key that is present throughout was then in one
 * of those words when it was read.
 *
 * A search first tries only the first entry that matches. In the rare case that it is another
 * key's, the search tries the bucket's other entries: one more round trip if any may match.
 *
 * If the bucket has overflowed, the search also reads levels 2 and 3: one doorbell, and one round
 * trip for each node of a chain.
 */
export function* search(table: ShardTable, request: ShardRequest): Operation<boolean> {
  for (let attempt = 1; ; attempt++) {
    if (!isReadAgain(table, request)) yield postLevel1(table, request, request.batch.clear());
    gatherFirst(table, request);
    if (yield* readMatch(request)) return true;
    if (!request.isSettled) {
      gatherOthers(table, request);
      const { isSettled } = request;
      if (yield* readMatch(request)) return yield* movingOn(table, request);
      if (!isSettled) {
        yield* catchUp(table, request, 0, attempt);
        continue;
      }
    }
    if (!hasOverflowed(request)) return false;
    if (yield* searchLower(table, request)) return yield* movingOn(table, request);
    const place = unsettledPlace(table, request);
    if (place < 0) return false;
    yield* catchUp(table, request, place, attempt);
  }
}

/**
 * After a hit, moves the bucket if it is behind, even though this client only searches (Algorithm
 * 2, line 5): otherwise buckets that are rarely written would never be moved. The hit remains
 * valid, and the found entry alone tells whether the bucket is behind.
 */
function* movingOn(table: ShardTable, request: ShardRequest): Operation<boolean> {
  const { at, buckets, nodesAt, slotAt, version, words, segments } = request;
  // Chain nodes are of no version.
  if (stampOf(highHalf(words, slotAt)) > version || slotAt >= nodesAt) return true;
  const place = table.placeOf(request, slotAt);
  const level = LEVEL_OF_PLACE[place];
  const bytes = table.geometry.bucketBytes[level];
  // A copy, because the caller needs the found entry where it is.
  const view = { words: new Scratch(bytes), at: 0 };
  view.words.u8.set(words.u8.subarray(at[place], at[place] + bytes));
  yield* bringTo(table, level, buckets[place], version, view, segments);
  return true;
}

/** Reads levels 2 and 3 and looks for the key in them. */
function* searchLower(table: ShardTable, request: ShardRequest): Operation<boolean> {
  yield postLower(table, request, request.batch.clear());
  yield* readChain(request);
  beginGathering(request);
  for (let place = 1; place < PLACES; place++) gather(table, request, place);
  gatherNodes(request);
  return yield* readMatch(request);
}

function* readMatch(request: ShardRequest): Operation<boolean> {
  yield* readCandidates(request);
  return matchCandidate(request);
}

/** Whether level 1 alone proves that the key is absent. */
function isAbsent(request: ShardRequest): boolean {
  return request.isSettled && !hasOverflowed(request);
}

/**
 * Searches of many keys in the same two doorbells, so that their latencies overlap; `found[i]` is
 * the answer to request i. A key for which these are not enough is searched for alone.
 */
export function* searchMany(
  tableOf: (request: ShardRequest) => ShardTable,
  requests: readonly ShardRequest[],
  count: number,
  batch: Batch,
  found: boolean[],
): Operation<void> {
  batch.clear();
  for (let i = 0; i < count; i++) postLevel1(tableOf(requests[i]), requests[i], batch);
  yield batch;
  batch.clear();
  for (let i = 0; i < count; i++) {
    gatherFirst(tableOf(requests[i]), requests[i]);
    if (requests[i].candidates.count > 0) postCandidates(requests[i], batch);
  }
  if (batch.length > 0) yield batch;
  for (let i = 0; i < count; i++) {
    const request = requests[i];
    const table = tableOf(request);
    found[i] = !request.candidates.mayBeLong && matchCandidate(request);
    if (found[i] || isAbsent(request)) continue;
    found[i] = yield* search(table, request);
  }
}

/**
 * The first round trips of insertion, update and deletion: a search that writes the operation's own
 * record in the same doorbell. After a hit the entry may be changed, whatever state the rest of its
 * bucket is in: it has the request's version and is not frozen, and the CAS expects that word.
 * After a miss the buckets that were read may be written to.
 */
export function* locate(table: ShardTable, request: ShardRequest): Operation<boolean> {
  for (let attempt = 1; ; attempt++) {
    const { batch } = request;
    batch.clear();
    if (!isReadAgain(table, request)) postLevel1(table, request, batch);
    if (request.record.block !== 0) table.records.post(request, batch);
    if (batch.length > 0) yield batch;
    gatherFirst(table, request);
    if (yield* readMatch(request)) return true;
    if (!request.isSettled) {
      gatherOthers(table, request);
      if (!request.isSettled) {
        yield* catchUp(table, request, 0, attempt);
        continue;
      }
      if (yield* readMatch(request)) return true;
    }
    if (!hasOverflowed(request)) return false;
    const found = yield* searchLower(table, request);
    const place = unsettledPlace(table, request);
    if (place < 0) return found;
    yield* catchUp(table, request, place, attempt);
  }
}
