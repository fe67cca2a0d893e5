import { hasCode, invariant, StepwellError } from '../../../errors.ts';
import { clientWord, isGone } from '../../../pool/clients/client-word.ts';

import {
  type Address,
  Batch,
  CAS_BYTES,
  highHalf,
  lowHalf,
  NULL_ADDRESS,
  type Operation,
  Scratch,
  setWord,
  swapped,
} from '../../../verbs/index.ts';

import { pointerLow } from '../../substrates/claims/slot-format.ts';

import { LEVELS } from '../table/geometry.ts';
import type { Segments } from '../table/segments.ts';
import { isInUse, isRelocated, relocatedHigh, TAKEN_HIGH } from '../table/slot.ts';
import type { ShardTable } from '../table/table.ts';

const FIRST_AT = CAS_BYTES;
const FIRST_WORDS = 256;
/** Polls before the first pause: a mover takes a few round trips. */
const POLLS_WITHOUT_PAUSE = 8;
/**
 * In a full pool: polls for the taker. Every FULL_POLLS of them, a client asks whether the taker
 * has died, and searches the pool for a block again.
 */
const FULL_POLLS_MAX = 20_000;
const FULL_POLLS = 16;

/** Learns of all relocated buckets, in segments where no more buckets move. */
export function* learnRelocations({ geometry }: ShardTable, segments: Segments): Operation<void> {
  const words = new Scratch(8 * FIRST_WORDS);
  const batch = new Batch();
  for (let level = 0; level < LEVELS; level++) {
    const end = geometry.bucketsAt(segments.version);
    // No bucket is moved to the first segment.
    for (let first = geometry.bucketsAt(0); first < end; first += FIRST_WORDS) {
      const count = Math.min(FIRST_WORDS, end - first);
      batch.clear();
      for (let i = 0; i < count; i++) {
        batch.read(segments.homeAddress(level, first + i), 8, words, 8 * i);
      }
      yield batch;
      for (let i = 0; i < count; i++) {
        segments.learnPlace(level, first + i, lowHalf(words, 8 * i), highHalf(words, 8 * i));
      }
    }
  }
}

/**
 * The bucket that a move fills by one WRITE. The first word names the one client that may write to
 * it (TAKEN). A CAS of that word, behind the WRITE in the same doorbell, publishes the bucket. A
 * late WRITE must not hit a bucket in use. So if the taker does not go on, the others ask whether
 * it is gone. If it is, no verb of it will come, and one of them takes the bucket over. If it
 * lives, they leave the place alone: one writes the same bucket into a block and turns the first
 * word from TAKEN to RELOCATED. The bucket then stays in that block, and no client reads what the
 * late mover writes.
 *
 *   0 -> TAKEN by A -> the bucket's first word   D[WRITE words 1 ...; CAS TAKEN -> word 0]
 *            |-> TAKEN by B                      A is gone
 *            \-> RELOCATED to a block            D[WRITE block; CAS TAKEN -> RELOCATED]
 */
export class NewBucket {
  readonly #table: ShardTable;
  readonly #segments: Segments;
  readonly #level: number;
  readonly #bucket: number;
  readonly address: Address;
  readonly #swap = new Scratch(FIRST_AT + 8);
  readonly #batch = new Batch();
  /** The first word as last read. */
  #low = 0;
  #high = 0;
  /** Whether this client is the one that may write to the bucket's place. */
  isOwn = false;
  /** Whether the first word has been read. */
  isKnown = false;

  constructor(table: ShardTable, segments: Segments, level: number, bucket: number) {
    this.#table = table;
    this.#segments = segments;
    this.#level = level;
    this.#bucket = bucket;
    this.address = segments.homeAddress(level, bucket);
  }

