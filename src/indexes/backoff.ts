import { StepwellError } from '../errors.ts';
import type { Operation } from '../verbs/index.ts';
import type { Request } from './request.ts';

/** An operation that meets so many conflicts in a row gives up with SW_CONTENTION. */
const ATTEMPTS_MAX = 10_000;
const ATTEMPTS_WITHOUT_PAUSE = 16;
const PAUSE_MICROSECONDS_MAX = 500;

/** Counts a retry and, when conflicts persist, lets the others get ahead. Bounded. */
export function* backOff<R extends string>(
  retries: Record<R, number>,
  request: Request,
  reason: R,
  attempt: number,
): Operation<void> {
  retries[reason]++;
  if (attempt >= ATTEMPTS_MAX) {
    const reasons = JSON.stringify(retries);
    throw new StepwellError('SW_CONTENTION', `gave up after ${attempt} attempts: ${reasons}`);
  }
  if (attempt < ATTEMPTS_WITHOUT_PAUSE) return;
  const pause = Math.min(PAUSE_MICROSECONDS_MAX, attempt);
  yield request.batch.clear().pause(pause, request.words);
}
