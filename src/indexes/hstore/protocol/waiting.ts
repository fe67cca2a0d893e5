import { StepwellError } from '../../../errors.ts';
import type { Operation } from '../../../verbs/index.ts';
import { type Holder, type Lease, Stillness } from './lease.ts';

/** Polls without a pause: on one machine the answer comes soon. */
const POLLS_WITHOUT_PAUSE = 32;
/** After this many polls the answer is known to take long. */
const POLLS_BEFORE_LONG_PAUSES = 2000;

/**
 * How long a client waits for the server's answer:
 *
 *   polls             polls between two looks whether the server is still there
 *   stand             polls without progress after which a server that yields is overtaken
 *   lapse             polls without progress after which a server stands still and is fenced
 *   pollsMax          polls after which the client gives up
 *   waitsMax          looks for a row of a mailbox after which it gives up
 *   microseconds      pause between two polls, except the first ones
 *   longMicroseconds  the same after many polls
 */
export type Patience = Readonly<
  Record<
    'polls' | 'stand' | 'lapse' | 'pollsMax' | 'waitsMax' | 'microseconds' | 'longMicroseconds',
    number
  >
>;

/**
 * Long pauses measure the time: 5000 polls take at least 3 seconds on every fabric. A client waits
 * longer for a row than for an answer: a server may have to be fenced before the row is free.
 */
export const PATIENCE: Patience = {
  polls: 64,
  stand: 256,
  lapse: 5000,
  pollsMax: 60_000,
  waitsMax: 20_000,
  microseconds: 200,
  longMicroseconds: 1000,
};

/** The pause after this many polls. */
export function pauseAfter(poll: number, { microseconds, longMicroseconds }: Patience): number {
  if (poll < POLLS_WITHOUT_PAUSE) return 0;
  return poll < POLLS_BEFORE_LONG_PAUSES ? microseconds : longMicroseconds;
}

/** A client waits this many times longer without progress than a server may stand still. */
const LAPSES = 3;

/** A client cannot take the place of a server whose death it cannot see. */
const OUT_OF_SIGHT =
  '; it reaches the pool in another way than this client (a file, a network, another pid' +
  ' namespace): start an index-server that attaches as it did, which can take its place';

/**
 * One client's waiting for the server of a role. The wait is bounded, checks now and then whether
 * the server is still there, and fences a server that stands still.
 */
export class Waiting {
  readonly #lease: Lease;
  readonly #patience: Patience;
  readonly #what: string;
  readonly #stillness = new Stillness();
  #polls = 0;
  #still = 0;
  fences = 0;

  /** `what` ends the message when the wait fails. */
  constructor(lease: Lease, patience: Patience, what: string) {
    this.#lease = lease;
    this.#patience = patience;
    this.#what = what;
  }

  /** Whether it is time to look, which costs more than a poll, for a holder that is gone. */
  get isTime(): boolean {
    return this.#polls % this.#patience.polls === 0;
  }

  /**
   * Counts a poll: a look at the holder, and at all that it would have changed. Fences one that
   * stands still. Raises SW_TIMEOUT, or SW_NO_PRIMARY when no server is elected.
   */
  *poll(holder: Holder, progress: number): Operation<void> {
    const { lapse, pollsMax } = this.#patience;
    this.#polls++;
    const still = this.#stillness.look(holder.word, progress, this.#polls);
    this.#still = still;
    if (this.#polls > pollsMax || still > LAPSES * lapse) throw yield* this.#inVain(holder);
    if (this.isTime) yield* this.#lease.refuseUnelected(holder);
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
    return this.#polls < POLLS_BEFORE_LONG_PAUSES ? 0 : this.#patience.longMicroseconds;
  }

  *#inVain(holder: Holder): Operation<StepwellError> {
    const { client, token } = holder;
    if (client === 0 && token !== 0) {
      return new StepwellError('SW_NO_PRIMARY', `no server is elected: ${this.#what}`);
    }
    const elsewhere = client !== 0 && (yield* this.#lease.isOutOfSight(holder)) ? OUT_OF_SIGHT : '';
    const late = `the server did not answer in time: ${this.#what}${elsewhere}`;
    return new StepwellError('SW_TIMEOUT', late);
  }
}
