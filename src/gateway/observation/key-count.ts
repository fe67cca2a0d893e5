import type { Operation } from '../../verbs/index.ts';
import type { GatewayStore } from '../gateway-store.ts';

/** Counting takes this part of the time at most, however often INFO comes. */
const COUNTING_SHARE = 50;
/** What took less is not worth remembering, in milliseconds. */
const CHEAP_MS = 5;

/**
 * How many keys a database has, for INFO: its index is asked, and no record read. So records that
 * have expired count until they are taken out, as they do in Redis; DBSIZE is exact. Of a large
 * index the last count is told again for a while.
 */
export class KeyCount {
  #count = 0;
  #validUntil = Number.NEGATIVE_INFINITY;

  *of(store: Pick<GatewayStore, 'stats'>): Operation<number> {
    const begun = performance.now();
    if (begun < this.#validUntil) return this.#count;
    this.#count = (yield* store.stats()).records;
    const now = performance.now();
    const took = now - begun;
    if (took >= CHEAP_MS) this.#validUntil = now + COUNTING_SHARE * took;
    return this.#count;
  }
}
