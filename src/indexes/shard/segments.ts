import { invariant } from '../../errors.ts';
import { control } from '../../pool/control.ts';
import {
  type Address,
  Batch,
  FAA_BYTES,
  NULL_ADDRESS,
  type Operation,
  readInteger,
  Scratch,
  UNIT_BYTES,
  writeInteger,
} from '../../verbs/index.ts';
import { LEVELS, type ShardGeometry } from './geometry.ts';
import { isRelocated, pointerOf, VERSION_MAX } from './slot.ts';

/**
 * A table's root, with the client's cache of it: O(log n) words (the paper's metadata).
 *
 *    0  records that clients have reported
 *   64  how many resizes have been claimed: whoever moves it on is the one to do the next
 *   72  of a table that is being migrated to here: its former root; 0 when all of it is here
 *   80  … and the version at which its buckets come from there
 *  128  addresses of the segments, 8 bytes each; the first 0 ends them, or the address of a root
 *       (LEFT is set): the table has left, at this version, for the segments of that one
 *
 * The version of the table is the number of its segments less one. A CAS of the next segment's word
 * from 0 is the whole resize: from then on whoever meets a bucket of an earlier version moves it.
 * The same CAS with a root makes the table leave, so it does one or the other: migrate.ts.
 */
const RECORDS = 0;
const CLAIMS = 64;
const FORMER = 72;
const FETCHED_AT = 80;
const SEGMENTS = 128;
/** In the word of a segment: it is the address of the root that the table has left for. */
const LEFT = 1;
export const ROOT_BYTES = SEGMENTS + 8 * (VERSION_MAX + 2);
export const ROOT_UNITS = Math.ceil(ROOT_BYTES / UNIT_BYTES);

const FAA_AT = 0;
const SEGMENTS_AT = 64;

export class Segments {
  readonly root: Address;
  readonly #geometry: ShardGeometry;
  readonly #addresses: Address[] = [];
  /** By level and segment: what to add to the offset of a bucket that counts from bucket 0. */
  readonly #bases: Address[][] = Array.from({ length: LEVELS }, () => []);
  /** The segments that this table is being migrated from, for who came by them. */
  former: Segments | undefined;
  /** The root of those, as it stands in the pool. */
  formerRoot: Address = NULL_ADDRESS;
  /** The version at which buckets are fetched from them. */
  fetchedAt = 0;
  /** The root of the segments that the table has left for. */
  successor: Address = NULL_ADDRESS;

  /** Buckets that are not in their segment. */
  readonly #relocated = new Map<number, Address>();

  constructor(root: Address, geometry: ShardGeometry, former?: Segments) {
    this.root = root;
    this.#geometry = geometry;
    this.former = former;
  }

  /** Resizes as far as this client knows. */
  get version(): number {
    return this.#addresses.length - 1;
  }

  get addresses(): readonly Address[] {
    return this.#addresses;
  }

  /** A bucket of a segment that the cache knows: no round trip. */
  bucketAddress(level: number, bucket: number): Address {
    if (this.#relocated.size > 0) {
      const elsewhere = this.#relocated.get(nameOf(level, bucket));
      if (elsewhere !== undefined) return elsewhere;
    }
    return this.homeAddress(level, bucket);
  }

  /** The bucket's place in its segment, which it has left if its mover was slow or died. */
  homeAddress(level: number, bucket: number): Address {
    const base = this.#bases[level][this.#geometry.bornAt(bucket)];
    return base + bucket * this.#geometry.bucketBytes[level];
  }

  /**
   * Takes note when the first word of a bucket, read at its home, says that it is elsewhere;
   * returns whether it does. A bucket is relocated once, before it is used, and for ever.
   */
  learnPlace(level: number, bucket: number, low: number, high: number): boolean {
    if (!isRelocated(high)) return false;
    this.#relocated.set(nameOf(level, bucket), pointerOf(low, high));
    return true;
  }

