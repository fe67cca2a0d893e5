import type { Address, Operation, Scratch } from '../../verbs/index.ts';
import type { CheckSink } from '../contract.ts';
import { postCandidates, postLongKeys } from '../substrates/claims/slot-candidates.ts';
import { lengthOf } from '../substrates/claims/slot-format.ts';
import { checkEach, checkRecord } from '../traversal/check-records.ts';
import { gatherLive, postBuckets, slotAddress } from './buckets.ts';
import { fingerprintOf } from './geometry.ts';
import { bucketsOf } from './migrate.ts';
import { eachBucket } from './parts.ts';
import type { RaceRequest } from './request.ts';
import { depthOf, isLive, pointerOf } from './slot.ts';
import type { RaceTable } from './table.ts';

interface LiveSlot {
  address: Address;
  record: Address;
  units: number;
  fingerprint: number;
  bucket: number;
}

/**
 * Verifies every invariant of a table: headers agree with the directory, every record is intact, in
 * a bucket of its key, under its fingerprint and length, and a search finds it there exactly once.
 */
export function* checkTable(table: RaceTable, sink: CheckSink): Operation<number> {
  const slots: LiveSlot[] = [];
  yield* eachBucket(table, (words, at, subtable, bucket) => {
    checkHeader(table, words, at, subtable, bucket, sink);
    collectSlots(table, words, at, subtable, bucket, slots);
  });
  for (const subtable of table.directory.subtables()) {
    sink.reachable(subtable, table.geometry.subtableUnits);
  }
  const newRequest = () => table.newRequest();
  yield* checkEach(sink, slots, newRequest, (slot, request) =>
    checkSlot(table, request, slot, sink),
  );
  return slots.length;
}

function checkHeader(
  table: RaceTable,
  { i32 }: Scratch,
  at: number,
  subtable: Address,
  bucket: number,
  sink: CheckSink,
): void {
  const suffix = i32[at >> 2];
  const depth = depthOf(i32[(at >> 2) + 1]);
  const where = `bucket ${bucket} of subtable ${subtable}`;
  if (depth > table.directory.depth) {
    sink.problem(`${where}: local depth ${depth} exceeds the global depth`);
  } else if (table.directory.lookup(suffix) !== subtable) {
    sink.problem(`${where}: the directory maps suffix ${suffix} elsewhere`);
  } else if (suffix >= 2 ** depth) {
    sink.problem(`${where}: suffix ${suffix} is longer than its depth ${depth}`);
  }
}

function collectSlots(
  table: RaceTable,
  { i32 }: Scratch,
  at: number,
  subtable: Address,
  bucket: number,
  slots: LiveSlot[],
): void {
  const base = table.geometry.bucketAddress(subtable, bucket);
  for (let offset = 8; offset < table.geometry.bucketBytes; offset += 8) {
    const low = i32[(at + offset) >> 2];
    const high = i32[((at + offset) >> 2) + 1];
    if (!isLive(low, high)) continue;
    slots.push({
      address: base + offset,
      record: pointerOf(low, high),
      units: lengthOf(high),
      fingerprint: high >>> 24,
      bucket,
    });
  }
}

function* checkSlot(
  table: RaceTable,
  request: RaceRequest,
  slot: LiveSlot,
  sink: CheckSink,
): Operation<void> {
  if (!(yield* checkRecord(table.records, request, slot, sink))) return;
  const where = `record at ${slot.record}`;
  request.fingerprint = fingerprintOf(request.hash.h1);
  if (request.fingerprint !== slot.fingerprint) sink.problem(`${where}: wrong fingerprint`);
  if (!bucketsOf(table, request).includes(slot.bucket)) sink.problem(`${where}: wrong bucket`);
  const found = yield* slotsOfKey(table, request);
  if (found.length > 1) sink.problem(`${where}: its key has ${found.length} slots`);
  if (!found.includes(slot.address)) sink.problem(`${where}: its key is not found at its slot`);
}

/** Addresses of all live slots that have the request's key, as an operation would see them. */
function* slotsOfKey(table: RaceTable, request: RaceRequest): Operation<Address[]> {
  yield postBuckets(table, request, request.batch.clear());
  if (gatherLive(table, request) === 0) return [];
  yield postCandidates(request, request.batch.clear());
  if (request.candidates.mayBeLong && postLongKeys(request, request.batch.clear()))
    yield request.batch;
  const found: Address[] = [];
  for (let i = 0; i < request.candidates.count; i++) {
    if (!request.matches(request.candidates.at[i])) continue;
    found.push(slotAddress(table, request, request.candidateSlots[i]));
  }
  return found;
}
