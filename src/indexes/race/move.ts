import { invariant } from '../../errors.ts';
import {
  type Address,
  type Batch,
  highHalf,
  lowHalf,
  NULL_ADDRESS,
  type Operation,
  readInteger,
  Scratch,
} from '../../verbs/index.ts';
import { BucketWords } from '../substrates/bucket-words.ts';
import { lengthOf } from '../substrates/claims/slot-format.ts';
import { KeyHashes } from '../substrates/key-hashes.ts';
import { IDENTITY, PARENT, type RaceGeometry } from './geometry.ts';
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

const FREEZE_ROUNDS_MAX = 10_000;

/** One move of some buckets; reused, because a split is many of them. */
export class Move {
  readonly #geometry: RaceGeometry;
  readonly #bucketBytes: number;
  /** The subtable that is split, and the first of its buckets that are moved. */
  #subtable: Address = NULL_ADDRESS;
  #parent: Address = NULL_ADDRESS;
  #child: Address = NULL_ADDRESS;
  #first = 0;
  #count = 0;
  /** The parent's buckets; the child's identity. */
  readonly #buckets = new BucketWords();
  readonly #identity = new Scratch(64);
  readonly #hashes = new KeyHashes();
  /** Local depth and suffix of the child. */
  #depth = 0;
  #suffix = 0;
  /** By slot, in the order of the buckets: whether its record belongs to the child. */
  readonly #moves: boolean[] = [];
  /** Slots whose records are read. */
  readonly #live: number[] = [];

  constructor(geometry: RaceGeometry) {
    this.#geometry = geometry;
    this.#bucketBytes = geometry.bucketBytes;
  }

  begin(parent: Address, child: Address, first: number, count: number): void {
    const isThere = first >= 0 && first + count <= this.#geometry.buckets;
    invariant(isThere && child !== parent, 'no such buckets of a subtable are moved');
    this.#subtable = parent;
    this.#parent = this.#geometry.bucketAddress(parent, first);
    this.#child = child;
    this.#first = first;
    this.#count = count;
    const slots = count * this.#geometry.shape.associativity;
    this.#buckets.ensure(count * this.#bucketBytes, 2 * slots + 2 * count);
    this.#hashes.ensure(slots);
  }

  *identify(): Operation<void> {
    yield this.#buckets.batch.clear().read(this.#child, 16, this.#identity, 0);
    this.#suffix = lowHalf(this.#identity, IDENTITY);
    this.#depth = highHalf(this.#identity, IDENTITY);
    invariant(this.#depth > 0 && this.#suffix >>> (this.#depth - 1) === 1, 'child identity');
    const isParent = readInteger(this.#identity, PARENT) === this.#subtable;
    invariant(isParent, 'a child gets the slots of a subtable that it was not split from');
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

  /** Step 2: whose record belongs to the child, by one more bit of its key's hash. */
  *readKeys(): Operation<void> {
    this.#hashes.clear();
    this.#live.length = 0;
    let slot = 0;
    this.#eachSlot((at) => {
      const low = this.#buckets.low(at);
      const high = this.#buckets.high(at);
      this.#moves[slot] = false;
      if (isLive(low, high)) {
        this.#live.push(slot);
        this.#hashes.add(pointerOf(low, high), lengthOf(high));
      }
      slot++;
    });
    yield* this.#hashes.read(this.#geometry.shape.seed, (i, { h1 }) => {
      this.#moves[this.#live[i]] = ((h1 >>> (this.#depth - 1)) & 1) === 1;
    });
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
      // Thaw only claims frozen for this split. This mover may be so late that the next split has
      // frozen a newer claim. Thawing that would let it commit after the next mover has passed.
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
