import type { Batch, Completion } from '../../../verbs/index.ts';
import type { Part } from './flight.ts';

const FIRST_FRAMES = 64;

/** A sent frame: the verbs that it carries, so that their results can be stored. */
export class SentFrame {
  batch!: Batch;
  /** The part of a flight that the frame belongs to; undefined if it carries a whole batch. */
  part: Part | undefined = undefined;
  /** The completion of the batch, if the frame carries a whole batch. */
  completion: Completion | undefined = undefined;
  sequence = 0;
  /** Carries only whole READs, of a pool with one node: one pass stores all results. */
  isReads = false;
  /** First row, and its bytes sent in earlier frames; then the same for the next frame. */
  firstRow = 0;
  firstSent = 0;
  endRow = 0;
  endSent = 0;
  requestBytes = 0;
  resultBytes = 0;

  /** A frame is kept for later ones, and must not keep the results of an operation alive. */
  forget(): void {
    this.part = undefined;
    this.completion = undefined;
  }
}

/** A ring of frames sent but not answered, oldest first. Reusing them saves allocations. */
export class SentFrames {
  #ring = Array.from({ length: FIRST_FRAMES }, () => new SentFrame());
  #first = 0;
  length = 0;

  get first(): SentFrame | undefined {
    return this.length === 0 ? undefined : this.#ring[this.#first];
  }

  /** Appends a frame for the caller to fill in. */
  add(): SentFrame {
    if (this.length === this.#ring.length) this.#grow();
    return this.#ring[(this.#first + this.length++) & (this.#ring.length - 1)];
  }

  /** Removes the frame that was added last. */
  removeLast(): void {
    this.length--;
    this.#ring[(this.#first + this.length) & (this.#ring.length - 1)].forget();
  }

  /** Removes the oldest frame. It stays valid until the next `add`. */
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
    for (const frame of this) frame.forget();
    this.length = 0;
  }

  #grow(): void {
    const older = [...this];
    this.#ring = [...older, ...older.map(() => new SentFrame())];
    this.#first = 0;
  }
}
