import { inspect } from 'node:util';
import { StepwellError } from '../errors.ts';

/** Measures how long a client waits for others. */
export interface Timer {
  /** Milliseconds; never goes back. */
  now: () => number;
}

/** Wall-clock time, by which records expire, and chance, by which they are evicted. */
export interface Clock {
  /** Milliseconds since 1970. */
  now: () => number;
  /** A uniformly distributed number of [0, 1). */
  chance: () => number;
}

/** A time below this plus the longest time to live fits a record. */
const NOW_MAX = 2 ** 47;

/**
 * The clock of a pool, which may be a caller's. Protocols ask it in the middle of their steps,
 * where an error would leave their work half done. So a bad value is replaced there, and
 * `refuseFault` raises the error where no step is under way.
 */
export class PoolClock implements Clock {
  now: () => number = Date.now;
  chance: () => number = Math.random;
  #fault: StepwellError | undefined;

  /** Uses the caller's functions from now on. */
  use({ clock, chance }: { clock?: () => number; chance?: () => number }): void {
    if (clock) this.now = this.#checked('clock', clock, NOW_MAX, Date.now);
    if (chance) this.chance = this.#checked('chance', chance, 1, Math.random);
  }

  /** Raises SW_INVALID_ARGUMENT, once, when a caller's function has returned a bad value. */
  refuseFault(): void {
    if (this.#fault === undefined) return;
    const fault = this.#fault;
    this.#fault = undefined;
    throw fault;
  }

  /** The caller's function, or `instead` where its result is not a number of [0, end). */
  #checked(name: string, ask: () => number, end: number, instead: () => number): () => number {
    const note = (what: string, cause?: unknown) => {
      const remedy = `it has to return numbers of [0, ${end}), as ${instead.name} does`;
      const message = `the option ${name} ${what}: ${remedy}`;
      this.#fault ??= new StepwellError('SW_INVALID_ARGUMENT', message, { cause });
      return instead();
    };
    return () => {
      let value: number;
      try {
        value = ask();
      } catch (cause) {
        return note('threw an error', cause);
      }
      const isFine = typeof value === 'number' && value >= 0 && value < end;
      return isFine ? value : note(`returned ${inspect(value, { depth: 0 })}`);
    };
  }
}
