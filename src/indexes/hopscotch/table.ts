import { hasCode, invariant, StepwellError } from '../../errors.ts';
import type { Pool } from '../../pool/pool.ts';
import { HASH_PADDING, KeyHash } from '../../records/hash.ts';
import { pad8 } from '../../records/layout.ts';
import { type Address, NULL_ADDRESS, type Operation, Scratch } from '../../verbs/index.ts';
import type { Directory } from '../substrates/directory.ts';
import {
  fingerprintOf,
  isEmpty,
  isIndirect,
  itemHigh,
  keyBytesOf,
} from '../substrates/leaf/entry.ts';
import { CONTENT_AT, identityHigh, identityLow } from '../substrates/leaf/layout.ts';
import {
  type BoundsPlace,
  LeafClient,
  NOT_OWNED,
  OWNED,
  type Ownership,
} from '../substrates/leaf/leaf-client.ts';
import { IMAGE_AT, LeafRequest } from '../substrates/leaf/leaf-request.ts';
import { unlock } from '../substrates/leaf/lock-leaf.ts';
import { imageOf, isLeafStill } from '../substrates/leaf/read-leaf.ts';
import { splitLeaf } from '../substrates/leaf/split-leaf.ts';
import { partOf } from '../traversal/sample.ts';
import { childIn, depthIn, suffixIn, writeBounds } from './bounds.ts';
import type { HopscotchGeometry, HopscotchShape } from './geometry.ts';

/** Segments are never freed: a block is one segment as long as the table is there. */
export const SEGMENT_TAG = 0;
const KEY_BYTES_INLINE_MAX = 256;

/** One client's handle of a hopscotch hash table. */
export class HopscotchTable extends LeafClient<HopscotchShape> {
  readonly directory: Directory;
  readonly #key = new Scratch(KEY_BYTES_INLINE_MAX + HASH_PADDING);
  readonly #hash = new KeyHash();

  constructor(pool: Pool, geometry: HopscotchGeometry, directory: Directory, catalog: number) {
    super(geometry, pool, catalog);
    this.directory = directory;
  }

  newRequest(): LeafRequest {
    return new LeafRequest(this.geometry);
  }

  newTag(): number {
    return SEGMENT_TAG;
  }

  aim(request: LeafRequest): boolean {
    const { seed } = this.geometry.shape;
    request.leaf = this.directory.lookup(request.hash.h1);
    request.idLow = identityLow(request.leaf, SEGMENT_TAG, seed);
    request.idHigh = identityHigh(request.leaf, SEGMENT_TAG, seed);
    return true;
  }

  reach(request: LeafRequest): Operation<void> {
    throw this.#unbounded(request);
  }

  owns({ words, hash }: LeafRequest): Ownership {
    const mask = 2 ** depthIn(words, IMAGE_AT) - 1;
    return (hash.h1 & mask) === suffixIn(words, IMAGE_AT) ? OWNED : NOT_OWNED;
  }

  learnBounds(request: LeafRequest): Operation<void> {
    throw this.#unbounded(request);
  }

