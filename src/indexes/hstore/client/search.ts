import { StepwellError } from '../../../errors.ts';
import { HEADER_BYTES, SLOT_UNITS_MAX } from '../../../records/layout.ts';
import {
  type Address,
  type Batch,
  highHalf,
  lowHalf,
  NULL_ADDRESS,
  type Operation,
} from '../../../verbs/index.ts';
import { firstMatch, postLongRecords, postRecords } from '../../substrates/claims/candidates.ts';
import { readState, reportLost } from '../protocol/pair-state.ts';
import {
  BUCKET_BYTES,
  isEmpty,
  markIn,
  nextIn,
  recordOf,
  SLOTS,
  signatureOf,
  unitsOfSlot,
} from '../protocol/slot.ts';
import type { Word } from '../protocol/word.ts';
import { restoreTable } from '../recovery/rebuild-table.ts';
import { askForSlots } from './scan.ts';
import { BUCKET_AT, type HStoreRequest, type HStoreTable } from './table.ts';

const ATTEMPTS_MAX = 100;

/**
 * GET (section 4.2): the bucket, then the record, both by READ: 2 round trips and no server. Each
 * further bucket of a chain costs one more, and its records.
 *
 * A key stays in its slot until it is deleted, and a slot is one word. So whenever this client
 * reads the bucket of a key that is present all the time, it finds the key; a key that it misses
 * was absent at some moment of the search. The record that a slot names does not change while this
 * client is in its epoch. While the table is lost the skiplist server answers (section 3.2).
 */
export function* search(table: HStoreTable, request: HStoreRequest): Operation<boolean> {
  for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
    // Before anything is read: an interleaved operation may load a later table meanwhile.
    const { generation } = table.pairOf(request).geometry;
    const found = yield* searchTable(table, request);
    if (found !== undefined) return found;
    const answer = yield* searchDegraded(table, request, generation);
    if (answer !== undefined) return answer;
  }
  throw new StepwellError('SW_CONTENTION', 'the hash table is lost again and again');
}

/** Undefined when the table is lost. */
function* searchTable(table: HStoreTable, request: HStoreRequest): Operation<boolean | undefined> {
  let bucket = firstBucket(table, request);
  request.cycleGuard.begin();
  while (bucket !== 0) {
    request.cycleGuard.pass(bucket);
    yield postBucket(request, bucket, request.batch.clear());
    if (!isBucket(request)) return undefined;
    gather(request);
    if (request.candidates.count > 0) {
      yield* readRecords(request);
      if (matches(request)) return true;
    }
    bucket = nextIn(request.words, BUCKET_AT);
  }
  return false;
}

/**
 * GET while the table is lost (section 3.2): asks the skiplist server for the slot word of the
 * first key from this one on, and reads its record. If there is no such server, restores the table
 * and returns undefined. `met` is the generation of the table that had the invalid bucket.
 */
function* searchDegraded(
  table: HStoreTable,
  request: HStoreRequest,
  met: number,
): Operation<boolean | undefined> {
  const pair = table.pairOf(request);
  const { table: state, skiplist } = yield* readState(pair);
  const isMet = state.generation === met;
  // Does not check whether that client is alive, which takes a walk over all clients: `askForSlots`
  // notices if it is dead.
  const isServed = pair.skiplistLease.isTaken(skiplist.holder);
  if (isMet && !state.isLost) yield* reportLost(pair.geometry, met);
  if ((isMet || state.isLost) && isServed) {
    const { outgoing, keyBytes } = request;
    const from = outgoing.u8.slice(HEADER_BYTES, HEADER_BYTES + keyBytes);
    table.retries.degraded++;
    const slots = yield* askForSlots(table, pair, request, { from, reverse: false, count: 1 });
    if (slots?.length === 0) return false;
    if (slots) return yield* readSlot(request, slots[0]);
  }
  yield* restoreTable(pair, met);
  return undefined;
}

/**
 * Searches for all keys in two shared doorbells, then one by one for those that the first bucket of
 * their chain does not settle.
 */
export function* searchMany(
  table: HStoreTable,
  requests: readonly HStoreRequest[],
  count: number,
  batch: Batch,
  found: boolean[],
): Operation<void> {
  batch.clear();
  for (let i = 0; i < count; i++) postBucket(requests[i], firstBucket(table, requests[i]), batch);
  yield batch;
  batch.clear();
  for (let i = 0; i < count; i++) {
    if (isBucket(requests[i])) gather(requests[i]);
    else requests[i].candidates.count = 0;
    if (requests[i].candidates.count > 0) postRecords(requests[i], batch, SLOT_UNITS_MAX);
  }
  if (batch.length > 0) yield batch;
  for (let i = 0; i < count; i++) {
    const request = requests[i];
    const isRead = request.candidates.count === 0 || !request.candidates.mayBeLong;
    const settled = isBucket(request) && isRead;
    found[i] = settled && matches(request);
    if (found[i] || (settled && nextIn(request.words, BUCKET_AT) === NULL_ADDRESS)) continue;
    found[i] = yield* search(table, request);
  }
}

/** Reads the record that a slot names as the request's found one, if it has the request's key. */
export function* readSlot(request: HStoreRequest, slot: Word): Operation<boolean> {
  request.candidates.count = 0;
  request.bucket = NULL_ADDRESS;
  request.noteRecord(recordOf(slot), unitsOfSlot(slot.high));
  yield* readRecords(request);
  request.slotLow = slot.low;
  request.slotHigh = slot.high;
  return firstMatch(request) === 0;
}

/** The key's first bucket. Notes its mark: an interleaved operation may load a later table. */
function firstBucket(table: HStoreTable, request: HStoreRequest): Address {
  const { geometry } = table.pairOf(request);
  request.mark = geometry.mark;
  return geometry.bucketOf(request.hash);
}

function postBucket(request: HStoreRequest, bucket: Address, batch: Batch): Batch {
  request.bucket = bucket;
  return batch.read(bucket, BUCKET_BYTES, request.words, BUCKET_AT);
}

/** Whether the words hold a valid bucket. Those of an old table have slots, but no mark. */
function isBucket({ mark, words }: HStoreRequest): boolean {
  return markIn(words, BUCKET_AT) === mark;
}

/** Notes the records of the slots with the key's signature. */
function gather(request: HStoreRequest): void {
  const { i32 } = request.words;
  const signature = signatureOf(request.hash.h2);
  request.candidates.count = 0;
  for (let slot = 0; slot < SLOTS; slot++) {
    const low = i32[(BUCKET_AT >> 2) + 2 * slot];
    const high = i32[(BUCKET_AT >> 2) + 2 * slot + 1];
    if (high >>> 24 !== signature || isEmpty(high)) continue;
    request.candidateSlot[request.candidates.count] = slot;
    request.noteRecord(recordOf({ low, high }), unitsOfSlot(high));
  }
}

/** Reads the candidates' records: one round trip, two for keys over 16 KB. */
function* readRecords(request: HStoreRequest): Operation<void> {
  yield postRecords(request, request.batch.clear(), SLOT_UNITS_MAX);
  if (!request.candidates.mayBeLong) return;
  if (postLongRecords(request, request.batch.clear(), SLOT_UNITS_MAX)) yield request.batch;
}

function matches(request: HStoreRequest): boolean {
  const match = firstMatch(request);
  if (match < 0) return false;
  request.slotIn = request.candidateSlot[match];
  const at = BUCKET_AT + 8 * request.slotIn;
  request.slotLow = lowHalf(request.words, at);
  request.slotHigh = highHalf(request.words, at);
  return true;
}
