import { StepwellError } from '../errors.ts';
import { unlessAborted } from '../store/abortable.ts';
import { checkOptions } from '../store/arguments.ts';
import type { Decide, StateChange } from '../store/internal-calls.ts';
import { type AnyStore, checkName, checkPositive, promised, synchronous } from './host.ts';
import { Waiting, type WaitOptions } from './waiting.ts';

/** A limiter's answer to a request. */
export interface Verdict {
  /** Whether the request is within the limit. If not, it was not counted. */
  allowed: boolean;
  /** How much more would be allowed now. */
  remaining: number;
  /** Milliseconds until the same request would be allowed; 0 if it was allowed. */
  retryMs: number;
}

/** A limit for each key, which all clients of the store share. */
export interface Limiter {
  /** Asks for `cost` (1) on behalf of a key. One atomic change; a refusal changes nothing. */
  take(key: string, cost?: number): Promise<Verdict>;
  /** As `take`. SW_UNSUPPORTED over a network. */
  takeSync(key: string, cost?: number): Verdict;
  /**
   * Waits until it is allowed; of several that wait any may be next.
   *
   * @throws StepwellError SW_TIMEOUT after `waitMs`, SW_ABORTED; SW_INVALID_ARGUMENT for a cost
   *   that is never allowed.
   */
  wait(key: string, cost?: number, options?: WaitOptions): Promise<Verdict>;
}

/** Options of `fixedWindow`. */
export interface FixedWindowOptions {
  /** How much is allowed in a window. */
  limit: number;
  /** Milliseconds of a window, which begins with the first request in it. */
  windowMs: number;
}

/**
 * Allows `limit` in each window: as much as twice that around its end.
 *
 *   state [count, until]: CAS to [count + cost, until] if that is within the limit, and to
 *   [cost, now + windowMs] when `until` has passed. A client that dies has counted or has not.
 */
export function fixedWindow(store: AnyStore, options: FixedWindowOptions): Limiter {
  checkOptions(options, ['limit', 'windowMs']);
  const { limit, windowMs } = options;
  checkPositive('limit', limit);
  checkPositive('windowMs', windowMs);
  const rule: Rule = {
    kind: 'window',
    most: limit,
    beginOf: ([, until]) => until - windowMs,
    take: (state, now, cost) => takeInWindow(state, now, cost, limit, windowMs),
  };
  return new StoreLimiter(store, rule);
}

export function takeInWindow(
  state: unknown,
  now: number,
  cost: number,
  limit: number,
  windowMs: number,
): StateChange<Verdict> {
  const [found, until] = pairIn(state) ?? [0, 0];
  const isOpen = until > now;
  const count = isOpen ? found : 0;
  const end = isOpen ? until : now + windowMs;
  const remaining = Math.max(0, limit - count);
  if (count + cost > limit) {
    return { result: { allowed: false, remaining, retryMs: Math.max(0, end - now) } };
  }
  const result = { allowed: true, remaining: remaining - cost, retryMs: 0 };
  return { result, next: [count + cost, end], keepUntil: end };
}

/** Options of `tokenBucket`. */
export interface TokenBucketOptions {
  /** How much is allowed at once. */
  capacity: number;
  /** How much of the capacity is refilled in a second. */
  refillPerSecond: number;
}

/**
 * Allows `refillPerSecond` on and on, and up to `capacity` at once.
 *
 *   state [tokens, at]: CAS to [tokens + what came back since `at` - cost, now], if that is not
 *   below 0. `at` never goes back: a client whose clock is ahead brings back what is due earlier,
 *   once; for the others time goes on from there. A client that dies has taken or has not.
 */
export function tokenBucket(store: AnyStore, options: TokenBucketOptions): Limiter {
  checkOptions(options, ['capacity', 'refillPerSecond']);
  const { capacity, refillPerSecond } = options;
  checkPositive('capacity', capacity);
  checkPositive('refillPerSecond', refillPerSecond);
  const rule: Rule = {
    kind: 'bucket',
    most: capacity,
    beginOf: ([, at]) => at,
    take: (state, now, cost) => takeFromBucket(state, now, cost, capacity, refillPerSecond),
  };
  return new StoreLimiter(store, rule);
}

