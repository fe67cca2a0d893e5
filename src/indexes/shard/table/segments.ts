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
 *   64  how many resizes have been claimed: the client that moves it on does the next
 *   72  of a table that is being migrated to here: its former root; 0 when all of it is here
 *   80  … and the version at which its buckets come from there
 *  128  addresses of the segments, 8 bytes each; of one that was cut into pieces, that of the list
 *       of their addresses (LIST is set). The first 0 ends them, or the address of a root (LEFT is
 *       set): the table has left, at this version, for the segments of that one
 *
 * The version of the table is the number of its segments less one. A CAS of the next segment's word
 * from 0 is the whole resize: from then on a client that meets a bucket of an earlier version moves
 * it. The same CAS with a root makes the table leave, so it does one or the other: migration.ts.
 */
const RECORDS = 0;
const CLAIMS = 64;
const FORMER = 72;
const FETCHED_AT = 80;
const SEGMENTS = 128;
/** In the word of a segment: it is the address of the root that the table has left for. */
const LEFT = 1;
/** … or of a list: see pieces.ts. */
const LIST = 2;
export const ROOT_BYTES = SEGMENTS + 8 * (VERSION_MAX + 2);
export const ROOT_UNITS = Math.ceil(ROOT_BYTES / UNIT_BYTES);

const FAA_AT = 0;
const SEGMENTS_AT = 64;

