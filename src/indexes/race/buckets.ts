import type { Address, Batch } from '../../verbs/index.ts';
import { BUCKETS_AT } from '../substrates/claims/slot-request.ts';
import type { RaceRequest } from './request.ts';
import { depthOf, isAhead, isReady, isVacant, ownsHash, PENDING, stampOf } from './slot.ts';
import type { RaceTable } from './table.ts';

/** Adds the READs of the key's two combined buckets, in the subtable that the cache names. */
export function postBuckets(table: RaceTable, request: RaceRequest, batch: Batch): Batch {
  const { geometry } = table;
  const { h1, h2, h3 } = request.hash;
  const subtable = table.directory.lookup(h1);
  request.subtable = subtable;
  request.combined1 = geometry.bucketAddress(subtable, geometry.firstChoice(h2));
  request.combined2 = geometry.bucketAddress(subtable, geometry.secondChoice(h2, h3));
  return repostBuckets(table, request, batch);
}

/** The same READs again, of the same subtable even if the cache has learned of another by now. */
export function repostBuckets(table: RaceTable, request: RaceRequest, batch: Batch): Batch {
  const { combinedBytes } = table.geometry;
  return batch
    .read(request.combined1, combinedBytes, request.words, BUCKETS_AT)
    .read(request.combined2, combinedBytes, request.words, BUCKETS_AT + combinedBytes);
}

/** Collects the live slots that have the key's fingerprint. */
export function gatherLive(table: RaceTable, request: RaceRequest): number {
  const { i32 } = request.words;
  const { candidateSlots, fingerprint } = request;
  const end = (BUCKETS_AT + 2 * table.geometry.combinedBytes) >> 2;
  let count = 0;
  for (let word = BUCKETS_AT >> 2; word < end; word += 2) {
    const high = i32[word + 1];
    if (high >>> 24 === fingerprint && (high & PENDING) === 0) candidateSlots[count++] = word << 2;
  }
  request.candidates.count = count;
  request.candidates.mayBeLong = false;
  return count;
}

export const CERTAIN = 0;
export const STALE = 1;
export const MOVING = 2;

/**
 * Whether the buckets in `words` are the whole truth about the key: all four buckets own it, none
 * is waiting for its parent's slots, and no slot is stamped beyond its bucket's header. Otherwise a
 * key that was not found may be present. A READ is no snapshot: the header may be older than a slot
 * beside it.
 */
export function certainty(table: RaceTable, request: RaceRequest): number {
  const { i32 } = request.words;
  const { bucketBytes, combinedBytes } = table.geometry;
  const end = BUCKETS_AT + 2 * combinedBytes;
  let verdict = CERTAIN;
  for (let bucket = BUCKETS_AT; bucket < end; bucket += bucketBytes) {
    const header = i32[(bucket >> 2) + 1];
    if (!ownsHash(i32[bucket >> 2], header, request.hash.h1)) return STALE;
    if (!isReady(header) || !slotsSettled(i32, bucket, bucketBytes, depthOf(header))) {
      verdict = MOVING;
    }
  }
  return verdict;
}

/** Whether no slot of the bucket is frozen for, or written after, a split that the header lacks. */
export function slotsSettled(
  words: Int32Array,
  bucket: number,
  bytes: number,
  depth: number,
): boolean {
  const end = (bucket + bytes) >> 2;
  for (let word = (bucket >> 2) + 3; word < end; word += 2) {
    if (isAhead(words[word], depth)) return false;
  }
  return true;
}

/** Whether the bucket of the slot at `at` may be written to by CAS on that slot. */
export function isWritable(table: RaceTable, request: RaceRequest, at: number): boolean {
  const { i32 } = request.words;
  const header = bucketOf(table, at);
  const headerHigh = i32[(header >> 2) + 1];
  return (
    isReady(headerHigh) &&
    ownsHash(i32[header >> 2], headerHigh, request.hash.h1) &&
    stampOf(i32[(at >> 2) + 1]) <= depthOf(headerHigh)
  );
}

/** Offset of the header of the bucket in which the slot at `at` is. */
function bucketOf(table: RaceTable, at: number): number {
  const { bucketBytes } = table.geometry;
  return at - ((at - BUCKETS_AT) % bucketBytes);
}

/** Local depth of the bucket of the slot at `at`. */
export function depthAt(table: RaceTable, request: RaceRequest, at: number): number {
  return depthOf(request.words.i32[(bucketOf(table, at) >> 2) + 1]);
}

/** The address in the pool of the slot at `at`. */
export function slotAddress(table: RaceTable, request: RaceRequest, at: number): Address {
  const { combinedBytes } = table.geometry;
  const offset = at - BUCKETS_AT;
  return offset < combinedBytes
    ? request.combined1 + offset
    : request.combined2 + (offset - combinedBytes);
}

/**
 * A vacant slot: in the less loaded combined bucket, in its main bucket before its overflow bucket
 * (section 3.2); 0 when both combined buckets are full.
 */
export function chooseSlot(table: RaceTable, request: RaceRequest): number {
  const { combinedBytes } = table.geometry;
  const second = BUCKETS_AT + combinedBytes;
  const load1 = occupied(table, request, BUCKETS_AT);
  const load2 = occupied(table, request, second);
  const all = combinedSlots(table);
  if (load1 === all && load2 === all) return 0;
  return load1 <= load2
    ? vacantIn(table, request, BUCKETS_AT, request.hash.h2)
    : vacantIn(table, request, second, request.hash.h3);
}

function combinedSlots(table: RaceTable): number {
  return 2 * table.geometry.shape.associativity;
}

function occupied(table: RaceTable, request: RaceRequest, combined: number): number {
  const { bucketBytes } = table.geometry;
  return (
    occupiedIn(request, combined, bucketBytes) +
    occupiedIn(request, combined + bucketBytes, bucketBytes)
  );
}

function occupiedIn(request: RaceRequest, bucket: number, bucketBytes: number): number {
  const { i32 } = request.words;
  const end = (bucket + bucketBytes) >> 2;
  let count = 0;
  for (let word = (bucket >> 2) + 2; word < end; word += 2) {
    if (!isVacant(i32[word], i32[word + 1])) count++;
  }
  return count;
}

/**
 * The hash word that chose the combined bucket tells by its lowest bit which half is the main one.
 */
function vacantIn(
  table: RaceTable,
  request: RaceRequest,
  combined: number,
  choice: number,
): number {
  const { bucketBytes } = table.geometry;
  const mainFirst = (choice & 1) === 0;
  const main = mainFirst ? combined : combined + bucketBytes;
  const overflow = mainFirst ? combined + bucketBytes : combined;
  return (
    vacantInBucket(request, main, bucketBytes) || vacantInBucket(request, overflow, bucketBytes)
  );
}

function vacantInBucket(request: RaceRequest, bucket: number, bucketBytes: number): number {
  const { i32 } = request.words;
  const end = (bucket + bucketBytes) >> 2;
  for (let word = (bucket >> 2) + 2; word < end; word += 2) {
    if (isVacant(i32[word], i32[word + 1])) return word << 2;
  }
  return 0;
}
