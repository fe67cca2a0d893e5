import { invariant } from '../../../errors.ts';
import { control } from '../../../pool/control.ts';
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
} from '../../../verbs/index.ts';
import { LEVELS, type ShardGeometry } from './geometry.ts';
import { listUnits, readList, type SegmentPlace } from './pieces.ts';
import { isRelocated, pointerOf, VERSION_MAX } from './slot.ts';

/**
 * A table's root, with the client's cache of it: O(log n) words (the paper's metadata).
 *
 *    0  records that clients have reported
 *   64  how many resizes have been claimed: the client that increments it makes the next segment
 *   72  during a migration to this root: the former root; else 0
 *   80  … and the version at which buckets are fetched from there
 *  128  addresses of the segments, 8 bytes each. For a segment cut into pieces it is the address of
 *       their list (LIST is set). They end with a 0 or with the address of another root (LEFT is
 *       set): at this version the table has left for the segments of that root
 *
 * The version of the table is the number of its segments less one. A CAS of the next segment's word
 * from 0 is the whole resize: from then on a client that meets a bucket of an earlier version moves
 * it. A migration (migration.ts) sets the same word to a root, so only one of the two can succeed.
 */
const RECORDS = 0;
const CLAIMS = 64;
const FORMER = 72;
const FETCHED_AT = 80;
const SEGMENTS = 128;
/** Set in a segment's word: it is the address of the root that the table has left for. */
const LEFT = 1;
/** … or of a list: see pieces.ts. */
const LIST = 2;
export const ROOT_BYTES = SEGMENTS + 8 * (VERSION_MAX + 2);
export const ROOT_UNITS = Math.ceil(ROOT_BYTES / UNIT_BYTES);

const FAA_AT = 0;
const SEGMENTS_AT = 64;

/**
 * A root as the directory names it: address 41 | number of migrations of the table so far 12. A
 * later root may reuse the address of an earlier one, so the address alone does not tell a client
 * that the table was migrated.
 */
export type RootName = number;
const ADDRESSES = 2 ** 41;
const MIGRATIONS = 2 ** 12;

export function rootNamed(name: RootName): Address {
  return name % ADDRESSES;
}

/** The name of a root of the same table after this many more migrations. */
export function nameAfter(name: RootName, migrations: 1 | -1, root: Address): RootName {
  const all = Math.floor(name / ADDRESSES) + migrations;
  return root + ADDRESSES * ((all + MIGRATIONS) % MIGRATIONS);
}

export class Segments {
  readonly name: RootName;
  readonly root: Address;
  readonly #geometry: ShardGeometry;
  #version = -1;
  /** The address of each piece. All but the largest segments are one piece. */
  readonly #addresses: Address[] = [];
  readonly #lists: { address: Address; units: number }[] = [];
  /** By level and piece: the address that bucket 0 would have if the piece began with it. */
  readonly #bases: Address[][] = Array.from({ length: LEVELS }, () => []);
  /** The segments from which this table is being migrated, if this client has used them. */
  former: Segments | undefined;
  /** The root from which the table is being migrated, as this root names it. */
  formerRoot: Address = NULL_ADDRESS;
  /** The version at which buckets are fetched from `former`. */
  fetchedAt = 0;
  /** The root of the segments that the table has left for. */
  successor: Address = NULL_ADDRESS;

  /** Addresses of relocated buckets, which are not in their segment. */
  readonly #relocated = new Map<number, Address>();

  constructor(name: RootName, geometry: ShardGeometry, former?: Segments) {
    this.name = name;
    this.root = rootNamed(name);
    this.#geometry = geometry;
    this.former = former;
  }

  /** How many resizes this client knows of. */
  get version(): number {
    return this.#version;
  }

  /** The addresses of all pieces of the segments, in their order. */
  get addresses(): readonly Address[] {
    return this.#addresses;
  }

