import { setTimeout } from 'node:timers/promises';
import { StepwellError } from '../errors.ts';
import { refuseAborted } from '../store/abortable.ts';
import { invalid, shown } from '../store/arguments.ts';

const FIRST_PAUSE_MS = 1;
const LAST_PAUSE_MS = 50;
/** A timer for longer would fire at once. */
export const TIMER_MAX_MS = 2_147_483_647;

/** How long a helper waits for other clients. */
export interface WaitOptions {
  /** How long to wait, in milliseconds; 0 for not at all. Default: for ever. */
  waitMs?: number;
  /** Ends the wait: it raises SW_ABORTED with the signal's reason as `cause`. */
  signal?: AbortSignal;
}

/** Waits for other clients by looking again, less and less often. */
export class Waiting {
  readonly #what: string;
  readonly #signal: AbortSignal | undefined;
  readonly #end: number;
  #pause = FIRST_PAUSE_MS;

  /** Raises SW_INVALID_ARGUMENT and SW_ABORTED. */
  constructor(what: string, { waitMs = Number.POSITIVE_INFINITY, signal }: WaitOptions) {
    if (typeof waitMs !== 'number' || !(waitMs >= 0)) {
      throw invalid(`waitMs is 0 or more, in milliseconds: ${shown(waitMs)}`);
    }
    refuseAborted('the wait', signal);
    this.#what = what;
    this.#signal = signal;
    this.#end = performance.now() + waitMs;
  }

  /** Waits until the next look, at most `soonestMs`. Raises SW_TIMEOUT and SW_ABORTED. */
  async pause(soonestMs: number = Number.POSITIVE_INFINITY): Promise<void> {
    const left = this.#end - performance.now();
    if (left <= 0) {
      throw new StepwellError('SW_TIMEOUT', `${this.#what}: waited in vain`);
    }
    await pauseFor(Math.min(this.#pause, Math.max(1, soonestMs), left), this.#signal);
    this.#pause = Math.min(2 * this.#pause, LAST_PAUSE_MS);
  }
}

/** Raises SW_ABORTED. */
export async function pauseFor(ms: number, signal: AbortSignal | undefined): Promise<void> {
  try {
    await setTimeout(Math.min(ms, TIMER_MAX_MS), undefined, { signal });
  } catch {
    refuseAborted('the wait', signal);
  }
}
