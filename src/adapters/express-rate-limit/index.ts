import type { ClientRateLimitInfo, Options, Store } from 'express-rate-limit';
import type { AnyStore } from '../../helpers/host.ts';
import type { AsyncStore, BoundedIncrement } from '../../store/api.ts';
import { checkOptions } from '../../store/arguments.ts';
import { spaceOf } from '../space.ts';

/** Options of `StepwellRateLimit`. */
export interface RateLimitOptions {
  /** Put in front of each key. Give each limiter of a store its own. Default `rate-limit:`. */
  prefix?: string;
}

/**
 * A store for express-rate-limit: `rateLimit({ store: new StepwellRateLimit(store) })`. All
 * workers, processes and machines share its counters. A hit is one atomic operation; a window
 * begins with its first hit and expires in the store.
 */
export class StepwellRateLimit implements Store {
  readonly localKeys = false;
  readonly prefix: string;
  readonly #counters: AsyncStore;
  #windowMs = 60_000;

  /**
   * @param store Any store or namespace. The caller closes it.
   * @throws StepwellError SW_INVALID_ARGUMENT, SW_INVALID_KEY.
   */
  constructor(store: AnyStore, options: RateLimitOptions = {}) {
    checkOptions(options, ['prefix']);
    const { prefix = 'rate-limit:' } = options;
    this.prefix = prefix;
    const format = { values: 'utf8', sliding: false } as const;
    this.#counters = spaceOf<string | Uint8Array>(store, prefix, format);
  }

  /** Called by express-rate-limit with the options of the middleware. */
  init({ windowMs }: Options): void {
    this.#windowMs = windowMs;
  }

  async increment(key: string): Promise<ClientRateLimitInfo> {
    return infoOf(await this.#counters.incrementWithin(key, 1, { ttlMs: this.#windowMs }));
  }

  async get(key: string): Promise<ClientRateLimitInfo | undefined> {
    // Every count is above this maximum, so the call changes nothing and returns the count.
    const found = await this.#counters.incrementWithin(key, 0, { max: -1 });
    return found.value === 0 ? undefined : infoOf(found);
  }

  async decrement(key: string): Promise<void> {
    await this.#counters.incrementWithin(key, -1, { min: 0 });
  }

  async resetKey(key: string): Promise<void> {
    await this.#counters.delete(key);
  }

  async resetAll(): Promise<void> {
    await this.#counters.clear();
  }
}

function infoOf({ value, ttlMs }: BoundedIncrement<number>): ClientRateLimitInfo {
  return { totalHits: value, resetTime: new Date(Date.now() + ttlMs) };
}
