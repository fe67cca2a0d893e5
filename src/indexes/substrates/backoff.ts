import { StepwellError } from '../../errors.ts';
import type { Operation, Scratch } from '../../verbs/index.ts';
import type { Request } from './request.ts';

/** Conflicts in a row after which an operation gives up: within half a second of pauses. */
const ATTEMPTS_MAX = 1200;
const ATTEMPTS_WITHOUT_PAUSE = 16;
const PAUSE_MICROSECONDS_MAX = 500;
/** Another client changes what is in the way within this many attempts: a tenth of a second. */
const ATTEMPTS_PER_LOOK = 250;

/**
 * Counts a retry and, when conflicts persist, lets the others get ahead. Bounded.
 *
 * A conflict is a change: no index here waits for an idle client, and this client completes what a
 * dead one left half done. If the slots that the operation reads stay the same, bit for bit, over
 * hundreds of attempts, no client is in its way: the slots contradict each other. Raises
 * SW_POOL_CORRUPT for such damage, and SW_CONTENTION when other clients are always faster.
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
 * Every ATTEMPTS_PER_LOOK attempts, compares what the operation has read behind `from` with what it
 * had read at the last comparison. Raises SW_POOL_CORRUPT if nothing changed.
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