/**
 * A root as the directory names it: its address 41 | how often the table had been migrated when it
 * got this root 12. A later root may stand where an earlier one did, so its address alone does not
 * tell a client that the table was migrated.
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
  /** By piece: where it stands. Segments that are one piece are all but the largest ones. */
  readonly #addresses: Address[] = [];
  readonly #lists: { address: Address; units: number }[] = [];
  /** By level and piece: what to add to the offset of a bucket that counts from bucket 0. */
  readonly #bases: Address[][] = Array.from({ length: LEVELS }, () => []);
  /** The segments that this table is being migrated from, for clients that came by them. */
  former: Segments | undefined;
  /** The root of those, as it stands in the pool. */
  formerRoot: Address = NULL_ADDRESS;
  /** The version at which buckets are fetched from them. */
  fetchedAt = 0;
  /** The root of the segments that the table has left for. */
  successor: Address = NULL_ADDRESS;

  /** Buckets that are not in their segment. */
  readonly #relocated = new Map<number, Address>();

  constructor(name: RootName, geometry: ShardGeometry, former?: Segments) {
    this.name = name;
    this.root = rootNamed(name);
    this.#geometry = geometry;
    this.former = former;
  }

  /** Resizes as far as this client knows. */
  get version(): number {
    return this.#version;
  }

  /** The addresses of all pieces of the segments, in their order. */
  get addresses(): readonly Address[] {
    return this.#addresses;
  }

  /** The blocks of the segments: their pieces and the lists of them. */
  *blocks(): Generator<{ address: Address; units: number }, void, undefined> {
    const units = (piece: number) => this.#geometry.pieceUnits(piece);
    for (const [piece, address] of this.#addresses.entries())
      yield { address, units: units(piece) };
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

  /** The bucket's place in its segment, which it has left if its mover was slow or died. */
  homeAddress(level: number, bucket: number): Address {
    const base = this.#bases[level][this.#geometry.pieceOf(bucket)];
    return base + bucket * this.#geometry.bucketBytes[level];
  }

  /**
   * Takes note when the first word of a bucket, read at its home, says that it is elsewhere;
   * returns whether it does. A bucket is relocated once, before it is used, and for ever.
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

  /** Where relocated buckets are, with their levels, as far as this client has met them. */
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
   * Learns from the root as it was read; returns how many records have been reported. One round
   * trip for each segment in several pieces that the client did not know yet.
   */
  *noteLoad(words: Scratch, at: number): Operation<number> {
    yield* this.#learnFrom(words, at + SEGMENTS);
    this.formerRoot = readInteger(words, at + FORMER);
    this.fetchedAt = readInteger(words, at + FETCHED_AT);
    const hasThose = this.formerRoot === NULL_ADDRESS || this.fetchedAt <= this.#version;
    invariant(hasThose, 'a table lacks segments for those that it was migrated from');
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
        // A table leaves only once it has fetched all: its former blocks may be re-used now.
        this.former = undefined;
        return;
      }
      const pieces = segment <= geometry.shape.resizes ? geometry.piecesOf(segment) : 0;
      const isPlace = word % UNIT_BYTES === (pieces > 1 ? LIST : 0);
      invariant(pieces > 0 && isPlace, `no segment ${segment} begins at ${word}`);
      const list = pieces > 1 ? word - LIST : NULL_ADDRESS;
      const place = { pieces: pieces > 1 ? yield* readList(list, pieces) : [word], list };
      // While the list was read another operation of this client may have learned it.
      if (segment === this.#version + 1) this.#learn(segment, place);
    }
  }

  #learn(segment: number, { pieces, list }: SegmentPlace): void {
    const geometry = this.#geometry;
    const piece = geometry.firstPiece(segment);
    invariant(piece === this.#addresses.length, 'segments are learned in order');
    if (list !== NULL_ADDRESS) this.#lists.push({ address: list, units: listUnits(pieces.length) });
    for (const address of pieces) this.#learnPiece(address);
    this.#version = segment;
  }

  #learnPiece(address: Address): void {
    const geometry = this.#geometry;
    const piece = this.#addresses.length;
    const { first } = geometry.bucketsOfPiece(piece);
    for (let level = 0; level < LEVELS; level++) {
      const start = address + geometry.levelOffset(piece, level);
      this.#bases[level].push(start - first * geometry.bucketBytes[level]);
    }
    this.#addresses.push(address);
  }

  /** Whether this client is the one to make segment `segment`, of those that ask. */
  *claim(segment: number): Operation<boolean> {
    return yield* control.swap(this.root + CLAIMS, BigInt(segment - 1), BigInt(segment));
  }

  /** Takes the claim back: the segment is not made after all. */
  *unclaim(segment: number): Operation<void> {
    yield* control.swap(this.root + CLAIMS, BigInt(segment), BigInt(segment - 1));
  }

  /** The resize: of all clients that have made segment `segment`, one wins. */
  *publish(segment: number, place: SegmentPlace): Operation<boolean> {
    const word = BigInt(wordOf(place));
    const won = yield* control.swap(this.root + SEGMENTS + 8 * segment, 0n, word);
    if (won && segment === this.#version + 1) this.#learn(segment, place);
    return won;
  }

  /** The table with this many segments leaves for others, unless it was resized since. */
  *leaveFor(root: Address, segments: number): Operation<boolean> {
    invariant(root > 0 && root % UNIT_BYTES === 0, 'a table leaves for what is no root');
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
    segments: readonly SegmentPlace[],
    records: number,
  ): Operation<void> {
    const image = new Scratch(ROOT_BYTES);
    image.i64[RECORDS >> 3] = BigInt(records);
    writeInteger(image, CLAIMS, segments.length - 1);
    writeInteger(image, FORMER, former);
    writeInteger(image, FETCHED_AT, segments.length - 1);
    segments.forEach((place, segment) => {
      writeInteger(image, SEGMENTS + 8 * segment, wordOf(place));
    });
    yield new Batch().write(root, ROOT_BYTES, image, 0);
  }
}

/** What a root says of a segment. */
function wordOf({ pieces, list }: SegmentPlace): number {
  const word = list === NULL_ADDRESS ? pieces[0] : list + LIST;
  // 0 would end the segments, and other bits say that it is a list or another root.
  const isPlace = word > LIST && word % UNIT_BYTES === (list === NULL_ADDRESS ? 0 : LIST);
  invariant(isPlace && (list === NULL_ADDRESS) === (pieces.length === 1), 'a segment has no place');
  return word;
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
