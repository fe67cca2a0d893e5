import { invariant } from '../../errors.ts';
import { HASH_PADDING, KeyHash } from '../../records/hash.ts';
import { HEADER_BYTES, KEY_BYTES_AND_KIND, pad8 } from '../../records/layout.ts';
import {
  type Address,
  Batch,
  CAS_BYTES,
  NULL_ADDRESS,
  type Operation,
  readInteger,
  Scratch,
  setWord,
  UNIT_BYTES,
} from '../../verbs/index.ts';
import { certainty, STALE, slotsSettled } from './buckets.ts';
import {
  bucketHeaderHigh,
  depthOf,
  emptySlot,
  isLive,
  isReady,
  lengthOf,
  PENDING,
  pointerOf,
  stampOf,
  UNMOVED,
  withStamp,
} from './slot.ts';
import type { RaceRequest, RaceTable } from './table.ts';

/** Subtable header. */
export const PARENT = 0;
export const IDENTITY = 8;

/** Lines of a record that a mover reads at first; a longer key costs one more READ. */
const KEY_UNITS = 4;
const FREEZE_ROUNDS_MAX = 10_000;

/**
 * After a search or a write met buckets that are not the whole truth about its key: refreshes the
 * directory, then finishes the move of those of the key's buckets that are being moved, whoever
 * began it.
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
 * same bucket at the same time and die anywhere: every step is a CAS from a word that occurs once.
 *
 *   1  freeze every slot of the parent's bucket with the new depth's stamp: what is in flight fails
 *   2  read the records, to tell by one more bit of their keys' hashes who moves; nothing changes
 *   now 3  copy each slot to the child's (UNMOVED -> record or vacant)
 *   4  clear the parent's slots that moved, and pending ones, whose owners begin again
 *   5  make the child's bucket ready: from now on it is written to
 *   6  raise the depth in the parent's header: its slots thaw
 *
 * 4 comes before 5, so that no record is reachable by an old slot once it can be retired; 5 before
 * 6, so that a key is never without a place. The paper's order (header, copy, clear, in a subtable
 * that others insert into meanwhile) leaves keys for which the mover finds no slot.
 */
export function* moveBuckets(
  table: RaceTable,
  parent: Address,
  child: Address,
  first: number,
  count: number,
): Operation<void> {
  const move = table.idleMoves.pop() ?? new Move(table);
  move.begin(parent, child, first, count);
  yield* move.identify();
  if (yield* move.freeze()) {
    yield* move.readKeys();
    yield move.transfer();
  }
  table.idleMoves.push(move);
}

/** One move of some buckets; reused, because a split is many of them. */
export class Move {
  readonly #table: RaceTable;
  readonly #bucketBytes: number;
  #parent: Address = NULL_ADDRESS;
  #child: Address = NULL_ADDRESS;
  #first = 0;
  #count = 0;
  /** The parent's buckets; CAS words; the beginnings of records; a key to hash. */
  readonly #buckets = new Scratch(64);
  readonly #swaps = new Scratch(64);
  readonly #records = new Scratch(64);
  readonly #key = new Scratch(KEY_UNITS * UNIT_BYTES + HASH_PADDING);
  readonly #hash = new KeyHash();
  readonly #batch = new Batch();
  /** Local depth and suffix of the child. */
  #depth = 0;
  #suffix = 0;
  /** By slot, in the order of the buckets: whether its record belongs to the child. */
  readonly #moves: boolean[] = [];

  constructor(table: RaceTable) {
    this.#table = table;
    this.#bucketBytes = table.geometry.bucketBytes;
  }

  begin(parent: Address, child: Address, first: number, count: number): void {
    this.#parent = this.#table.geometry.bucketAddress(parent, first);
    this.#child = child;
    this.#first = first;
    this.#count = count;
    const slots = count * this.#table.geometry.shape.associativity;
    this.#buckets.ensure(count * this.#bucketBytes);
    this.#swaps.ensure(CAS_BYTES * (2 * slots + 2 * count));
    this.#records.ensure(slots * KEY_UNITS * UNIT_BYTES);
  }

