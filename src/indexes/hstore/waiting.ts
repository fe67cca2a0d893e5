import { StepwellError } from '../../errors.ts';
import { control } from '../../pool/control.ts';
import type { Operation } from '../../verbs/index.ts';
import { type Holder, type Lease, Stillness } from './lease.ts';
import { localPauseAfter, type Patience, pauseAfter } from './patience.ts';

/** So many times longer than a server may stand still does a client wait without any progress. */
const LAPSES = 3;

/** Who comes by one door cannot stand in for a server that came by another one. */
const OTHER_DOOR =
  '; it reaches the pool by another door than this client (a file, a network, another pid' +
  ' namespace): start an index-server at that one, which can take its place';

/**
 * One client's waiting for the server of a role: bounded, with a look now and then whether the
 * server is still there, and an end to one that stands still.
 */
export class Waiting {
  readonly #lease: Lease;
  readonly #patience: Patience;
  readonly #what: string;
  readonly #stillness = new Stillness();
  #polls = 0;
  #still = 0;
  fences = 0;

  /** `what` is what a client is told that waited in vain. */
  constructor(lease: Lease, patience: Patience, what: string) {
    this.#lease = lease;
    this.#patience = patience;
    this.#what = what;
  }

  /** Whether it is time to look, which costs more than a poll, for a holder that is gone. */
  get isTime(): boolean {
    return this.#polls % this.#patience.polls === 0;
  }

  /** Counts a poll. */
  pass(): void {
    this.#polls++;
  }

  /** `pass` and `check`. */
  *poll(holder: Holder, progress: number): Operation<void> {
    this.pass();
    yield* this.check(holder, progress);
  }

  /**
   * After a look at the holder, and at all that it would have changed: fences one that stands
   * still. Raises SW_TIMEOUT, or SW_NO_PRIMARY when nobody is elected.
   */
  *check(holder: Holder, progress: number): Operation<void> {
    const { lapse, pollsMax } = this.#patience;
    const still = this.#stillness.look(holder.word, progress, this.#polls);
    this.#still = still;
    if (this.#polls > pollsMax || still > LAPSES * lapse) throw yield* this.#inVain(holder);
    const { client, yields } = holder;
    const isOther = client !== 0 && client !== this.#lease.own && !yields;
    if (isOther && still >= lapse && this.isTime) {
      this.fences++;
      yield* this.#lease.fence(holder);
    }
  }

  /** The holder as of the last look, and whether it stands still long enough to be overtaken. */
  seen(holder: Holder): Holder {
    return { ...holder, stands: this.#still >= this.#patience.stand };
  }

  /** How long to wait until the next poll, in microseconds. */
  get pause(): number {
    return pauseAfter(this.#polls, this.#patience);
  }

  /** How long to wait until the next look at what this client does itself, or has read already. */
  get localPause(): number {
    return localPauseAfter(this.#polls, this.#patience);
  }

  /** `poll`, and the pause after it. */
  *turn(holder: Holder, progress: number): Operation<void> {
    yield* this.poll(holder, progress);
    yield* this.rest();
  }

  rest(): Operation<void> {
    return control.pause(this.pause);
  }

  *#inVain(holder: Holder): Operation<StepwellError> {
    const { client, token } = holder;
    if (client === 0 && token !== 0) {
      return new StepwellError('SW_NO_PRIMARY', `no server is elected: ${this.#what}`);
    }
    const elsewhere = client !== 0 && (yield* this.#lease.isOutOfSight(holder)) ? OTHER_DOOR : '';
    const what = `the server did not answer in time: ${this.#what}${elsewhere}`;
    return new StepwellError('SW_TIMEOUT', what);
  }
}
