import { invariant } from '../../errors.ts';
import type { Request } from '../../indexes/substrates/request.ts';
import type { Pool } from '../../pool/pool.ts';
import { type Address, Batch, type Operation, Scratch } from '../../verbs/index.ts';

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
