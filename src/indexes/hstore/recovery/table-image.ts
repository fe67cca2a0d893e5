import { invariant } from '../../../errors.ts';
import {
  type Address,
  Batch,
  type Operation,
  Scratch,
  setWord,
  UNIT_BYTES,
  writeInteger,
} from '../../../verbs/index.ts';
import {
  bucketIn,
  bucketsOf,
  markOfTable,
  PAIR,
  SEGMENT_BUCKETS,
  segmentBuckets,
  segmentCount,
} from '../protocol/geometry.ts';
import type { PairAccess } from '../protocol/pair-access.ts';
import { loadSegments, wholeTable } from '../protocol/pair-state.ts';
import { BUCKET_BYTES, emptySlotIn, isEmpty, NEXT } from '../protocol/slot.ts';
import { CHAINED_BUCKET_UNITS } from '../protocol/turn.ts';

/** Bytes of one WRITE. */
const WRITE_BYTES = 65_536;
const CHAINED_PER_BATCH = 256;

/** A bucket's address, and its place in an image. */
interface BucketAt {
  address: Address;
  image: Scratch;
  at: number;
}

/** A hash table that is built in private memory, for the addresses that it will have. */
export class TableImage {
  readonly #pair: PairAccess;
  readonly #generation: number;
  readonly #buckets: number;
  readonly #mark: number;
  readonly #segmentBytes: number;
  readonly #segments: Address[] = [];
  /** By segment; only segments that have records. */
  readonly #images: Scratch[] = [];
  /** The last bucket of each chain that has more than one, by the number of the first. */
  readonly #last = new Map<number, BucketAt>();
  readonly #chained: BucketAt[] = [];

  constructor(pair: PairAccess, generation: number) {
    this.#pair = pair;
    this.#generation = generation;
    this.#buckets = bucketsOf(pair.geometry.shape, generation);
    this.#mark = markOfTable(generation);
    this.#segmentBytes = segmentBuckets(this.#buckets) * BUCKET_BYTES;
  }

  /** Allocates the segments: in new memory, because others may still read the old table. */
  *allocate(): Operation<void> {
    const { pool, catalog } = this.#pair;
    const units = Math.ceil(this.#segmentBytes / UNIT_BYTES);
    for (let i = 0; i < segmentCount(this.#buckets); i++) {
      this.#segments.push(yield* pool.allocator.spans.allocate(catalog, units));
    }
  }

  /** Puts a slot into the chain of its key; returns where it will stand. */
  *put(h1: number, low: number, high: number): Operation<Address> {
    const bucket = bucketIn(h1, this.#buckets);
    let last = this.#lastOf(bucket);
    if (emptySlotIn(last.image, last.at) < 0) last = yield* this.#chain(bucket, last);
    const slot = emptySlotIn(last.image, last.at);
    invariant(!isEmpty(high), 'a table is built with a slot that names no record');
    setWord(last.image, last.at + 8 * slot, low, high);
    return last.address + 8 * slot;
  }

  #lastOf(bucket: number): BucketAt {
    const last = this.#last.size > 0 ? this.#last.get(bucket) : undefined;
    if (last) return last;
    const segment = Math.floor(bucket / SEGMENT_BUCKETS);
    const at = BUCKET_BYTES * (bucket % SEGMENT_BUCKETS);
    this.#images[segment] ??= emptyBuckets(this.#segmentBytes, this.#mark);
    return { address: this.#segments[segment] + at, image: this.#images[segment], at };
  }

  /** An empty bucket at the end of the chain of a bucket. */
  *#chain(bucket: number, last: BucketAt): Operation<BucketAt> {
    const { pool, catalog } = this.#pair;
    const address = yield* pool.allocator.allocate(catalog, CHAINED_BUCKET_UNITS);
    const chained = { address, image: emptyBuckets(BUCKET_BYTES, this.#mark), at: 0 };
    writeInteger(last.image, last.at + NEXT, address + this.#mark);
    this.#last.set(bucket, chained);
    this.#chained.push(chained);
    return chained;
  }

  /** Frees its memory, which no other client knows. */
  *discard(): Operation<void> {
    const { pool, catalog } = this.#pair;
    const units = this.#segmentBytes / UNIT_BYTES;
    for (const segment of this.#segments) {
      yield* pool.allocator.spans.release(catalog, segment, units);
    }
    for (const { address } of this.#chained) this.#pair.discard(address, CHAINED_BUCKET_UNITS);
  }

  /** Writes it where no client looks yet. */
  *write(): Operation<void> {
    const bytes = this.#segmentBytes;
    const empty = emptyBuckets(bytes, this.#mark);
    for (const [i, segment] of this.#segments.entries()) {
      for (let at = 0; at < bytes; at += WRITE_BYTES) {
        const some = Math.min(WRITE_BYTES, bytes - at);
        yield new Batch().write(segment + at, some, this.#images[i] ?? empty, at);
      }
      yield* this.#pair.meanwhile();
    }
    for (let first = 0; first < this.#chained.length; first += CHAINED_PER_BATCH) {
      const batch = new Batch();
      for (const { address, image } of this.#chained.slice(first, first + CHAINED_PER_BATCH)) {
        batch.write(address, BUCKET_BYTES, image, 0);
      }
      yield batch;
    }
  }

  /** Publishes the segments' addresses, and then the generation. */
  *publish(): Operation<void> {
    const { geometry } = this.#pair;
    const isWhole = this.#segments.length === segmentCount(this.#buckets);
    invariant(isWhole, 'a hash table is published that lacks a segment');
    const bytes = 8 * this.#segments.length;
    const words = new Scratch(bytes + 8);
    for (const [i, segment] of this.#segments.entries()) writeInteger(words, 8 * i, segment);
    writeInteger(words, bytes, wholeTable(this.#generation));
    yield new Batch()
      .write(geometry.segmentTable, bytes, words, 0)
      .write(geometry.base + PAIR.table, 8, words, bytes);
    yield* loadSegments(geometry);
  }
}

function emptyBuckets(bytes: number, mark: number): Scratch {
  const image = new Scratch(bytes);
  for (let at = NEXT; at < bytes; at += BUCKET_BYTES) writeInteger(image, at, mark);
  return image;
}
