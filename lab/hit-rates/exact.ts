import { LRUCache } from 'lru-cache';

/** A cache whose hits are counted: a request that misses brings its key in. */
export interface CountedCache {
  /** Whether the key was there. */
  request(key: number): boolean;
}

/** Exact LRU: a Map keeps its keys in the order in which they were put. */
export class ExactLru implements CountedCache {
  readonly #keys = new Map<number, true>();
  readonly #capacity: number;

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  request(key: number): boolean {
    const isHit = this.#keys.delete(key);
    if (!isHit && this.#keys.size >= this.#capacity) {
      this.#keys.delete(this.#keys.keys().next().value as number);
    }
    this.#keys.set(key, true);
    return isHit;
  }
}

/**
 * Exact LFU: the key goes that was requested least often since it came, of those the one whose last
 * request is the longest ago. A list of keys for each frequency.
 */
export class ExactLfu implements CountedCache {
  readonly #frequencies = new Map<number, number>();
  readonly #byFrequency = new Map<number, Set<number>>();
  readonly #capacity: number;
  #least = 1;

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  request(key: number): boolean {
    const frequency = this.#frequencies.get(key);
    if (frequency !== undefined) {
      this.#remove(key, frequency);
      this.#put(key, frequency + 1);
      return true;
    }
    if (this.#frequencies.size >= this.#capacity) this.#evict();
    this.#put(key, 1);
    this.#least = 1;
    return false;
  }

  #evict(): void {
    while (!this.#byFrequency.has(this.#least)) this.#least++;
    const [victim] = this.#byFrequency.get(this.#least) as Set<number>;
    this.#remove(victim, this.#least);
    this.#frequencies.delete(victim);
  }

  #put(key: number, frequency: number): void {
    this.#frequencies.set(key, frequency);
    const keys = this.#byFrequency.get(frequency) ?? new Set();
    this.#byFrequency.set(frequency, keys.add(key));
  }

  #remove(key: number, frequency: number): void {
    const keys = this.#byFrequency.get(frequency) as Set<number>;
    keys.delete(key);
    if (keys.size === 0) this.#byFrequency.delete(frequency);
  }
}

/** What a service has in each of its processes today. */
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
