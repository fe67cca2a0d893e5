import { LRUCache } from 'lru-cache';
import { historyBitsFor } from '../../src/pool/bound.ts';
import { Prng } from '../../src/random/prng.ts';
import type { Eviction } from '../../src/store/api.ts';
import { Experts, LFU, LRU } from '../../src/store/eviction/experts.ts';
import type { Trace } from './traces.ts';

/** A cache whose hits are counted. A request that misses inserts its key. */
interface CountedCache {
  /** Whether the key was there. */
  request(key: number): boolean;
}

/** An eviction order with full knowledge of every use of every key. */
interface Order {
  /** The key to evict next. The cache is not empty. */
  readonly victim: number;
  /** Records a use of a key, which may be new. */
  use(key: number): void;
  remove(key: number): void;
}

/** Least recently used first: a Map keeps its keys in insertion order. */
class Recency implements Order {
  readonly #keys = new Map<number, true>();

  get victim(): number {
    return this.#keys.keys().next().value as number;
  }

  use(key: number): void {
    this.#keys.delete(key);
    this.#keys.set(key, true);
  }

  remove(key: number): void {
    this.#keys.delete(key);
  }
}

/**
 * Evicts the key with the fewest requests since it was inserted; among several, the least recently
 * used. It keeps a list of keys for each frequency.
 */
class Frequency implements Order {
  readonly #frequencies = new Map<number, number>();
  readonly #byFrequency = new Map<number, Set<number>>();
  #least = 1;

  get victim(): number {
    while (!this.#byFrequency.get(this.#least)?.size) this.#least++;
    return this.#byFrequency.get(this.#least)?.values().next().value as number;
  }

  use(key: number): void {
    const frequency = (this.#frequencies.get(key) ?? 0) + 1;
    this.remove(key);
    this.#frequencies.set(key, frequency);
    const keys = this.#byFrequency.get(frequency) ?? new Set();
    this.#byFrequency.set(frequency, keys.add(key));
    this.#least = Math.min(this.#least, frequency);
  }

  remove(key: number): void {
    const frequency = this.#frequencies.get(key);
    if (frequency === undefined) return;
    this.#frequencies.delete(key);
    this.#byFrequency.get(frequency)?.delete(key);
  }
}

/** Evicts by one order. */
class ExactCache implements CountedCache {
  readonly #keys = new Set<number>();
  readonly #order: Order;
  readonly #capacity: number;

  constructor(capacity: number, order: Order) {
    this.#capacity = capacity;
    this.#order = order;
  }

  request(key: number): boolean {
    const isHit = this.#keys.has(key);
    if (!isHit && this.#keys.size >= this.#capacity) {
      const { victim } = this.#order;
      this.#keys.delete(victim);
      this.#order.remove(victim);
    }
    this.#keys.add(key);
    this.#order.use(key);
    return isHit;
  }
}

class ExactLru extends ExactCache {
  constructor(capacity: number) {
    super(capacity, new Recency());
  }
}

class ExactLfu extends ExactCache {
  constructor(capacity: number) {
    super(capacity, new Frequency());
  }
}

/**
 * Adaptive eviction whose experts know every use, and whose history loses no entry early. It learns
 * its weights as the store does.
 */
class ExactAdaptive implements CountedCache {
  readonly #keys = new Set<number>();
  readonly #recency = new Recency();
  readonly #frequency = new Frequency();
  readonly #experts = new Experts();
  /** Evicted keys: the experts that named each one, and the number of its eviction. */
  readonly #history = new Map<number, { experts: number; number: number }>();
  readonly #capacity: number;
  readonly #chance: () => number;
  #evictions = 0;

  constructor(capacity: number, chance: () => number) {
    this.#capacity = capacity;
    this.#chance = chance;
  }

  request(key: number): boolean {
    const isHit = this.#keys.has(key);
    if (!isHit && this.#keys.size >= this.#capacity) {
      this.#learnFrom(key);
      this.#evict();
    }
    this.#keys.add(key);
    this.#recency.use(key);
    this.#frequency.use(key);
    return isHit;
  }

  #learnFrom(key: number): void {
    const evicted = this.#history.get(key);
    if (evicted === undefined) return;
    this.#history.delete(key);
    const age = this.#evictions - evicted.number;
    const length = 2 ** historyBitsFor({ unit: 'records', limit: this.#capacity });
    if (age <= length) this.#experts.regret(evicted.experts, age, length);
  }

  #evict(): void {
    const [lru, lfu] = [this.#recency.victim, this.#frequency.victim];
    const victim = this.#experts.choose(this.#chance) === LRU ? lru : lfu;
    const experts = (victim === lru ? LRU : 0) | (victim === lfu ? LFU : 0);
    this.#history.set(victim, { experts, number: this.#evictions++ });
    this.#keys.delete(victim);
    this.#recency.remove(victim);
    this.#frequency.remove(victim);
  }
}

/** A cache with a store's eviction policy and full knowledge of every use of every key. */
export function exactOf(eviction: Eviction, capacity: number, seed: number): CountedCache {
  if (eviction === 'lru') return new ExactLru(capacity);
  if (eviction === 'lfu') return new ExactLfu(capacity);
  const prng = Prng.fromSeed(seed);
  return new ExactAdaptive(capacity, () => prng.nextDouble());
}

/** Share of the requests that do not count, because the caches are not full yet. */
export const WARM_UP = 0.2;

/** Hits, in percent of the requests that count. */
export function hitRateOf({ requests }: Trace, cache: CountedCache): number {
  const first = Math.floor(WARM_UP * requests.length);
  let hits = 0;
  requests.forEach((key, i) => {
    if (cache.request(key) && i >= first) hits++;
  });
  return (100 * hits) / (requests.length - first);
}

/** The package lru-cache, which many services use in each process. */
export class LruPackage implements CountedCache {
  readonly #cache: LRUCache<number, true>;

  constructor(capacity: number) {
    this.#cache = new LRUCache({ max: capacity });
  }

  request(key: number): boolean {
    if (this.#cache.get(key)) return true;
    this.#cache.set(key, true);
    return false;
  }
}
