import { StepwellError } from '../../../errors.ts';
import type { Operation } from '../../../verbs/index.ts';
import { type Holder, type Lease, Stillness } from './lease.ts';

/** How long a client waits for a server process's answer before it polls. */
export const AWAIT_MICROSECONDS = 20_000;
/** The first polls have no pause, because on one machine the answer comes soon. */
const POLLS_WITHOUT_PAUSE = 32;
/** After this many polls the answer will take long anyway. */
const POLLS_BEFORE_LONG_PAUSES = 2000;

/**
 * How long a client waits for the server's answer:
 *
 *   polls             polls between two checks that the server is still alive
 *   stand             polls without progress after which a client may overtake a yielding server
 *   lapse             polls without progress after which a client fences any other server
 *   pollsMax          polls for an answer after which the client gives up
 *   waitsMax          polls for a free row of a mailbox after which it gives up
 *   microseconds      pause between two polls, except the first ones
 *   longMicroseconds  pause after many polls
 */
export type Patience = Readonly<
  Record<
    'polls' | 'stand' | 'lapse' | 'pollsMax' | 'waitsMax' | 'microseconds' | 'longMicroseconds',
    number
  >
>;

/**
 * Long pauses make polls a measure of time: 5000 take at least 3 seconds on every fabric. A client
 * waits for a row longer than it takes to fence a server, because that may have to come first.
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

/** A client gives up after this many times `lapse` polls without the server's progress. */
const LAPSES = 3;

/** A client cannot take the place of a server whose death it cannot see. */
const OUT_OF_SIGHT =
  '; it attached to the pool in another way than this client (file, network or pid namespace):' +
  ' start an index-server that attaches as it did, which can take its place';

/**
 * A client's bounded wait for the server of a role. From time to time it checks whether the server
 * is still alive, and it fences a server that makes no progress.
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

  /** Whether to check now that the holder is alive, which costs more than a poll. */
  get isTime(): boolean {
    return this.#polls % this.#patience.polls === 0;
  }

  /**
   * Counts a poll that has read the holder and its progress. Fences a holder that makes none for
   * too long. Raises SW_TIMEOUT, or SW_NO_PRIMARY when no server is elected.
   */
  *poll(holder: Holder, progress: number): Operation<void> {
    const { lapse, pollsMax } = this.#patience;
    this.#polls++;
    const still = this.#stillness.look(holder.word, progress, this.#polls);
    this.#still = still;
    if (this.#polls > pollsMax || still > LAPSES * lapse) throw yield* this.#inVain(holder);
    if (this.isTime) yield* this.#lease.refuseUnelected(holder);
    const mayFence = this.#lease.isTaken(holder) && !holder.yields;
    if (mayFence && still >= lapse && this.isTime) {
      this.fences++;
      yield* this.#lease.fence(holder);
    }
  }

  /** The holder, with whether it has made no progress for long enough to be overtaken. */
  seen(holder: Holder): Holder {
    return { ...holder, stands: this.#still >= this.#patience.stand };
  }

  /** How long to wait until the next poll, in microseconds. */
  get pause(): number {
    return pauseAfter(this.#polls, this.#patience);
  }

  /** How long to pause while another operation of this client reads the server's state for both. */
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
