import { invariant } from '../../errors.ts';
import { HASH_PADDING, KeyHash } from '../../records/hash.ts';
import { HEADER_BYTES, KEY_BYTES_AND_KIND, pad8 } from '../../records/layout.ts';
import {
  type Address,
  type Batch,
  highHalf,
  lowHalf,
  NULL_ADDRESS,
  type Operation,
  Scratch,
  UNIT_BYTES,
} from '../../verbs/index.ts';
import { BucketWords } from '../substrates/bucket-words.ts';
import { lengthOf } from '../substrates/claims/slot-format.ts';
import { IDENTITY, type RaceGeometry } from './geometry.ts';
import {
  bucketHeaderHigh,
  depthOf,
  emptySlot,
  isLive,
  PENDING,
  pointerOf,
  stampOf,
  UNMOVED,
  withStamp,
} from './slot.ts';

/** Lines of a record that a mover reads at first; a longer key costs one more READ. */
const KEY_UNITS = 4;
const FREEZE_ROUNDS_MAX = 10_000;

/** One move of some buckets; reused, because a split is many of them. */
export class Move {
  readonly #geometry: RaceGeometry;
  readonly #bucketBytes: number;
  #parent: Address = NULL_ADDRESS;
  #child: Address = NULL_ADDRESS;
  #first = 0;
  #count = 0;
  /** The parent's buckets; the child's identity; the beginnings of records; a key to hash. */
  readonly #buckets = new BucketWords();
  readonly #identity = new Scratch(64);
  readonly #records = new Scratch(64);
  readonly #key = new Scratch(KEY_UNITS * UNIT_BYTES + HASH_PADDING);
  readonly #hash = new KeyHash();
  /** Local depth and suffix of the child. */
  #depth = 0;
  #suffix = 0;
  /** By slot, in the order of the buckets: whether its record belongs to the child. */
  readonly #moves: boolean[] = [];

  constructor(geometry: RaceGeometry) {
    this.#geometry = geometry;
    this.#bucketBytes = geometry.bucketBytes;
  }

  begin(parent: Address, child: Address, first: number, count: number): void {
    this.#parent = this.#geometry.bucketAddress(parent, first);
    this.#child = child;
    this.#first = first;
    this.#count = count;
    const slots = count * this.#geometry.shape.associativity;
    this.#buckets.ensure(count * this.#bucketBytes, 2 * slots + 2 * count);
    this.#records.ensure(slots * KEY_UNITS * UNIT_BYTES);
  }