  *identify(): Operation<void> {
    yield this.#batch.clear().read(this.#child, 16, this.#swaps, 0);
    this.#suffix = this.#swaps.i32[IDENTITY >> 2];
    this.#depth = this.#swaps.i32[(IDENTITY >> 2) + 1];
    invariant(this.#depth > 0 && this.#suffix >>> (this.#depth - 1) === 1, 'child identity');
  }

  /** Step 1. False when every bucket has been moved already. */
  *freeze(): Operation<boolean> {
    const bytes = this.#count * this.#bucketBytes;
    yield this.#batch.clear().read(this.#parent, bytes, this.#buckets, 0);
    for (let round = 0; round < FREEZE_ROUNDS_MAX; round++) {
      if (this.#allMoved()) return false;
      this.#batch.clear();
      this.#eachSlot((_bucket, at) => this.#postFreeze(at));
      if (this.#batch.length === 0) return true;
      yield this.#batch.read(this.#parent, bytes, this.#buckets, 0);
    }
    return invariant(false, 'a bucket cannot be frozen') as never;
  }

  #allMoved(): boolean {
    for (let bucket = 0; bucket < this.#count; bucket++) {
      if (!this.#isMoved(bucket)) return false;
    }
    return true;
  }

  #isMoved(bucket: number): boolean {
    return depthOf(this.#high(bucket * this.#bucketBytes)) >= this.#depth;
  }

  #postFreeze(at: number): void {
    const high = this.#high(at);
    if (stampOf(high) >= this.#depth) return;
    this.#postSwap(
      this.#parent + at,
      this.#low(at),
      high,
      this.#low(at),
      withStamp(high, this.#depth),
    );
  }

  /** Step 2. */
  *readKeys(): Operation<void> {
    this.#batch.clear();
    let slot = 0;
    this.#eachSlot((_bucket, at) => {
      this.#moves[slot] = false;
      if (isLive(this.#low(at), this.#high(at))) this.#postRecord(slot, at);
      slot++;
    });
    if (this.#batch.length === 0) return;
    yield this.#batch;
    slot = 0;
    for (let at = 0; at < this.#count * this.#bucketBytes; at += 8) {
      if (at % this.#bucketBytes === 0) continue;
      if (isLive(this.#low(at), this.#high(at))) this.#moves[slot] = yield* this.#belongs(slot, at);
      slot++;
    }
  }

  #postRecord(slot: number, at: number): void {
    const high = this.#high(at);
    const bytes = Math.min(lengthOf(high), KEY_UNITS) * UNIT_BYTES;
    const here = slot * KEY_UNITS * UNIT_BYTES;
    this.#batch.read(pointerOf(this.#low(at), high), bytes, this.#records, here);
  }

  /** Whether the record of a slot belongs to the child, by one more bit of its key's hash. */
  *#belongs(slot: number, at: number): Operation<boolean> {
    const here = slot * KEY_UNITS * UNIT_BYTES;
    const keyBytes = this.#records.i32[(here + KEY_BYTES_AND_KIND) >> 2] & 0xffff;
    const key = this.#key;
    key.ensure(keyBytes + 2 * HASH_PADDING);
    if (HEADER_BYTES + keyBytes <= KEY_UNITS * UNIT_BYTES) {
      const from = here + HEADER_BYTES;
      for (let i = 0; i < keyBytes; i++) key.u8[i] = this.#records.u8[from + i];
    } else {
      const address = pointerOf(this.#low(at), this.#high(at)) + HEADER_BYTES;
      yield this.#batch.clear().read(address, pad8(keyBytes), key, 0);
    }
    for (let i = keyBytes; i < keyBytes + HASH_PADDING; i++) key.u8[i] = 0;
    this.#hash.compute(key.i32, 0, keyBytes, this.#table.geometry.shape.seed);
    return ((this.#hash.h1 >>> (this.#depth - 1)) & 1) === 1;
  }

  /** Steps 3 to 6 in one doorbell: atomics of a queue pair are executed in order. */
  transfer(): Batch {
    this.#batch.clear();
    let slot = 0;
    for (let bucket = 0; bucket < this.#count; bucket++) {
      const start = slot;
      slot += this.#table.geometry.shape.associativity;
      if (!this.#isMoved(bucket)) this.#postBucket(bucket, start);
    }
    return this.#batch;
  }

  #postBucket(bucket: number, firstSlot: number): void {
    const header = bucket * this.#bucketBytes;
    const end = header + this.#bucketBytes;
    const to = this.#table.geometry.bucketAddress(this.#child, this.#first);
    const empty = emptySlot(this.#depth);
    for (let at = header + 8, slot = firstSlot; at < end; at += 8, slot++) {
      if (this.#moves[slot]) this.#postSwap(to + at, 0, UNMOVED, this.#low(at), this.#high(at));
      else this.#postSwap(to + at, 0, UNMOVED, 0, empty);
    }
    for (let at = header + 8, slot = firstSlot; at < end; at += 8, slot++) {
      // Only one that was frozen for this split: this mover may be so late that the next split has
      // frozen a claim made since, and thawing that would let it commit behind the next mover.
      const high = this.#high(at);
      const pending = (high & PENDING) !== 0 && stampOf(high) === this.#depth;
      if (!this.#moves[slot] && !pending) continue;
      this.#postSwap(this.#parent + at, this.#low(at), this.#high(at), 0, empty);
    }
    const depth = this.#depth;
    this.#postSwap(
      to + header,
      this.#suffix,
      bucketHeaderHigh(depth, false),
      this.#suffix,
      bucketHeaderHigh(depth, true),
    );
    const suffix = this.#low(header);
    this.#postSwap(
      this.#parent + header,
      suffix,
      this.#high(header),
      suffix,
      bucketHeaderHigh(depth, true),
    );
  }

  #eachSlot(visit: (bucket: number, at: number) => void): void {
    for (let bucket = 0; bucket < this.#count; bucket++) {
      const header = bucket * this.#bucketBytes;
      for (let at = header + 8; at < header + this.#bucketBytes; at += 8) visit(bucket, at);
    }
  }

  #low(at: number): number {
    return this.#buckets.i32[at >> 2];
  }

  #high(at: number): number {
    return this.#buckets.i32[(at >> 2) + 1];
  }

  #postSwap(address: Address, low: number, high: number, newLow: number, newHigh: number): void {
    const at = this.#batch.length * CAS_BYTES;
    setWord(this.#swaps, at, low, high);
    setWord(this.#swaps, at + 8, newLow, newHigh);
    this.#batch.cas(address, this.#swaps, at);
  }
}
