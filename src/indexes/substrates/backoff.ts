import { StepwellError } from '../../errors.ts';
import type { Operation, Scratch } from '../../verbs/index.ts';
import type { Request } from './request.ts';

/** Conflicts in a row after which an operation gives up: about half a second of pauses. */
const ATTEMPTS_MAX = 1200;
const ATTEMPTS_WITHOUT_PAUSE = 16;
const PAUSE_MICROSECONDS_MAX = 500;
/** Other clients change something within this many attempts, about a tenth of a second. */
const ATTEMPTS_PER_LOOK = 250;

/**
 * Counts a retry, and pauses when conflicts persist. Bounded.
 *
 * A conflict means that another client changes something: no operation here waits for an idle
 * client, and this client completes what a dead one left unfinished. If the words that the
 * operation reads stay the same over hundreds of attempts, no client is in its way: the words
 * contradict each other. Raises SW_POOL_CORRUPT for such damage, and SW_CONTENTION if other clients
 * are always faster.
 */
export function* backOff<R extends string>(
  retries: Record<R, number>,
  request: Request,
  reason: R,
  attempt: number,
): Operation<void> {
  retries[reason]++;
  if (attempt < ATTEMPTS_WITHOUT_PAUSE) return;
  lookForChange(request, reason, attempt);
  if (attempt >= ATTEMPTS_MAX) {
    const reasons = JSON.stringify(retries);
    throw new StepwellError('SW_CONTENTION', `gave up after ${attempt} attempts: ${reasons}`);
  }
  const pause = Math.min(PAUSE_MICROSECONDS_MAX, attempt);
  yield request.batch.clear().pause(pause, request.words);
}

/**
 * Every ATTEMPTS_PER_LOOK attempts, compares the request's words from offset `from` on with those
 * of the last comparison. Raises SW_POOL_CORRUPT if they are the same.
 */
export function lookForChange(request: Request, reason: string, attempt: number, from = 0): void {
  if (attempt === 0 || attempt % ATTEMPTS_PER_LOOK !== 0) return;
  const sum = sumOf(request.words, from);
  if (attempt > ATTEMPTS_PER_LOOK && sum === request.wordsSum) {
    const what = `nothing has changed over ${ATTEMPTS_PER_LOOK} attempts (${reason})`;
    throw new StepwellError('SW_POOL_CORRUPT', `the index contradicts itself: ${what}`);
  }
  request.wordsSum = sum;
}

/** 32-bit FNV-1a, by words. */
function sumOf({ i32 }: Scratch, from: number): number {
  let sum = 0x811c9dc5;
  for (let i = from >> 2; i < i32.length; i++) sum = Math.imul(sum ^ i32[i], 0x01000193);
  return sum;
}
