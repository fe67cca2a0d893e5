import {
  type IRateLimiterStoreOptions,
  RateLimiterMemcache,
  RateLimiterRes,
  type RateLimiterStoreAbstract,
} from 'rate-limiter-flexible';
import type { AnyStore } from '../../helpers/host.ts';
import type { AsyncStore } from '../../store/api.ts';
import { spaceOf } from '../space.ts';

/** What the library's stores extend. The library exports its type, but not the class. */
const StoreAbstract: typeof RateLimiterStoreAbstract = Object.getPrototypeOf(RateLimiterMemcache);

/** Options of `RateLimiterStepwell`: those of every store of rate-limiter-flexible. */
export interface StepwellLimiterOptions extends Omit<IRateLimiterStoreOptions, 'storeClient'> {
  /** Any store or namespace. The caller closes it. */
  storeClient: AnyStore;
}

/** A key's points and when they expire. */
interface Points {
  readonly consumed: number;
  /** Whether the key had no points before. Points that were given back count as none. */
  readonly isFirst: boolean;
  /** Infinity for never. */
  readonly ttlMs: number;
}

/**
 * A limiter of rate-limiter-flexible: `new RateLimiterStepwell({ storeClient: store, points: 10,
 * duration: 1 })`. All workers, processes and machines share its points. Consuming is one atomic
 * operation; a duration begins with the first points of a key and expires in the store.
 */
export class RateLimiterStepwell extends StoreAbstract {
  readonly #points: AsyncStore;

  /** @throws StepwellError SW_INVALID_ARGUMENT if `storeClient` is not a store. */
  constructor(options: StepwellLimiterOptions) {
    super(options);
    // Keys have the limiter's `keyPrefix` already.
    const format = { values: 'utf8', sliding: false } as const;
    this.#points = spaceOf<string | Uint8Array>(options.storeClient, '', format);
  }

  /** @internal */
  async _upsert(
    key: string,
    points: number,
    durationMs: number,
    replaces = false,
  ): Promise<Points> {
    const ttlMs = durationMs > 0 ? durationMs : Number.POSITIVE_INFINITY;
    if (replaces) {
      await this.#points.set(key, String(points), { ttlMs });
      return { consumed: points, isFirst: true, ttlMs };
    }
    const added = await this.#points.incrementWithin(key, points, { ttlMs });
    return { consumed: added.value, isFirst: added.value === points, ttlMs: added.ttlMs };
  }

  /** @internal */
  async _get(key: string): Promise<Points | null> {
    // Every count is above this maximum, so the call changes nothing and returns the count.
    const max = Number.MIN_SAFE_INTEGER;
    const { value, ttlMs } = await this.#points.incrementWithin(key, 0, { max });
    const mayBeAbsent = value === 0 && ttlMs === Number.POSITIVE_INFINITY;
    if (mayBeAbsent && !(await this.#points.has(key))) return null;
    return { consumed: value, isFirst: false, ttlMs };
  }

  /** @internal */
  _delete(key: string): Promise<boolean> {
    return this.#points.delete(key);
  }

  /** @internal */
  _getRateLimiterRes(_key: string, _added: number, points: Points): RateLimiterRes {
    const { consumed, isFirst, ttlMs } = points;
    const left = Math.max(this.points - consumed, 0);
    // The library's sign for "never".
    const msBeforeNext = ttlMs === Number.POSITIVE_INFINITY ? -1 : ttlMs;
    return new RateLimiterRes(left, msBeforeNext, consumed, isFirst);
  }
}