  /** The directory knows a segment of every key, and its bounds are read along. */
  #unbounded({ leaf }: LeafRequest): Error {
    return new Error(`the segment at ${leaf} has no bounds`);
  }

  /** Places go through the suffixes in the order of walks: those of one segment are together. */
  // biome-ignore lint/correctness/useYield: another index reads nodes for this
  *aimAtPlace(request: LeafRequest, place: number): Operation<number> {
    const { depth } = this.directory;
    const { part, rest } = partOf(place, 2 ** depth);
    request.hash.h1 = reversed(part, depth);
    this.aim(request);
    return rest;
  }

  /** Whether the directory of this client has the child of the segment's last split. */
  isAsAimed({ words }: LeafRequest): boolean {
    const child = childIn(words, IMAGE_AT);
    return child === NULL_ADDRESS || this.directory.lookup(siblingIn(words)) === child;
  }

  *relearn({ words }: LeafRequest): Operation<void> {
    yield* this.directory.refresh(siblingIn(words));
  }

  *redirect(request: LeafRequest, attempt: number): Operation<void> {
    this.count('otherLeaf', attempt, request);
    const { leaf, hash } = request;
    invariant(isLeafStill(request), `what stands at ${leaf} is no segment`);
    // The directory may still lack the child of the split that the header records.
    if ((yield* this.directory.refresh(hash.h1)) === leaf) yield* this.linkChild(request);
    this.aim(request);
  }

  /**
   * Puts the child that the request's header names into the directory, if it is not there. The
   * splitter does so, or, when it died or is slow, the client that meets the child's keys; and in
   * any case the client that splits the segment next, which forgets the child.
   */
  *linkChild({ words, leaf }: LeafRequest): Operation<void> {
    const suffix = suffixIn(words, IMAGE_AT);
    const depth = depthIn(words, IMAGE_AT);
    const child = childIn(words, IMAGE_AT);
    const { maxDepth } = this.geometry.shape;
    const isSplit = child !== 0 && depth > 0 && depth <= maxDepth;
    invariant(isSplit, `the segment at ${leaf} has keys of another one`);
    yield* this.#link(suffix, depth - 1, child);
  }

  /** The directory is deep enough before the entry counts. */
  *#link(suffix: number, depth: number, child: Address): Operation<void> {
    const { directory } = this;
    yield* directory.deepen(depth);
    if (!(yield* directory.link(suffix, depth, child))) {
      yield* directory.refresh(suffix + 2 ** depth);
    }
  }

  *makeRoom(request: LeafRequest): Operation<boolean> {
    const { words } = request;
    const depth = depthIn(words, IMAGE_AT);
    if (depth >= this.geometry.shape.maxDepth) {
      const why = `a segment of the ${2 ** depth} that the table can have is full`;
      throw new StepwellError('SW_INDEX_FULL', why);
    }
    if (!this.maySplit(request)) {
      yield* unlock(request);
      yield* this.linkChild(request);
    }
    const split = yield* splitLeaf(this, request);
    if (split === undefined) return false;
    const { sibling, hasItem } = split;
    if (sibling === NULL_ADDRESS) return true;
    try {
      yield* this.#link(suffixIn(words, IMAGE_AT), depthIn(words, IMAGE_AT), sibling);
    } catch (error) {
      // The item is there. The next client that meets a key of the child links it.
      if (!hasItem || !hasCode(error, 'SW_POOL_FULL')) throw error;
    }
    return hasItem;
  }

  /** A split overwrites the header's child, so the directory must already have that child. */
  maySplit({ words }: LeafRequest): boolean {
    const child = childIn(words, IMAGE_AT);
    const depth = depthIn(words, IMAGE_AT);
    if (child === NULL_ADDRESS) return depth < this.geometry.shape.maxDepth;
    const isLinked = this.directory.lookup(siblingIn(words)) === child;
    return depth < this.geometry.shape.maxDepth && isLinked;
  }

  /** By the next bit of the keys' hashes, which an indirect item has as its fingerprint. */
  // biome-ignore lint/correctness/useYield: another index reads records for this
  *divide({ words, upper }: LeafRequest): Operation<boolean> {
    const bit = 1 << depthIn(words, IMAGE_AT);
    for (let entry = 0; entry < upper.length; entry++) {
      const at = imageOf(this, entry);
      const isUpper = !isEmpty(itemHigh(words, at)) && (this.hashAt(words, at) & bit) !== 0;
      upper[entry] = isUpper ? 1 : 0;
    }
    return true;
  }

  isUpper({ hash, words }: LeafRequest): boolean {
    return (hash.h1 & (1 << depthIn(words, IMAGE_AT))) !== 0;
  }

  postAhead(): void {}

  *prepareSplit(): Operation<void> {}

  postBounds(): void {}

  endSplit(): void {}

  /** Hash word 1 of the key of the item at `entry`. */
  hashAt(words: Scratch, entry: number): number {
    const item = itemHigh(words, entry);
    if (isIndirect(item)) return fingerprintOf(words, entry);
    const keyBytes = keyBytesOf(item);
    const count = pad8(keyBytes) >> 2;
    const from = (entry + CONTENT_AT) >> 2;
    const { i32 } = this.#key;
    for (let i = 0; i < count; i++) i32[i] = words.i32[from + i];
    i32.fill(0, count, count + (HASH_PADDING >> 2));
    this.#hash.compute(i32, 0, keyBytes, this.geometry.shape.seed);
    return this.#hash.h1;
  }

  writeBounds(
    { words }: LeafRequest,
    sibling: Address,
    _tag: number,
    lower: BoundsPlace,
    upper: BoundsPlace,
  ): void {
    const suffix = suffixIn(words, IMAGE_AT);
    const depth = depthIn(words, IMAGE_AT);
    writeBounds(lower.memory, lower.at, suffix, depth + 1, sibling);
    writeBounds(upper.memory, upper.at, suffix + 2 ** depth, depth + 1, 0);
  }
}

function reversed(number: number, bits: number): number {
  let to = 0;
  for (let bit = 0; bit < bits; bit++) to |= ((number >>> bit) & 1) << (bits - 1 - bit);
  return to;
}

/** The suffix of the child that a segment's header names. */
function siblingIn(words: Scratch): number {
  return suffixIn(words, IMAGE_AT) + 2 ** (depthIn(words, IMAGE_AT) - 1);
}
