import { invariant } from '../../../errors.ts';
import type { KeyHash } from '../../../records/hash.ts';
import {
  type Address,
  type Batch,
  type Operation,
  Scratch,
  setWord,
} from '../../../verbs/index.ts';
import { BucketWords } from '../../substrates/bucket-words.ts';
import { lengthOf } from '../../substrates/claims/slot-format.ts';
import { KeyHashes } from '../../substrates/key-hashes.ts';
import { hashOfPlace, LEVEL3_LINK, LEVELS } from '../table/geometry.ts';
import type { Segments } from '../table/segments.ts';
import {
  advanced,
  FROZEN,
  freshHigh,
  isLive,
  leaves,
  overflowAfterMove,
  pointerOf,
  SEGMENT_ID_BITS,
  stampOf,
} from '../table/slot.ts';
import type { ShardTable } from '../table/table.ts';
import { NewBucket } from './new-bucket.ts';

/**
 * Moves a bucket to `version`, one resize after the other. Any number of clients may move the same
 * bucket at the same time and die anywhere. In the old bucket every step is a CAS from a word that
 * occurs only once: stamps only grow, and no record's address is used again while a client moves.
 * The new bucket is filled by one mover: see new-bucket.ts.
 *
 *   1  CAS every word of the old bucket, so CASes in flight fail:         D[CAS x n; CAS take new;
 *      freeze what the new bucket needs, bring the rest to the                READ bucket]
 *      next version
 *   2  every fourth resize: read the records for their next segment ids   D[READ x m]
 *   3  fill and publish the new bucket                                    D[WRITE; CAS new;
 *   4  bring frozen words to the next version, the first word last         CAS x m]
 *
 * The first word of the old bucket stays frozen until step 3 is done. So if all words of a bucket
 * have a version, its new bucket is complete. Until then no client inserts, and a record that
 * leaves cannot be changed. A record that stays may be replaced or removed at once. After step 3
 * the frozen words of records that left mean nothing. Emptied slots become fresh. Pending ones are
 * dropped, and their owners begin again. Both buckets get the overflow bit and share the chain of
 * level 3.
 *
 * Returns whether this client took the last step, and with it read the tail.
 */
export function* moveBucket(
  table: ShardTable,
  segments: Segments,
  level: number,
  bucket: number,
  version: number,
  { seen, tail }: MoveOptions,
): Operation<boolean> {
  const move = (table.idleMoves.pop() as Move | undefined) ?? new Move(table);
  move.begin(segments, level, bucket, seen);
  let finished = false;
  while (yield* move.freeze(version)) {
    yield* move.complete();
    yield* move.finish(tail);
    finished = true;
    table.bucketsMoved++;
  }
  table.idleMoves.push(move);
  return finished;
}

interface MoveOptions {
  /** The bucket as the caller has read it; saves the first round trip. */
  seen: View | undefined;
  /** Adds the caller's READs behind the last step. */
  tail: ((batch: Batch) => void) | undefined;
}

const FREEZE_ROUNDS_MAX = 10_000;
/** A bucket is in its segment or, once it was relocated, in a block of its own. */
const PLACES_OF_BUCKET = 2;
/** Verbs in a batch besides the CASes of a bucket's words. */
const OTHER_VERBS = 2;
/** By level: the number of its first bucket among the candidate buckets of a key. */
const PLACE_OF_LEVEL: readonly number[] = [0, 1, 3];

/** Words of a bucket that was read, or is to be read, at offset `at`. */
export interface View {
  words: Scratch;
  at: number;
}

