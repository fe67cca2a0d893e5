import {
  type Address,
  Batch,
  CAS_BYTES,
  type Operation,
  Scratch,
  setWord,
  swapped,
} from '../../verbs/index.ts';
import { isInUse, isRelocated, pointerLow, relocatedHigh, TAKEN_HIGH } from './slot.ts';
import type { ShardTable } from './table.ts';

const FIRST_AT = CAS_BYTES;
/** Polls before the first pause: a mover takes a few round trips. */
const POLLS_WITHOUT_PAUSE = 8;

/**
 * The bucket that a move fills. One WRITE fills it, so only one mover may ever write to its place:
 * the one that has TAKEN its first word, which is also what publishes the bucket, by a CAS behind
 * the WRITE in the same doorbell. A WRITE that comes late must not hit a bucket in use. So when the
 * taker seems to be slow or dead, the others do not touch its place: one of them writes the same
 * bucket into a block of its own and turns the first word from TAKEN to RELOCATED. From then on the
 * bucket is there for ever, and what the late one writes is never looked at.
 *
 *   0 -> TAKEN -> the bucket's first word   D[WRITE words 1 ...; CAS TAKEN -> word 0]
 *            \-> RELOCATED to a block       D[WRITE block; CAS TAKEN -> RELOCATED]
 */
export class NewBucket {
  readonly #table: ShardTable;
  readonly #level: number;
  readonly #bucket: number;
  readonly address: Address;
  readonly #swap = new Scratch(FIRST_AT + 8);
  readonly #batch = new Batch();
  #low = 0;
  #high = 0;
  /** Whether this client is the one that may write to the bucket's place. */
  isOwn = false;
  /** Whether the first word has been looked at. */
  isKnown = false;

  constructor(table: ShardTable, level: number, bucket: number) {
    this.#table = table;
    this.#level = level;
    this.#bucket = bucket;
    this.address = table.segments.homeAddress(level, bucket);
  }

  /** Whether the bucket had been published when its first word was last looked at. */
  get isComplete(): boolean {
    return isInUse(this.#high) || isRelocated(this.#high);
  }

  /** Whether its taker had not published it after this client's patience. */
  get isAbandoned(): boolean {
    return !this.isOwn && !this.isComplete;
  }

  /** Adds the CAS that takes it, which also tells how far it is. */
  postTake(batch: Batch): void {
    setWord(this.#swap, 0, 0, 0);
    setWord(this.#swap, 8, 0, TAKEN_HIGH);
    batch.cas(this.address, this.#swap, 0);
  }

  noteTake(): void {
    this.isOwn = swapped(this.#swap, 0);
    this.isKnown = true;
    if (this.isOwn) this.#high = TAKEN_HIGH;
    else this.#note(4);
  }

  /** Adds what fills and publishes it; word 0 of the image is the word that publishes. */
  postPublication(batch: Batch, image: Scratch, bytes: number): void {
    if (bytes > 8) batch.write(this.address + 8, bytes - 8, image, 8);
    this.#postFirst(batch, image.i32[0], image.i32[1]);
  }

  /** The others may have lost patience meanwhile. */
  notePublication(): void {
    if (!swapped(this.#swap, 0)) this.#note(4);
  }

  /** Waits for the taker, for as long as this client's patience lasts. */
  *outwait(): Operation<void> {
    const { polls, microseconds } = this.#table.patience;
    for (let poll = 0; poll < polls && this.isAbandoned; poll++) {
      const pause = poll < POLLS_WITHOUT_PAUSE ? 0 : microseconds;
      const batch = this.#batch.clear().pause(pause, this.#swap);
      yield batch.read(this.address, 8, this.#swap, FIRST_AT);
      this.#note(FIRST_AT >> 2);
    }
  }

  /** Publishes the image in another place, unless it is published already. */
  *relocate(image: Scratch, bytes: number): Operation<void> {
    const { allocator, catalog, geometry } = this.#table;
    const units = geometry.relocatedUnits(this.#level);
    const block = yield* allocator.allocate(catalog, units);
    const batch = this.#batch.clear().write(block, bytes, image, 0);
    this.#postFirst(batch, pointerLow(block), relocatedHigh(block));
    yield batch;
    if (swapped(this.#swap, 0)) {
      this.#table.relocated++;
      this.#note(2);
    } else {
      allocator.sizeClass(catalog, units).cache.push(block);
      this.#note(4);
    }
  }

  #postFirst(batch: Batch, low: number, high: number): void {
    setWord(this.#swap, 0, 0, TAKEN_HIGH);
    setWord(this.#swap, 8, low, high);
    batch.cas(this.address, this.#swap, 0);
  }

  /** Takes the first word from the local words, by index of its low half. */
  #note(word: number): void {
    this.#low = this.#swap.i32[word];
    this.#high = this.#swap.i32[word + 1];
    this.#table.segments.learnPlace(this.#level, this.#bucket, this.#low, this.#high);
  }
}
