/** Which records of a bounded store go when it is full; see `OpenOptions`. */
export type Eviction = 'none' | 'lru' | 'lfu' | 'adaptive';

/** Their order is that of the numbers by which a pool has them. */
export const EVICTIONS: readonly Eviction[] = ['none', 'lru', 'lfu', 'adaptive'];