  /** Where relocated buckets are, with their levels, as far as this client has met them. */
  *relocations(): Generator<{ address: Address; level: number }, void, undefined> {
    for (const [name, address] of this.#relocated) yield { address, level: name % LEVELS };
  }

  /** Reads the root; returns how many records have been reported. */
  *load(): Operation<number> {
    const words = new Scratch(ROOT_BYTES);
    yield this.postLoad(new Batch(), words, 0);
    return this.noteLoad(words, 0);
  }

  /** Adds the READ of the root. */
  postLoad(batch: Batch, words: Scratch, at: number): Batch {
    return batch.read(this.root, ROOT_BYTES, words, at);
  }

  /** Learns from the root as it was read; returns how many records have been reported. */
  noteLoad(words: Scratch, at: number): number {
    this.#learnFrom(words, at + SEGMENTS);
    this.formerRoot = readInteger(words, at + FORMER);
    this.fetchedAt = readInteger(words, at + FETCHED_AT);
    if (this.formerRoot === NULL_ADDRESS) this.former = undefined;
    return readSigned(words, at + RECORDS);
  }

  /** Reports so many records more, and reads the root, in one doorbell (section 3.4). */
  *report(records: number): Operation<number> {
    const bytes = ROOT_BYTES - SEGMENTS;
    const words = new Scratch(SEGMENTS_AT + bytes);
    words.i64[FAA_AT >> 3] = BigInt(records);
    yield new Batch()
      .faa(this.root + RECORDS, words, FAA_AT)
      .read(this.root + SEGMENTS, bytes, words, SEGMENTS_AT);
    this.#learnFrom(words, SEGMENTS_AT);
    return readSigned(words, FAA_AT + FAA_BYTES - 8) + records;
  }

  #learnFrom(words: Scratch, at: number): void {
    const first = readInteger(words, at);
    invariant(first !== NULL_ADDRESS, `the root at ${this.root} names no segment`);
    for (let segment = this.#addresses.length; segment <= VERSION_MAX; segment++) {
      const address = readInteger(words, at + 8 * segment);
      if (address === NULL_ADDRESS) return;
      if (address % UNIT_BYTES === LEFT) {
        this.successor = address - LEFT;
        refuseNoRoot(this.successor);
        // Only a table leaves that has fetched everything: what it came from may be re-used now.
        this.former = undefined;
        return;
      }
      this.#learn(segment, address);
    }
  }

  #learn(segment: number, address: Address): void {
    invariant(segment === this.#addresses.length, 'segments are learned in order');
    invariant(address % UNIT_BYTES === 0, `no segment begins at ${address}`);
    this.#addresses.push(address);
    const geometry = this.#geometry;
    const first = segment === 0 ? 0 : geometry.segmentBuckets(segment);
    for (let level = 0; level < LEVELS; level++) {
      const start = address + geometry.levelOffset(segment, level);
      this.#bases[level][segment] = start - first * geometry.bucketBytes[level];
    }
  }

  /** Whether this client is the one to make segment `segment`, of those that ask. */
  *claim(segment: number): Operation<boolean> {
    return yield* control.swap(this.root + CLAIMS, BigInt(segment - 1), BigInt(segment));
  }

  /** The resize: of all who have made segment `segment`, one wins. */
  *publish(segment: number, address: Address): Operation<boolean> {
    const won = yield* control.swap(this.root + SEGMENTS + 8 * segment, 0n, BigInt(address));
    if (won && segment === this.#addresses.length) this.#learn(segment, address);
    return won;
  }

  /** The table of so many segments leaves for others, unless it has been resized since. */
  *leaveFor(root: Address, segments: number): Operation<boolean> {
    return yield* control.swap(this.root + SEGMENTS + 8 * segments, 0n, BigInt(root + LEFT));
  }

  /** All buckets have been fetched. One client is told that it was the one to say so. */
  *forgetFormer(formerRoot: Address): Operation<boolean> {
    const won = yield* control.swap(this.root + FORMER, BigInt(formerRoot), 0n);
    this.former = undefined;
    this.formerRoot = NULL_ADDRESS;
    return won;
  }

  /** Puts the root of a new table into an image of where it will stand. */
  static format(image: Scratch, at: number, first: Address): void {
    writeInteger(image, at + SEGMENTS, first);
  }

  /** The root of a table that is about to leave `former` for these segments. */
  static *formatFor(
    root: Address,
    former: Address,
    segments: readonly Address[],
    records: number,
  ): Operation<void> {
    const image = new Scratch(ROOT_BYTES);
    image.i64[RECORDS >> 3] = BigInt(records);
    writeInteger(image, CLAIMS, segments.length - 1);
    writeInteger(image, FORMER, former);
    writeInteger(image, FETCHED_AT, segments.length - 1);
    segments.forEach((address, segment) => {
      writeInteger(image, SEGMENTS + 8 * segment, address);
    });
    yield new Batch().write(root, ROOT_BYTES, image, 0);
  }
}

/** Raises SW_POOL_CORRUPT for what can be no root: an address of 0, or between two words. */
export function refuseNoRoot(address: Address): void {
  const isRoot = address !== NULL_ADDRESS && address % 8 === 0;
  invariant(isRoot, `no root of a table stands at ${address}`);
}

function nameOf(level: number, bucket: number): number {
  return bucket * LEVELS + level;
}

/** Clients report differences: the sum of those of removals can come first. */
function readSigned(words: Scratch, at: number): number {
  return Number(words.i64[at >> 3]);
}