/** The moves of one bucket. Reused, because a resize makes many moves. */
export class Move {
  readonly #table: ShardTable;
  readonly #old = new BucketWords();
  readonly #image = new Scratch(64);
  readonly #hashes = new KeyHashes();
  /** By word: the segment id that its entry gets when the next group of four resizes begins. */
  readonly #segmentIds: number[] = [];
  #segments: Segments;
  #level = 0;
  #bucket = 0;
  #bytes = 0;
  #address: Address = 0;
  /** The version that the bucket leaves, and the one that this client has moved it to. */
  #from = -1;
  #reached = -1;
  #new: NewBucket | undefined;
  /** Whether `#old` holds the bucket as the caller has read it. */
  #isRead = false;

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
    this.#address = segments.bucketAddress(level, bucket);
    this.#old.ensure(this.#bytes, (this.#bytes >> 3) + OTHER_VERBS);
    this.#image.ensure(this.#bytes);
    this.#from = -1;
    this.#reached = -1;
    this.#isRead = seen !== undefined;
    if (seen === undefined) return;
    this.#old.words.u8.set(seen.words.u8.subarray(seen.at, seen.at + this.#bytes), 0);
  }

  /** Step 1. False if the bucket has already reached `version`. */
  *freeze(version: number): Operation<boolean> {
    if (this.#reached >= version) return false;
    if (!this.#isRead) yield* this.#read();
    this.#isRead = false;
    for (let round = 0; round < FREEZE_ROUNDS_MAX; round++) {
      const from = this.#lowestStamp() - 1;
      if (from >= version) return false;
      invariant(from >= 0, 'only an initialised bucket is moved');
      const target = this.#newBucketOf(from);
      this.#old.batch.clear();
      for (let at = 0; at < this.#bytes; at += 8) this.#postFreezing(at);
      if (this.#old.batch.length === 0 && target.isKnown) return true;
      const asks = !target.isKnown;
      if (asks) target.postTake(this.#old.batch);
      yield this.#old.postRead(this.#address, this.#bytes);
      if (asks) target.noteTake();
    }
    return invariant(false, 'a bucket cannot be frozen') as never;
  }

  /** Reads the bucket where it is. */
  *#read(): Operation<void> {
    const segments = this.#segments;
    for (let reads = 0; reads < PLACES_OF_BUCKET; reads++) {
      this.#address = segments.bucketAddress(this.#level, this.#bucket);
      yield* this.#old.read(this.#address, this.#bytes);
      const [low, high] = [this.#old.low(0), this.#old.high(0)];
      if (!segments.learnPlace(this.#level, this.#bucket, low, high)) return;
    }
    invariant(false, `bucket ${this.#bucket} is relocated twice`);
  }

  #lowestStamp(): number {
    let lowest = stampOf(this.#old.high(0));
    for (let at = 8; at < this.#bytes; at += 8) {
      lowest = Math.min(lowest, stampOf(this.#old.high(at)));
    }
    return lowest;
  }

  /** The new bucket that a move from this version fills. */
  #newBucketOf(from: number): NewBucket {
    if (this.#new !== undefined && from === this.#from) return this.#new;
    this.#from = from;
    this.#segmentIds.length = 0;
    const child = this.#bucket + this.#table.geometry.bucketsAt(from);
    const isKnown = from < this.#segments.version;
    invariant(isKnown, 'a bucket is moved beyond the version of its segments');
    this.#new = new NewBucket(this.#table, this.#segments, this.#level, child);
    return this.#new;
  }

  #postFreezing(at: number): void {
    const [low, high] = [this.#old.low(at), this.#old.high(at)];
    if ((high & FROZEN) !== 0 || !this.#isOld(high)) return;
    const next = this.#isNeeded(at) ? { low, high: high | FROZEN } : this.#next(at, false);
    this.#old.postSwap(this.#address + at, low, high, next.low, next.high);
  }

  /**
   * Whether the new bucket needs this word, which must then not change before that is complete. The
   * first word stays frozen in any case: it shows that the new bucket is incomplete.
   */
  #isNeeded(at: number): boolean {
    if (at === 0 || !this.#isEntry(at)) return true;
    if (!isLive(this.#old.low(at), this.#old.high(at))) return false;
    return leaves(this.#old.high(at)) || this.#needsSegmentIds;
  }

  get #needsSegmentIds(): boolean {
    return (this.#from + 1) % SEGMENT_ID_BITS === 0;
  }

  /** The new bucket that the current step fills. */
  get target(): NewBucket {
    invariant(this.#new !== undefined, 'a move that has not begun');
    return this.#new;
  }

  /** Step 2. Also step 3, if another client has taken the new bucket and does not finish it. */
  *complete(): Operation<void> {
    const { target } = this;
    yield* target.awaitTaker();
    yield* this.#refreshSegmentIds(target.isComplete);
    this.#fillImage();
    // Another client may take over from a dead taker, and then be slow or die itself.
    while (target.isAbandoned) yield* target.relocate(this.#image, this.#bytes);
  }

  /**
   * Records that stay are current: their words were frozen when they were read. So are records that
   * leave, if the new bucket was not complete then.
   */
  *#refreshSegmentIds(isComplete: boolean): Operation<void> {
    if (!this.#needsSegmentIds) return;
    const hashes = this.#hashes;
    const indexes: number[] = [];
    hashes.clear();
    hashes.ensure(this.#bytes >> 3);
    for (let at = 0; at < this.#bytes; at += 8) {
      const high = this.#old.high(at);
      if (!this.#isEntry(at) || !isLive(this.#old.low(at), high)) continue;
      if (!this.#isOld(high) || (isComplete && leaves(high))) continue;
      indexes.push(at >> 3);
      hashes.add(pointerOf(this.#old.low(at), high), lengthOf(high));
    }
    const { seed } = this.#table.geometry.shape;
    yield* hashes.read(seed, (i, hash) => {
      const at = indexes[i];
      this.#segmentIds[at] = this.#segmentIdFor(hash, leaves(this.#old.high(8 * at)));
    });
  }

  /** In level 2 a key has two hash words: the one that leads to the entry's bucket counts. */
  #segmentIdFor(hash: KeyHash, leaving: boolean): number {
    const { geometry } = this.#table;
    const next = this.#from + 1;
    const goal = leaving ? this.#bucket + geometry.bucketsAt(this.#from) : this.#bucket;
    const place = PLACE_OF_LEVEL[this.#level];
    const first = hashOfPlace(hash, place);
    const isSecond = this.#level === 1 && geometry.bucketOf(first, next) !== goal;
    return geometry.segmentId(isSecond ? hashOfPlace(hash, place + 1) : first, next);
  }

  /** The new bucket, ready to be published. Unused if it was published already. */
  #fillImage(): void {
    for (let at = 0; at < this.#bytes; at += 8) {
      // A word that is already of the next version has nothing for the new bucket.
      const isOld = this.#isOld(this.#old.high(at));
      const next = isOld ? this.#next(at, true) : { low: 0, high: freshHigh(this.#from + 1) };
      setWord(this.#image, at, next.low, next.high);
    }
  }

  /** Steps 3 and 4, in one doorbell (RDMA-combining): verbs behind a WRITE come after it. */
  *finish(tail?: (batch: Batch) => void): Operation<void> {
    const { target } = this;
    this.#old.batch.clear();
    if (target.isOwn) target.postPublication(this.#old.batch, this.#image, this.#bytes);
    if (target.isOwn && !this.#table.techniques.combining) {
      yield this.#old.batch;
      this.#old.batch.clear();
    }
    for (let at = 8; at < this.#bytes; at += 8) this.#postFinishing(at);
    this.#postFinishing(0);
    tail?.(this.#old.batch);
    yield this.#old.batch;
    if (target.isOwn) target.notePublication();
    this.#reached = this.#from + 1;
  }

  #postFinishing(at: number): void {
    if (!this.#isOld(this.#old.high(at))) return;
    const { low, high } = this.#next(at, false);
    this.#old.postSwap(this.#address + at, this.#old.low(at), this.#old.high(at), low, high);
  }

  /** The word's successor in the new bucket, or in the old one at the next version. */
  #next(at: number, inNew: boolean): { low: number; high: number } {
    const low = this.#old.low(at);
    const high = this.#old.high(at);
    const version = this.#from + 1;
    if (!this.#isEntry(at)) return { low, high: advanced(high, version, undefined) };
    if (isLive(low, high) && leaves(high) === inNew) {
      return { low, high: advanced(high, version, this.#segmentIds[at >> 3]) };
    }
    return { low: 0, high: freshHigh(version) | overflowAfterMove(high) };
  }

  /** False for the link to a chain, which both buckets keep. */
  #isEntry(at: number): boolean {
    return this.#level < LEVELS - 1 || at !== LEVEL3_LINK;
  }

  /** Whether the word is of the version that the bucket leaves. */
  #isOld(high: number): boolean {
    return stampOf(high) - 1 === this.#from;
  }
}
