import { StepwellError } from '../../errors.ts';
import { control } from '../../pool/control.ts';
import type { Operation } from '../../verbs/index.ts';
import { type Patience, pauseAfter } from './patience.ts';

/** An operation's waiting for another one of the same client: bounded by that one's progress. */
export class OwnWaiting {
  readonly #patience: Patience;
  readonly #what: string;
  #polls = 0;
  #progress: number | undefined;
  #since = 0;

  /** `what` is what a caller is told that waited in vain. */
  constructor(patience: Patience, what: string) {
    this.#patience = patience;
    this.#what = what;
  }

  /** Lets time pass. Raises SW_TIMEOUT when the progress has been the same for too long. */
  *pause(progress: number): Operation<void> {
    if (progress !== this.#progress) this.#since = this.#polls;
    this.#progress = progress;
    if (this.#polls - this.#since > this.#patience.pollsMax) {
      throw new StepwellError('SW_TIMEOUT', this.#what);
    }
    yield* control.pause(pauseAfter(this.#polls++, this.#patience));
  }
}
