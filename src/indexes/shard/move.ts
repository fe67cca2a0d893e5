import { invariant } from '../../errors.ts';
import type { KeyHash } from '../../records/hash.ts';
import {
  type Address,
  Batch,
  CAS_BYTES,
  type Operation,
  Scratch,
  setWord,
} from '../../verbs/index.ts';
import { KeyHashes } from '../key-hashes.ts';
import { hashOfPlace, LEVEL3_LINK, LEVELS } from './geometry.ts';
import type { Segments } from './segments.ts';
import {
  advanced,
  FROZEN,
  freshHigh,
  isLive,
  leaves,
  lengthOf,
  overflowAfterMove,
  pointerOf,
  SEGMENT_ID_BITS,
  stampOf,
} from './slot.ts';
import type { ShardTable } from './table.ts';

const FREEZE_ROUNDS_MAX = 10_000;
/** The first place of a key in each level. */
const PLACE_OF_LEVEL: readonly number[] = [0, 1, 3];

/**
 * Moves a bucket to `version`, one resize after the other. Any number of clients may do this for
 * the same bucket at the same time and die anywhere: every step is a CAS from a word that occurs
 * once, because stamps only grow and a record's address is not used again while anybody moves.
 *
 *   1  freeze every word of the old bucket: what is in flight fails       D[CAS x n; READ bucket;
 *      every fourth resize: look whether the new bucket is complete         READ last word]
 *   2  every fourth resize: read the records for their next segment ids   D[READ x m]
 *   3  set every word of the new bucket, from 0, at the same index        D[CAS x n;
 *   4  set every word of the old bucket to the new version                  CAS x n]
 *
 * All of 3 comes before any of 4, so a word of the old bucket at the new version says that the new
 * bucket is complete. Nobody writes to a bucket before all of its words are of one version: until
 * 3 is done no record of either bucket can be changed. From then on the frozen words that leave
 * mean nothing. Emptied slots become fresh ones; pending ones are dropped, their owners begin
 * again. The overflow bit goes to both buckets, the chain of level 3 is shared by both.
 *
 * Returns whether this client made the last step, and with it the READs of the tail.
 */
export function* moveBucket(
  table: ShardTable,
  level: number,
  bucket: number,
  version: number,
  { seen, tail, segments = table.segments }: MoveOptions = {},
): Operation<boolean> {
  const move = table.idleMoves.pop() ?? new Move(table);
  move.begin(segments, level, bucket, seen);
  let transferred = false;
  while (move.isBelow(version) && (yield* move.freeze(version)) !== DONE) {
    yield* move.refreshSegmentIds();
    yield* move.transfer(tail);
    transferred = true;
    table.bucketsMoved++;
  }
  table.idleMoves.push(move);
  return transferred;
}

/** A bucket as it was read, or is to be read: in `words` from `at` on. */
export interface View {
  words: Scratch;
  at: number;
}

interface MoveOptions {
  /** The bucket as the caller has read it: spares the first round trip. */
  seen?: View;
  /** Adds READs behind the last step, for whom the move is made. */
  tail?: (batch: Batch) => void;
  /** Those that the bucket is in; the table's own when left out. */
  segments?: Segments;
}

const DONE = true;

/** The moves of one bucket; reused, because a resize is many of them. */
export class Move {
  readonly #table: ShardTable;
  readonly #words = new Scratch(64);
  readonly #swaps = new Scratch(64);
  readonly #batch = new Batch();
  readonly #hashes = new KeyHashes();
  /** By word: the segment id that its entry gets, when a new group of four begins. */
  readonly #segmentIds: number[] = [];
  #segments: Segments;
  #level = 0;
  #bucket = 0;
  #bytes = 0;
  #old: Address = 0;
  #new: Address = 0;
  /** The version that the bucket leaves, and the one that this client has moved it to. */
  #from = 0;
  #reached = -1;
  /** Whether the words are as the caller has read them. */
  #isRead = false;
  /** The version whose new bucket's last word has been read behind the words; -1: none. */
  #completenessOf = -1;

  constructor(table: ShardTable) {
    this.#table = table;
    this.#segments = table.segments;
  }

  begin(segments: Segments, level: number, bucket: number, seen?: View): void {
    const { geometry } = this.#table;
    this.#segments = segments;
    this.#level = level;
    this.#bucket = bucket;
    this.#bytes = geometry.bucketBytes[level];
    this.#old = segments.bucketAddress(level, bucket);
    this.#words.ensure(this.#bytes + 8);
    this.#swaps.ensure(2 * CAS_BYTES * (this.#bytes >> 3));
    this.#reached = -1;
    this.#isRead = seen !== undefined;
    if (seen === undefined) return;
    this.#words.u8.set(seen.words.u8.subarray(seen.at, seen.at + this.#bytes), 0);
  }

  /** Whether the bucket is not known to have reached the version. */
  isBelow(version: number): boolean {
    return this.#reached < version;
  }