export function takeFromBucket(
  state: unknown,
  now: number,
  cost: number,
  capacity: number,
  refillPerSecond: number,
): StateChange<Verdict> {
  const [left, since] = pairIn(state) ?? [capacity, now];
  const at = Math.max(now, since);
  const perMs = refillPerSecond / 1000;
  const tokens = Math.min(capacity, left + (at - since) * perMs);
  if (tokens < cost) {
    const retryMs = Math.ceil((cost - tokens) / perMs) + (at - now);
    return { result: { allowed: false, remaining: Math.floor(tokens), retryMs } };
  }
  const rest = tokens - cost;
  const result = { allowed: true, remaining: Math.floor(rest), retryMs: 0 };
  // A bucket that is full again is as good as none.
  return { result, next: [rest, at], keepUntil: at + Math.ceil((capacity - rest) / perMs) };
}

/** Two numbers. Raises SW_UNDECODABLE. */
function pairIn(state: unknown): readonly [number, number] | undefined {
  if (state === undefined) return undefined;
  const [one, two, ...rest] = Array.isArray(state) ? state : [];
  if (Number.isFinite(one) && Number.isFinite(two) && rest.length === 0) return [one, two];
  throw new StepwellError('SW_UNDECODABLE', 'a limiter has a state that is none');
}

/** A kind of limiter and its parameters. */
interface Rule {
  readonly kind: string;
  /** A higher cost is never allowed. */
  readonly most: number;
  /** The time at which a state begins. */
  beginOf(state: readonly [number, number]): number;
  take(state: unknown, now: number, cost: number): StateChange<Verdict>;
}

/** How many keys a limiter remembers whose states are ahead of its clock. */
const AHEAD_MAX = 1000;

/**
 * The time by which a limiter judges a key. If a client's clock is ahead, its state begins in the
 * other clients' future. For them the state begins when they first see it, and its time runs on
 * from there. So a window lasts no longer than it would have, and clients whose clocks differ still
 * share one limit.
 */
class KeyTimes {
  readonly #ahead = new Map<string, { begin: number; seen: number }>();

  /** The time of a state that began then, when the clock says `now`. */
  at(key: string, begin: number, now: number): number {
    if (begin <= now) {
      this.#ahead.delete(key);
      return now;
    }
    const known = this.#ahead.get(key);
    if (known?.begin === begin) return begin + Math.max(0, now - known.seen);
    this.#ahead.delete(key);
    const [oldest] = this.#ahead.keys();
    if (this.#ahead.size >= AHEAD_MAX) this.#ahead.delete(oldest);
    this.#ahead.set(key, { begin, seen: now });
    return begin;
  }
}

class StoreLimiter implements Limiter {
  readonly #store: AnyStore;
  readonly #rule: Rule;
  readonly #times = new KeyTimes();

  constructor(store: AnyStore, rule: Rule) {
    promised(store);
    this.#store = store;
    this.#rule = rule;
  }

  async take(key: string, cost = 1): Promise<Verdict> {
    const decide = this.#asking(key, cost);
    return promised(this.#store).changeState(`${this.#rule.kind}:${key}`, decide);
  }

  takeSync(key: string, cost = 1): Verdict {
    const decide = this.#asking(key, cost);
    return synchronous(this.#store).changeState(`${this.#rule.kind}:${key}`, decide);
  }

  async wait(key: string, cost = 1, options: WaitOptions = {}): Promise<Verdict> {
    checkOptions(options, ['waitMs', 'signal']);
    const waiting = new Waiting(`the limit of ${key}`, options);
    const { most } = this.#rule;
    if (cost > most) {
      const why = `a cost of ${cost} is never allowed: the limit is ${most}`;
      throw new StepwellError('SW_INVALID_ARGUMENT', why);
    }
    for (;;) {
      const verdict = await unlessAborted('the wait', options.signal, () => this.take(key, cost));
      if (verdict.allowed) return verdict;
      await waiting.pause(verdict.retryMs);
    }
  }

  #asking(key: string, cost: number): Decide<Verdict> {
    checkName(key);
    checkPositive('cost', cost);
    return (state, { now }) => {
      const time = this.#timeOf(key, state, now);
      const change = this.#rule.take(state, time, cost);
      // A state that follows one in the future begins now, not when it is seen again.
      if (time > now) this.#timeOf(key, change.next, now);
      return change;
    };
  }

  #timeOf(key: string, state: unknown, now: number): number {
    const pair = pairIn(state);
    return pair === undefined ? now : this.#times.at(key, this.#rule.beginOf(pair), now);
  }
}