  /** The blocks of the segments: their pieces, and the lists of these. */
  *blocks(): Generator<{ address: Address; units: number }, void, undefined> {
    for (const [piece, address] of this.#addresses.entries()) {
      yield { address, units: this.#geometry.pieceUnits(piece) };
    }
    yield* this.#lists;
  }

  /** A bucket of a segment that the cache knows: no round trip. */
  bucketAddress(level: number, bucket: number): Address {
    if (this.#relocated.size > 0) {
      const elsewhere = this.#relocated.get(nameOf(level, bucket));
      if (elsewhere !== undefined) return elsewhere;
    }
    return this.homeAddress(level, bucket);
  }

  /** The bucket's address in its segment. It is elsewhere if its mover was slow or died. */
  homeAddress(level: number, bucket: number): Address {
    const base = this.#bases[level][this.#geometry.pieceOf(bucket)];
    return base + bucket * this.#geometry.bucketBytes[level];
  }

  /** Adds the READs of the buckets with this number in all levels: into the words, in a row. */
  postBuckets(bucket: number, batch: Batch, words: Scratch, at: number): void {
    let to = at;
    for (let level = 0; level < LEVELS; level++) {
      const bytes = this.#geometry.bucketBytes[level];
      batch.read(this.bucketAddress(level, bucket), bytes, words, to);
      to += bytes;
    }
  }

  /**
   * Notes where the bucket is if its first word, read at its home, says RELOCATED; returns whether
   * it does. A bucket is relocated at most once, before it is used.
   */
  learnPlace(level: number, bucket: number, low: number, high: number): boolean {
    if (!isRelocated(high)) return false;
    const [name, place] = [nameOf(level, bucket), pointerOf(low, high)];
    const known = this.#relocated.get(name);
    const isIt = place > 0 && (known === undefined || known === place);
    invariant(isIt, 'a bucket that was relocated is relocated once more');
    this.#relocated.set(name, place);
    return true;
  }

  /** Addresses and levels of the relocated buckets that this client has met. */
  *relocations(): Generator<{ address: Address; level: number }, void, undefined> {
    for (const [name, address] of this.#relocated) yield { address, level: name % LEVELS };
  }

  /** Reads the root; returns how many records have been reported. */
  *load(): Operation<number> {
    const words = new Scratch(ROOT_BYTES);
    yield this.postLoad(new Batch(), words, 0);
    return yield* this.noteLoad(words, 0);
  }

  /** Adds the READ of the root. */
  postLoad(batch: Batch, words: Scratch, at: number): Batch {
    return batch.read(this.root, ROOT_BYTES, words, at);
  }

  /**
   * Learns from a root that was read; returns how many records have been reported. Takes one round
   * trip for each new segment in several pieces.
   */
  *noteLoad(words: Scratch, at: number): Operation<number> {
    yield* this.#learnFrom(words, at + SEGMENTS);
    this.formerRoot = readInteger(words, at + FORMER);
    this.fetchedAt = readInteger(words, at + FETCHED_AT);
    const hasThose = this.formerRoot === NULL_ADDRESS || this.fetchedAt <= this.#version;
    invariant(hasThose, 'a migrated table has fewer segments than before');
    if (this.formerRoot === NULL_ADDRESS) this.former = undefined;
    return readSigned(words, at + RECORDS);
  }

  /** Reports this many more records and reads the root, in one doorbell (section 3.4). */
  *report(records: number): Operation<number> {
    const bytes = ROOT_BYTES - SEGMENTS;
    const words = new Scratch(SEGMENTS_AT + bytes);
    words.i64[FAA_AT >> 3] = BigInt(records);
    yield new Batch()
      .faa(this.root + RECORDS, words, FAA_AT)
      .read(this.root + SEGMENTS, bytes, words, SEGMENTS_AT);
    yield* this.#learnFrom(words, SEGMENTS_AT);
    return readSigned(words, FAA_AT + FAA_BYTES - 8) + records;
  }

  *#learnFrom(words: Scratch, at: number): Operation<void> {
    const geometry = this.#geometry;
    const first = readInteger(words, at);
    invariant(first !== NULL_ADDRESS, `the root at ${this.root} names no segment`);
    for (let segment = this.#version + 1; segment <= VERSION_MAX; segment++) {
      const word = readInteger(words, at + 8 * segment);
      if (word === NULL_ADDRESS) return;
      if (word % UNIT_BYTES === LEFT) {
        this.successor = word - LEFT;
        refuseNoRoot(this.successor);
        // A table leaves only when all its buckets are fetched, so its former blocks may be reused.
        this.former = undefined;
        return;
      }
      const pieces = segment <= geometry.shape.resizes ? geometry.piecesOf(segment) : 0;
      const isPlace = word % UNIT_BYTES === (pieces > 1 ? LIST : 0);
      invariant(pieces > 0 && isPlace, `no segment ${segment} begins at ${word}`);
      const list = pieces > 1 ? word - LIST : NULL_ADDRESS;
      const place = { pieces: pieces > 1 ? yield* readList(list, pieces) : [word], list };
      // Another operation of this client may have learned it while the list was read.
      if (segment === this.#version + 1) this.#learn(segment, place);
    }
  }

  #learn(segment: number, { pieces, list }: SegmentPlace): void {
    const geometry = this.#geometry;
    const piece = geometry.firstPiece(segment);
    invariant(piece === this.#addresses.length, 'segments are learned in order');
    if (list !== NULL_ADDRESS) this.#lists.push({ address: list, units: listUnits(pieces.length) });
    for (const [i, address] of pieces.entries()) {
      const { first } = geometry.bucketsOfPiece(piece + i);
      for (let level = 0; level < LEVELS; level++) {
        const start = address + geometry.levelOffset(piece + i, level);
        this.#bases[level].push(start - first * geometry.bucketBytes[level]);
      }
      this.#addresses.push(address);
    }
    this.#version = segment;
  }

  /** Claims making segment `segment`; false if another client has. */
  *claim(segment: number): Operation<boolean> {
    return yield* control.swap(this.root + CLAIMS, BigInt(segment - 1), BigInt(segment));
  }

  /** Takes the claim back: the segment is not made after all. */
  *unclaim(segment: number): Operation<void> {
    yield* control.swap(this.root + CLAIMS, BigInt(segment), BigInt(segment - 1));
  }

  /** The resize. One of the clients that have made segment `segment` wins. */
  *publish(segment: number, place: SegmentPlace): Operation<boolean> {
    const word = BigInt(wordOf(place));
    const won = yield* control.swap(this.root + SEGMENTS + 8 * segment, 0n, word);
    if (won && segment === this.#version + 1) this.#learn(segment, place);
    return won;
  }

  /** Makes the table leave for another root, unless it has more than `segments` segments by now. */
  *leaveFor(root: Address, segments: number): Operation<boolean> {
    invariant(root > 0 && root % UNIT_BYTES === 0, 'a table leaves for an invalid root');
    return yield* control.swap(this.root + SEGMENTS + 8 * segments, 0n, BigInt(root + LEFT));
  }

  /** Ends the migration, when all buckets have been fetched. True for one client only. */
  *forgetFormer(formerRoot: Address): Operation<boolean> {
    const won = yield* control.swap(this.root + FORMER, BigInt(formerRoot), 0n);
    this.former = undefined;
    this.formerRoot = NULL_ADDRESS;
    return won;
  }

  /** Writes the root of a new table into an image of the directory. */
  static format(image: Scratch, at: number, first: Address): void {
    writeInteger(image, at + SEGMENTS, first);
  }

  /** The root of a table that is about to leave `former` for these segments. */
  static *formatFor(
    root: Address,
    former: Address,
    segments: readonly SegmentPlace[],
    records: number,
  ): Operation<void> {
    const image = new Scratch(ROOT_BYTES);
    image.i64[RECORDS >> 3] = BigInt(records);
    writeInteger(image, CLAIMS, segments.length - 1);
    writeInteger(image, FORMER, former);
    writeInteger(image, FETCHED_AT, segments.length - 1);
    for (const [segment, place] of segments.entries()) {
      writeInteger(image, SEGMENTS + 8 * segment, wordOf(place));
    }
    yield new Batch().write(root, ROOT_BYTES, image, 0);
  }
}

/** The word of a segment in its root. */
function wordOf({ pieces, list }: SegmentPlace): number {
  const word = list === NULL_ADDRESS ? pieces[0] : list + LIST;
  // 0 would end the segments, and the low bits say that it is a list or another root.
  const isPlace = word > LIST && word % UNIT_BYTES === (list === NULL_ADDRESS ? 0 : LIST);
  const isWhole = list === NULL_ADDRESS;
  invariant(isPlace && isWhole === (pieces.length === 1), 'a segment has no valid address');
  return word;
}

/** Raises SW_POOL_CORRUPT if a root cannot be there: the address is 0 or not aligned. */
export function refuseNoRoot(address: Address): void {
  const isRoot = address !== NULL_ADDRESS && address % 8 === 0;
  invariant(isRoot, `no root of a table can be at ${address}`);
}

function nameOf(level: number, bucket: number): number {
  return bucket * LEVELS + level;
}

/** The count can be negative: clients report differences, and removals may be reported first. */
function readSigned(words: Scratch, at: number): number {
  return Number(words.i64[at >> 3]);
}