  /** Step 1. DONE when the bucket is of `version` at least. */
  *freeze(version: number): Operation<boolean> {
    if (!this.#isRead) yield this.#batch.clear().read(this.#old, this.#bytes, this.#words, 0);
    this.#isRead = false;
    this.#completenessOf = -1;
    for (let round = 0; round < FREEZE_ROUNDS_MAX; round++) {
      this.#from = this.#lowestStamp() - 1;
      if (this.#from >= version) return DONE;
      invariant(this.#from >= 0, 'only an initialised bucket is moved');
      const child = this.#bucket + this.#table.geometry.bucketsAt(this.#from);
      this.#new = this.#segments.bucketAddress(this.#level, child);
      this.#batch.clear();
      for (let at = 0; at < this.#bytes; at += 8) this.#postFreeze(at);
      if (this.#batch.length === 0) return !DONE;
      yield this.#postCompleteness(this.#batch.read(this.#old, this.#bytes, this.#words, 0));
    }
    return invariant(false, 'a bucket cannot be frozen') as never;
  }

  #lowestStamp(): number {
    let lowest = stampOf(this.#high(0));
    for (let at = 8; at < this.#bytes; at += 8) {
      lowest = Math.min(lowest, stampOf(this.#high(at)));
    }
    return lowest;
  }

  #postFreeze(at: number): void {
    const high = this.#high(at);
    if ((high & FROZEN) !== 0 || stampOf(high) - 1 !== this.#from) return;
    const low = this.#low(at);
    this.#postSwap(this.#old + at, low, high, low, high | FROZEN);
  }

  /** Of the new bucket, its last word, which tells whether it is complete; step 2 asks. */
  #postCompleteness(batch: Batch): Batch {
    if (!this.#needsSegmentIds) return batch;
    this.#completenessOf = this.#from;
    return batch.read(this.#new + this.#bytes - 8, 8, this.#words, this.#bytes);
  }

  get #needsSegmentIds(): boolean {
    return (this.#from + 1) % SEGMENT_ID_BITS === 0;
  }

  /**
   * Step 2. The records that stay are the current ones, because their words were frozen when they
   * were read; so are those that leave as long as the new bucket was not complete.
   */
  *refreshSegmentIds(): Operation<void> {
    this.#segmentIds.length = 0;
    if (!this.#needsSegmentIds) return;
    // Not known when another client has frozen the bucket, maybe for a later move than this one's.
    if (this.#completenessOf !== this.#from) yield this.#postCompleteness(this.#batch.clear());
    const complete = this.#words.i64[this.#bytes >> 3] !== 0n;
    const hashes = this.#hashes;
    const indexes: number[] = [];
    hashes.clear();
    hashes.ensure(this.#bytes >> 3);
    for (let at = 0; at < this.#bytes; at += 8) {
      const high = this.#high(at);
      if (!this.#isEntry(at) || !isLive(this.#low(at), high)) continue;
      if (!this.#isOld(high) || (complete && leaves(high))) continue;
      indexes.push(at >> 3);
      hashes.add(pointerOf(this.#low(at), high), lengthOf(high));
    }
    const { seed } = this.#table.geometry.shape;
    yield* hashes.read(seed, (i, hash) => {
      const at = indexes[i];
      this.#segmentIds[at] = this.#segmentIdFor(hash, leaves(this.#high(8 * at)));
    });
  }

  /** In level 2 a key has two hash words: that one counts which leads to where the entry goes. */
  #segmentIdFor(hash: KeyHash, leaving: boolean): number {
    const { geometry } = this.#table;
    const next = this.#from + 1;
    const goal = leaving ? this.#bucket + geometry.bucketsAt(this.#from) : this.#bucket;
    const place = PLACE_OF_LEVEL[this.#level];
    const first = hashOfPlace(hash, place);
    const isSecond = this.#level === 1 && geometry.bucketOf(first, next) !== goal;
    return geometry.segmentId(isSecond ? hashOfPlace(hash, place + 1) : first, next);
  }

  /** Steps 3 and 4, in one doorbell (RDMA-combining): atomics of a queue pair keep their order. */
  *transfer(tail?: (batch: Batch) => void): Operation<void> {
    const { combining } = this.#table.techniques;
    this.#batch.clear();
    let complete = false;
    for (let at = 0; at < this.#bytes; at += 8) complete ||= !this.#isOld(this.#high(at));
    for (let at = 0; at < this.#bytes && !complete; at += 8) {
      const { low, high } = this.#next(at, true);
      this.#postSwap(this.#new + at, 0, 0, low, high);
    }
    if (!combining && this.#batch.length > 0) {
      yield this.#batch;
      this.#batch.clear();
    }
    for (let at = 0; at < this.#bytes; at += 8) {
      if (!this.#isOld(this.#high(at))) continue;
      const { low, high } = this.#next(at, false);
      this.#postSwap(this.#old + at, this.#low(at), this.#high(at), low, high);
    }
    tail?.(this.#batch);
    yield this.#batch;
    this.#reached = this.#from + 1;
  }

  /** What a word becomes in the new bucket, or in the old one at the next version. */
  #next(at: number, inNew: boolean): { low: number; high: number } {
    const low = this.#low(at);
    const high = this.#high(at);
    const version = this.#from + 1;
    if (!this.#isEntry(at)) return { low, high: advanced(high, version, undefined) };
    if (isLive(low, high) && leaves(high) === inNew) {
      return { low, high: advanced(high, version, this.#segmentIds[at >> 3]) };
    }
    return { low: 0, high: freshHigh(version) | overflowAfterMove(high) };
  }

  /** Not the link to a chain, which both buckets keep. */
  #isEntry(at: number): boolean {
    return this.#level < LEVELS - 1 || at !== LEVEL3_LINK;
  }

  /** Whether the word is of the version that the bucket leaves. */
  #isOld(high: number): boolean {
    return stampOf(high) - 1 === this.#from;
  }

  #low(at: number): number {
    return this.#words.i32[at >> 2];
  }

  #high(at: number): number {
    return this.#words.i32[(at >> 2) + 1];
  }

  #postSwap(address: Address, low: number, high: number, newLow: number, newHigh: number): void {
    const at = this.#batch.length * CAS_BYTES;
    setWord(this.#swaps, at, low, high);
    setWord(this.#swaps, at + 8, newLow, newHigh);
    this.#batch.cas(address, this.#swaps, at);
  }
}
