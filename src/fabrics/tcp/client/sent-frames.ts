import type { Batch, Completion } from '../../../verbs/index.ts';
import type { Part } from './flight.ts';

const FIRST_FRAMES = 64;

/** A frame that was sent: which verbs of which part it carries, to place what they return. */
export class SentFrame {
  batch!: Batch;
  /** Which part of a flight it is of; undefined when the frame is all of its batch. */
  part: Part | undefined = undefined;
  /** What waits for the batch, when the frame is all of it. */
  completion!: Completion;
  sequence = 0;
  /** Whole READs of a pool with one node, which are placed in one pass. */
  isReads = false;
  /** The first row and how much of it went before; and where the next frame begins. */
  firstRow = 0;
  firstSent = 0;
  endRow = 0;
  endSent = 0;
  requestBytes = 0;
  resultBytes = 0;
}

/** A ring of frames sent but not answered, oldest first. Reusing them saves allocations. */
export class SentFrames {
  #ring = Array.from({ length: FIRST_FRAMES }, () => new SentFrame());
  #first = 0;
  length = 0;

  get first(): SentFrame | undefined {
    return this.length === 0 ? undefined : this.#ring[this.#first];
  }

  /** A frame behind all others, for the caller to fill in. */
  add(): SentFrame {
    if (this.length === this.#ring.length) this.#grow();
    return this.#ring[(this.#first + this.length++) & (this.#ring.length - 1)];
  }

  /** Takes back what was added last. */
  removeLast(): void {
    this.length--;
  }

  /** Takes the oldest away. It is valid until the next `add`. */
  removeFirst(): void {
    this.#first = (this.#first + 1) & (this.#ring.length - 1);
    this.length--;
  }

  *[Symbol.iterator](): IterableIterator<SentFrame> {
    for (let i = 0; i < this.length; i++) {
      yield this.#ring[(this.#first + i) & (this.#ring.length - 1)];
    }
  }

  clear(): void {
    this.length = 0;
  }

  #grow(): void {
    const older = [...this];
    this.#ring = [...older, ...older.map(() => new SentFrame())];
    this.#first = 0;
  }
}
