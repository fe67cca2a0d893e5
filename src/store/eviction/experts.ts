import { invariant } from '../../errors.ts';
import type { Request } from '../../indexes/substrates/request.ts';
import type { Pool } from '../../pool/pool.ts';
import type { Access } from '../../records/times.ts';
import { type Address, Batch, type Operation, Scratch } from '../../verbs/index.ts';

/** Bits of the experts that would have evicted a record. */
export const LRU = 1;
export const LFU = 2;
export type Expert = typeof LRU | typeof LFU;

/**
 * How fast weights change: the sum of both rates at first. The extra rate falls to 1/e with each
 * EXTRA_REGRETS. Tuned by simulation on the traces of `npm run lab -- hit-rates`.
 */
const LEARNING_RATE = 0.03;
const EXTRA_RATE = 0.1;
const EXTRA_REGRETS = 200;
/** Minimum weight of an expert. It is still asked now and then, to notice a change of pattern. */
const WEIGHT_MIN = 0.01;
/** Regret of the oldest eviction that the history remembers; LeCaR's constant. */
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
 * The weights of two experts, LRU and LFU. The adaptive eviction asks one of them for each victim.
 * When a key comes back that an expert evicted recently, that expert loses weight: the regret.
 * LeCaR (Vietri et al., HotStorage 2018) and Ditto (section 4.3) do the same. What differs:
 *
 * - The regret is divided by the expert's weight, as in EXP3 (Auer et al., 2002). A bad expert that
 *   is rarely asked is rarely to blame. So without the division both stay in use, and LFU forgets
 *   the hot keys.
 * - A key that both experts would have evicted causes no regret: EXP3 would charge both the same
 *   loss, which leaves the weights unchanged.
 * - The learning rate falls. If few keys come back, a constant slow rate leaves the wrong expert in
 *   use for long, and a constant fast rate lets chance move the weights forever.
 * - The experts take turns instead of a draw for each eviction: systematic sampling (Madow, "On the
 *   theory of systematic sampling, II", Ann. Math. Stat. 20, 1949). Each is still asked with the
 *   probability that is its weight, but the number of its evictions no longer varies by chance.
 */
export class Experts {
  #lru = 0.5;
  /** Sum of all regrets learned so far. */
  #seen = 0;
  /** LRU's due share of the evictions so far, minus those it decided; starts at a random offset. */
  #due: number | undefined;

  /** The share of evictions that LRU decides. */
  get lruWeight(): number {
    return this.#lru;
  }

  choose(chance: () => number): Expert {
    this.#due = (this.#due ?? chance()) + this.#lru;
    if (this.#due < 1) return LFU;
    this.#due--;
    return LRU;
  }

  /**
   * A key comes back that `experts` would have evicted, `age` evictions ago; the history remembers
   * `length`. Learns from it, and returns each expert's regret, for the sum that clients share.
   */
  regret(experts: number, age: number, length: number): { lru: number; lfu: number } {
    const regret = OLDEST_REGRET ** (age / length);
    const lru = experts === LRU ? regret / this.#lru : 0;
    const lfu = experts === LFU ? regret / (1 - this.#lru) : 0;
    this.learn(lru, lfu);
    return { lru, lfu };
  }

  /** Adjusts the weights by regrets, of this client or of others. */
  learn(lru: number, lfu: number): void {
    const rate = this.#rateOf(lru + lfu);
    const kept = this.#lru * Math.exp(-rate * lru);
    const other = (1 - this.#lru) * Math.exp(-rate * lfu);
    const share = kept / (kept + other);
    // Both may underflow to 0 when many regrets are learned at once.
    const sane = Number.isNaN(share) ? 0.5 : share;
    this.#lru = Math.min(1 - WEIGHT_MIN, Math.max(WEIGHT_MIN, sane));
  }

  /** The mean learning rate of the next regrets, whose sum is `more`. */
  #rateOf(more: number): number {
    if (more === 0) return 0;
    const before = Math.exp(-this.#seen / EXTRA_REGRETS);
    this.#seen += more;
    const after = Math.exp(-this.#seen / EXTRA_REGRETS);
    return LEARNING_RATE + (EXTRA_RATE * EXTRA_REGRETS * (before - after)) / more;
  }
}

/**
 * The eviction history of an adaptive store: a table of words in its block, indexed by the hash of
 * the evicted key. One READ of a word looks a key up. One WRITE that no operation waits for records
 * an eviction. It overwrites an earlier one in the same word.
 *
 *   word: 32 bits of the key's hash | which experts chose it 2 | number of the eviction 30
 */
const NUMBERS = 2 ** 30;
const NUMBER_BITS = NUMBERS - 1;
const EXPERT_SHIFT = 30;

/** An eviction that is remembered. */
export interface Remembered {
  readonly experts: number;
  /** Evictions since. */
  readonly age: number;
}

/** What tells a key from others. */
export interface Hashed {
  readonly hash: Readonly<Pick<Request['hash'], 'h1' | 'h4'>>;
}

export class History {
  /** Evictions that it remembers. */
  readonly length: number;
  readonly #pool: Pool;
  readonly #start: Address;

  constructor(pool: Pool, start: Address, bits: number) {
    this.#pool = pool;
    this.#start = start;
    this.length = 2 ** bits;
  }

  #wordOf({ hash }: Hashed): Address {
    return this.#start + 8 * ((hash.h4 >>> 0) % this.length);
  }

  /** Notes eviction number `number`. */
  note(request: Hashed, experts: number, number: number): Operation<void> {
    // `recall` takes a word without experts for none.
    invariant(experts > 0 && experts < 4 && number >= 0, 'no expert has chosen what is evicted');
    const high = (experts << EXPERT_SHIFT) | (number % NUMBERS);
    return this.#pool.unwaited.word(this.#wordOf(request), request.hash.h1, high);
  }

  /** Whether the key was evicted a short time ago; if so that is forgotten. */
  *recall(request: Request, evictions: number): Operation<Remembered | undefined> {
    const word = new Scratch(8);
    yield new Batch().read(this.#wordOf(request), 8, word, 0);
    const [low, high] = word.i32;
    const experts = high >>> EXPERT_SHIFT;
    if (experts === 0 || low !== request.hash.h1) return undefined;
    const since = ((evictions % NUMBERS) - (high & NUMBER_BITS) + NUMBERS) % NUMBERS;
    // The client that evicted it may have known of evictions that this one does not know of yet.
    const age = since >= NUMBERS - this.length ? 0 : since;
    if (age > this.length) return undefined;
    yield* this.#pool.unwaited.word(this.#wordOf(request), 0, 0);
    return { experts, age };
  }
}
