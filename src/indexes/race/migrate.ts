import {
  type Address,
  Batch,
  NULL_ADDRESS,
  type Operation,
  readInteger,
  Scratch,
  UNIT_BYTES,
} from '../../verbs/index.ts';
import { certainty, STALE, slotsSettled } from './buckets.ts';
import { PARENT } from './geometry.ts';
import { Move } from './move.ts';
import type { RaceRequest } from './request.ts';
import { depthOf, isReady } from './slot.ts';
import type { RaceTable } from './table.ts';

/**
 * To be called after a search or a write has read buckets that cannot tell for certain whether its
 * key is present. Refreshes the directory, then finishes moving those of the key's buckets that are
 * being moved.
 */
export function* catchUp(table: RaceTable, request: RaceRequest, attempt: number): Operation<void> {
  const stale = certainty(table, request) === STALE;
  yield* table.retry(request, stale ? 'staleDirectory' : 'movingBucket', attempt);
  const subtable = yield* table.directory.refresh(request.hash.h1);
  for (const bucket of bucketsOf(table, request)) yield* settle(table, subtable, bucket);
}

/** The four buckets in which a key may be. */
export function bucketsOf(table: RaceTable, { hash }: RaceRequest): number[] {
  const first = table.geometry.firstChoice(hash.h2);
  const second = table.geometry.secondChoice(hash.h2, hash.h3);
  return [first, first + 1, second, second + 1];
}

/** Finishes the move into or out of one bucket, if there is one. */
export function* settle(table: RaceTable, subtable: Address, bucket: number): Operation<void> {
  const { geometry } = table;
  const area = new Scratch(UNIT_BYTES + geometry.bucketBytes);
  yield new Batch()
    .read(subtable, 16, area, 0)
    .read(geometry.bucketAddress(subtable, bucket), geometry.bucketBytes, area, UNIT_BYTES);
  const suffix = area.i32[UNIT_BYTES >> 2];
  const header = area.i32[(UNIT_BYTES >> 2) + 1];
  if (!isReady(header)) {
    yield* moveBuckets(table, readInteger(area, PARENT), subtable, bucket, 1);
  } else if (!slotsSettled(area.i32, UNIT_BYTES, geometry.bucketBytes, depthOf(header))) {
    const child = yield* table.directory.child(suffix, depthOf(header));
    if (child !== NULL_ADDRESS) yield* moveBuckets(table, subtable, child, bucket, 1);
  }
}

/**
 * Moves `count` buckets of a subtable that is being split into its child, each slot to the slot of
 * the same index, which is free because the child is new. Any number of clients may do this for the
 * same bucket at the same time and die anywhere: every step is a CAS from a word that never recurs.
 *
 *   1  freeze every slot of the parent's bucket with the new depth's stamp: CASes in flight fail
 *   2  read the records: one more bit of each key's hash tells whether the record moves
 *   3  copy each slot to the child's (UNMOVED -> record or vacant)
 *   4  clear the parent's slots that moved, and pending ones, whose owners begin again
 *   5  make the child's bucket ready: from now on clients write to it
 *   6  raise the depth in the parent's header: its slots thaw
 *
 * 4 comes before 5, so that no record is reachable by an old slot once it can be retired; 5 before
 * 6, so that every key has a bucket at any time. The paper's order is header, copy, clear, while
 * other clients insert into the child: the mover may then find no free slot for a key.
 */
export function* moveBuckets(
  table: RaceTable,
  parent: Address,
  child: Address,
  first: number,
  count: number,
): Operation<void> {
  const move = table.idleMoves.pop() ?? new Move(table.geometry);
  move.begin(parent, child, first, count);
  yield* move.identify();
  if (yield* move.freeze()) {
    yield* move.readKeys();
    yield move.transfer();
  }
  table.idleMoves.push(move);
}
