import { Batch } from './batch.ts';
import { Scratch } from './scratch.ts';

/**
 * An operation is written once, as a generator that yields a batch for each round trip and returns
 * its result; a runner executes the batches on a fabric. After `yield`, the READ results and old
 * values are in the scratch that the batch named.
 */
export type Operation<T> = Generator<Batch, T, void>;

/**
 * What one operation in flight needs: its batch and its local memory. Frames are reused, so that an
 * operation allocates nothing but its generator.
 */
export class Frame {
  readonly batch = new Batch();
  /**
   * Words for CAS and FAA, directory entries, buckets: fixed small areas given out by each index.
   */
  words: Scratch;
  /** The record that the operation writes; its key stands there also for a search. */
  readonly outgoing = new Scratch(512);
  /** Records that the operation reads. */
  readonly incoming = new Scratch(512);

  constructor(wordBytes: number) {
    this.words = new Scratch(wordBytes);
  }
}
