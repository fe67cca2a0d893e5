import { invariant } from '../../errors.ts';
import {
  type Address,
  Batch,
  CAS_BYTES,
  type Operation,
  Scratch,
  setWord,
} from '../../verbs/index.ts';

/**
 * The words of some buckets as a mover has read them, one bucket after the other from offset 0, and
 * the CASes by which it changes them.
 */
export class BucketWords {
  readonly words = new Scratch(64);
  readonly batch = new Batch();
  readonly #swaps = new Scratch(64);

  /** Makes room for this many bytes of buckets, and this many verbs in a doorbell. */
  ensure(bytes: number, verbs: number): void {
    this.words.ensure(bytes);
    this.#swaps.ensure(CAS_BYTES * verbs);
  }

  low(at: number): number {
    return this.words.i32[at >> 2];
  }

  high(at: number): number {
    return this.words.i32[(at >> 2) + 1];
  }

  /** Adds the READ of the buckets at `address`. */
  postRead(address: Address, bytes: number): Batch {
    return this.batch.read(address, bytes, this.words, 0);
  }

  /** Reads the buckets at `address`. */
  *read(address: Address, bytes: number): Operation<void> {
    this.batch.clear();
    yield this.postRead(address, bytes);
  }

  /** Adds a CAS from one word to another. */
  postSwap(address: Address, low: number, high: number, newLow: number, newHigh: number): void {
    const at = CAS_BYTES * this.batch.length;
    invariant(at + CAS_BYTES <= this.#swaps.u8.length, 'a mover posts more than it made room for');
    setWord(this.#swaps, at, low, high);
    setWord(this.#swaps, at + 8, newLow, newHigh);
    this.batch.cas(address, this.#swaps, at);
  }
}
