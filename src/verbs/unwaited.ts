import { Batch } from './batch.ts';
import { Scratch } from './scratch.ts';

/** The most words of one such WRITE. */
const WORDS_MAX = 8;

/**
 * A batch of one WRITE for which its operation does not wait. A fabric whose verbs take time posts
 * it, sets `isUnderWay` and lets the operation go on at once. It calls `completed` when the WRITE
 * has been executed or has failed. Where verbs finish at once it is a batch like any other. Traffic
 * counts it as a WRITE, and as no round trip.
 */
export class UnwaitedWrite extends Batch {
  readonly words = new Scratch(8 * WORDS_MAX);
  isUnderWay = false;
  readonly #completed: (write: UnwaitedWrite) => void;

  constructor(completed: (write: UnwaitedWrite) => void) {
    super();
    this.#completed = completed;
  }

  /** A failure is left to the next verb: a WRITE is lost only with its client's connections. */
  completed(_error: unknown): void {
    if (!this.isUnderWay) return;
    this.isUnderWay = false;
    this.#completed(this);
  }
}