  *identify(): Operation<void> {
    yield this.#buckets.batch.clear().read(this.#child, 16, this.#identity, 0);
    this.#suffix = lowHalf(this.#identity, IDENTITY);
    this.#depth = highHalf(this.#identity, IDENTITY);
    invariant(this.#depth > 0 && this.#suffix >>> (this.#depth - 1) === 1, 'child identity');
  }

  /** Step 1. False when every bucket has been moved already. */
  *freeze(): Operation<boolean> {
    const bytes = this.#count * this.#bucketBytes;
    yield* this.#buckets.read(this.#parent, bytes);
    for (let round = 0; round < FREEZE_ROUNDS_MAX; round++) {
      if (this.#allMoved()) return false;
      this.#buckets.batch.clear();
      this.#eachSlot((at) => this.#postFreeze(at));
      if (this.#buckets.batch.length === 0) return true;
      yield this.#buckets.postRead(this.#parent, bytes);
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
    return depthOf(this.#buckets.high(bucket * this.#bucketBytes)) >= this.#depth;
  }

  #postFreeze(at: number): void {
    const low = this.#buckets.low(at);
    const high = this.#buckets.high(at);
    if (stampOf(high) >= this.#depth) return;
    this.#buckets.postSwap(this.#parent + at, low, high, low, withStamp(high, this.#depth));
  }

  /** Step 2. */
  *readKeys(): Operation<void> {
    const { batch } = this.#buckets;
    batch.clear();
    let slot = 0;
    this.#eachSlot((at) => {
      this.#moves[slot] = false;
      if (isLive(this.#buckets.low(at), this.#buckets.high(at))) this.#postRecord(slot, at);
      slot++;
    });
    if (batch.length === 0) return;
    yield batch;
    slot = 0;
    for (let at = 0; at < this.#count * this.#bucketBytes; at += 8) {
      if (at % this.#bucketBytes === 0) continue;
      if (isLive(this.#buckets.low(at), this.#buckets.high(at)))
        this.#moves[slot] = yield* this.#belongs(slot, at);
      slot++;
    }
  }

  #postRecord(slot: number, at: number): void {
    const high = this.#buckets.high(at);
    const bytes = Math.min(lengthOf(high), KEY_UNITS) * UNIT_BYTES;
    const here = slot * KEY_UNITS * UNIT_BYTES;
    this.#buckets.batch.read(pointerOf(this.#buckets.low(at), high), bytes, this.#records, here);
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
      const address = pointerOf(this.#buckets.low(at), this.#buckets.high(at)) + HEADER_BYTES;
      yield this.#buckets.batch.clear().read(address, pad8(keyBytes), key, 0);
    }
    for (let i = keyBytes; i < keyBytes + HASH_PADDING; i++) key.u8[i] = 0;
    this.#hash.compute(key.i32, 0, keyBytes, this.#geometry.shape.seed);
    return ((this.#hash.h1 >>> (this.#depth - 1)) & 1) === 1;
  }

  /** Steps 3 to 6 in one doorbell: atomics of a queue pair are executed in order. */
  transfer(): Batch {
    this.#buckets.batch.clear();
    let slot = 0;
    for (let bucket = 0; bucket < this.#count; bucket++) {
      const start = slot;
      slot += this.#geometry.shape.associativity;
      if (!this.#isMoved(bucket)) this.#postBucket(bucket, start);
    }
    return this.#buckets.batch;
  }

  #postBucket(bucket: number, firstSlot: number): void {
    const header = bucket * this.#bucketBytes;
    const end = header + this.#bucketBytes;
    const to = this.#geometry.bucketAddress(this.#child, this.#first);
    const empty = emptySlot(this.#depth);
    for (let at = header + 8, slot = firstSlot; at < end; at += 8, slot++) {
      if (this.#moves[slot])
        this.#buckets.postSwap(to + at, 0, UNMOVED, this.#buckets.low(at), this.#buckets.high(at));
      else this.#buckets.postSwap(to + at, 0, UNMOVED, 0, empty);
    }
    for (let at = header + 8, slot = firstSlot; at < end; at += 8, slot++) {
      // Only one that was frozen for this split: this mover may be so late that the next split has
      // frozen a claim made since, and thawing that would let it commit behind the next mover.
      const high = this.#buckets.high(at);
      const pending = (high & PENDING) !== 0 && stampOf(high) === this.#depth;
      if (!this.#moves[slot] && !pending) continue;
      this.#buckets.postSwap(
        this.#parent + at,
        this.#buckets.low(at),
        this.#buckets.high(at),
        0,
        empty,
      );
    }
    const depth = this.#depth;
    this.#buckets.postSwap(
      to + header,
      this.#suffix,
      bucketHeaderHigh(depth, false),
      this.#suffix,
      bucketHeaderHigh(depth, true),
    );
    const suffix = this.#buckets.low(header);
    this.#buckets.postSwap(
      this.#parent + header,
      suffix,
      this.#buckets.high(header),
      suffix,
      bucketHeaderHigh(depth, true),
    );
  }

  #eachSlot(visit: (at: number) => void): void {
    for (let bucket = 0; bucket < this.#count; bucket++) {
      const header = bucket * this.#bucketBytes;
      for (let at = header + 8; at < header + this.#bucketBytes; at += 8) visit(at);
    }
  }
}