  /** Whether the bucket was published when its first word was last read. */
  get isComplete(): boolean {
    return isInUse(this.#high) || isRelocated(this.#high);
  }

  /** Whether another client has taken the bucket and not published it, when last read. */
  get isAbandoned(): boolean {
    return !this.isOwn && !this.isComplete;
  }

  /** Adds the CAS that takes the bucket, which also returns its first word. */
  postTake(batch: Batch): void {
    invariant(!this.isComplete, 'a new bucket is taken that has been published');
    this.#postFirst(batch, clientWord(this.#table.pool.membership), TAKEN_HIGH);
  }

  noteTake(): void {
    this.isOwn = this.#noteSwap();
    this.isKnown = true;
  }

  /** Adds the verbs that fill and publish the bucket; word 0 of the image publishes it. */
  postPublication(batch: Batch, image: Scratch, bytes: number): void {
    // The WRITE may come late: no other client may use the place before the CAS behind it.
    invariant(this.isOwn, 'a mover fills a new bucket that it has not taken');
    invariant(isInUse(image.i32[1]), 'a new bucket is published that is of no version');
    if (bytes > 8) batch.write(this.address + 8, bytes - 8, image, 8);
    this.#postFirst(batch, image.i32[0], image.i32[1]);
  }

  /** Another client may have relocated the bucket meanwhile. */
  notePublication(): void {
    this.#noteSwap();
  }

  /** Waits for the taker to publish, for `patience` at most; takes over from a dead one. */
  *awaitTaker(): Operation<void> {
    const { polls, microseconds } = this.#table.patience;
    for (let poll = 0; poll < polls && this.isAbandoned; poll++) {
      yield* this.#poll(poll < POLLS_WITHOUT_PAUSE ? 0 : microseconds);
    }
    if (this.isAbandoned) yield* this.#takeOver();
  }

  *#poll(pause: number): Operation<void> {
    const batch = this.#batch.clear().pause(pause, this.#swap);
    yield batch.read(this.address, 8, this.#swap, FIRST_AT);
    this.#note(FIRST_AT >> 2);
  }

  *#takeOver(): Operation<void> {
    if (!(yield* isGone(this.#table.pool.membership, this.#low))) return;
    this.postTake(this.#batch.clear());
    yield this.#batch;
    this.noteTake();
  }

  /** Publishes the image in another place, unless another client has published it meanwhile. */
  *relocate(image: Scratch, bytes: number): Operation<void> {
    const { allocator, catalog, geometry } = this.#table;
    const units = geometry.relocatedUnits(this.#level);
    const block = yield* this.#room(units);
    if (block === NULL_ADDRESS) return;
    invariant(isInUse(image.i32[1]), 'a bucket is relocated that is of no version');
    const batch = this.#batch.clear().write(block, bytes, image, 0);
    this.#postFirst(batch, pointerLow(block), relocatedHigh(block));
    yield batch;
    if (this.#noteSwap()) this.#table.relocated++;
    else allocator.discard(catalog, units, block);
  }

  /** A block for the bucket; NULL_ADDRESS if the pool was full until another client published. */
  *#room(units: number): Operation<Address> {
    const { patience } = this.#table;
    for (let poll = 1; ; poll++) {
      if (poll % FULL_POLLS === 1) {
        try {
          return yield* this.#block(units);
        } catch (error) {
          if (!isFull(error) || poll > FULL_POLLS_MAX) throw error;
        }
      }
      yield* this.#poll(patience.microseconds);
      if (this.isAbandoned && poll % FULL_POLLS === 0) yield* this.#takeOver();
      if (!this.isAbandoned) return NULL_ADDRESS;
    }
  }

  /**
   * A block on the table's memory node or, when that is full, on another one of the placement. A
   * removed node is never used, because it must hold nothing of the table after its migration.
   * While no node is removed, any block will do, so this client may use its own free ones.
   */
  *#block(units: number): Operation<Address> {
    const { allocator, catalog, directory, node, pool } = this.#table;
    if (pool.layout.stripe === 1) return yield* allocator.allocate(catalog, units);
    try {
      return yield* allocator.allocate(catalog, units, node);
    } catch (error) {
      if (!isFull(error)) throw error;
    }
    const { nodes } = yield* directory.read();
    if (nodes.length === pool.layout.stripe) return yield* allocator.allocate(catalog, units);
    for (const other of nodes) {
      try {
        return yield* allocator.allocate(catalog, units, other);
      } catch (error) {
        if (!isFull(error)) throw error;
      }
    }
    throw new StepwellError('SW_POOL_FULL', 'all memory nodes of the placement are full');
  }

  /** Adds the CAS of the first word from what was last read. */
  #postFirst(batch: Batch, low: number, high: number): void {
    setWord(this.#swap, 0, this.#low, this.#high);
    setWord(this.#swap, 8, low, high);
    batch.cas(this.address, this.#swap, 0);
  }

  /** Notes the first word after that CAS. Returns whether the CAS has set it. */
  #noteSwap(): boolean {
    const isSet = swapped(this.#swap, 0);
    this.#note(isSet ? 2 : 4);
    return isSet;
  }

  /** Notes the first word, whose low half is at this index of `#swap`. */
  #note(word: number): void {
    this.#low = this.#swap.i32[word];
    this.#high = this.#swap.i32[word + 1];
    this.#segments.learnPlace(this.#level, this.#bucket, this.#low, this.#high);
  }
}

function isFull(error: unknown): boolean {
  return hasCode(error, 'SW_POOL_FULL');
}
