import type { Access } from '../../records/times.ts';

/** Bits of the experts that would have evicted a record. */
export const LRU = 1;
export const LFU = 2;
export type Expert = typeof LRU | typeof LFU;

/** How fast weights change; found by `npm run lab -- hit-rates`. */
const LEARNING_RATE = 0.02;
/** No expert has less: it is asked now and then, so that a change of the pattern is noticed. */
const WEIGHT_MIN = 0.01;
/** Regret of an eviction that is as old as the history is long; LeCaR's constant. */
const OLDEST_REGRET = 0.005;

/** Whether record a was used longer ago than b. */
export function isLessRecent(a: Access, b: Access): boolean {
  return a.ticks < b.ticks;
}

/** Whether record a was used less often than b, or as often and longer ago. */
export function isLessFrequent(a: Access, b: Access): boolean {
  return a.uses < b.uses || (a.uses === b.uses && a.ticks < b.ticks);
}

/**
 * The weight of two experts, LRU and LFU, of which the adaptive eviction asks one by chance each
 * time. When a key comes back that an expert has had evicted a short time ago, that expert loses
 * weight: the regret. Ditto (section 4.3) and LeCaR (Vietri et al., HotStorage 2018) do the same,
 * but do not divide. Here the regret is divided by the weight with which the expert was asked, as
 * in EXP3 (Auer et al., 2002). A bad expert that is rarely asked is rarely to blame. So without the
 * division both stay in use, and LFU loses what it knows of hot keys.
 */
export class Experts {
  #lru = 0.5;

  /** The share of evictions that LRU decides. */
  get lruWeight(): number {
    return this.#lru;
  }

  choose(chance: number): Expert {
    return chance < this.#lru ? LRU : LFU;
  }

  /**
   * A key comes back that `experts` had evicted, `age` evictions ago of the `length` that the
   * history remembers. Returns each expert's regret, for the clients' sums.
   */
  regret(experts: number, age: number, length: number): { lru: number; lfu: number } {
    const regret = OLDEST_REGRET ** (age / length);
    const lru = (experts & LRU) === 0 ? 0 : regret / this.#lru;
    const lfu = (experts & LFU) === 0 ? 0 : regret / (1 - this.#lru);
    this.learn(lru, lfu);
    return { lru, lfu };
  }

  /** Takes regrets over, this client's or those of others. */
  learn(lru: number, lfu: number): void {
    const kept = this.#lru * Math.exp(-LEARNING_RATE * lru);
    const other = (1 - this.#lru) * Math.exp(-LEARNING_RATE * lfu);
    const share = kept / (kept + other);
    // Both may have shrunk to nothing when much is taken over at once.
    const sane = Number.isNaN(share) ? 0.5 : share;
    this.#lru = Math.min(1 - WEIGHT_MIN, Math.max(WEIGHT_MIN, sane));
  }
}
