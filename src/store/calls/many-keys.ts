import { StepwellError } from '../../errors.ts';
import type { Index } from '../../indexes/contract.ts';
import type { Request } from '../../indexes/substrates/request.ts';
import type { Pool } from '../../pool/pool.ts';
import { Batch } from '../../verbs/index.ts';
import type { Key, Value } from '../api.ts';

/** What is no list, a Set say, would be taken for an empty one. Raises SW_INVALID_ARGUMENT. */
export function checkKeys(keys: readonly Key[]): void {
  if (!Array.isArray(keys)) throw new StepwellError('SW_INVALID_ARGUMENT', 'keys are an array');
}

/** Raises SW_INVALID_ARGUMENT. */
export function checkEntries(entries: Iterable<unknown> | AsyncIterable<unknown>): void {
  if (typeof entries === 'object' && entries !== null) {
    if (Symbol.iterator in entries || Symbol.asyncIterator in entries) return;
  }
  throw new StepwellError('SW_INVALID_ARGUMENT', 'entries are pairs of key and value, iterable');
}

/** Raises SW_INVALID_ARGUMENT. */
export function checkEntry(entry: readonly [Key, Value]): void {
  if (Array.isArray(entry)) return;
  throw new StepwellError('SW_INVALID_ARGUMENT', 'an entry is a pair of key and value');
}

/** Does something with each entry. Raises SW_INVALID_ARGUMENT when it meets what is none. */
export function eachEntry(
  entries: Iterable<readonly [Key, Value]>,
  use: (key: Key, value: Value) => void,
): void {
  checkEntries(entries);
  for (const entry of entries) {
    checkEntry(entry);
    use(entry[0], entry[1]);
  }
}

/** What a search for many keys shares with one for a single key. */
export interface ManyHost<V> {
  /** Raises SW_CLOSED; begins an operation, which ends with `pool.exit()`. */
  enter(): void;
  foundValue(request: Request): V;
}

/** Scratch memory of a request that is kept for the next operation, at most. */
export const KEPT_REQUEST_BYTES = 1024 * 1024;
/** Keys that one operation searches for, in doorbells that they share. */
const KEYS_PER_SEARCH = 32;

/** Searches for many keys at once. */
export class ManyKeys<V extends Value> {
  readonly #pool: Pool;
  readonly #index: Index;
  readonly #host: ManyHost<V>;
  readonly #requests: Request[] = [];
  readonly #batch = new Batch();
  readonly #found: boolean[] = [];

  constructor(pool: Pool, index: Index, host: ManyHost<V>) {
    this.#pool = pool;
    this.#index = index;
    this.#host = host;
  }

  /** The values of the first keys: as many as have `maxBytes` together, or one that has more. */
  get(keys: readonly Key[], maxBytes: number): (V | undefined)[] {
    checkKeys(keys);
    const values: (V | undefined)[] = [];
    let left = maxBytes;
    for (let first = 0; first < keys.length && left >= 0; first += KEYS_PER_SEARCH) {
      const count = Math.min(KEYS_PER_SEARCH, keys.length - first);
      left = this.#search(keys, first, count, left, values);
    }
    return values;
  }

  /** Returns how many bytes are left, or less than 0 when the rest of the keys is left out. */
  #search(
    keys: readonly Key[],
    first: number,
    count: number,
    maxBytes: number,
    values: (V | undefined)[],
  ): number {
    let left = maxBytes;
    this.#host.enter();
    try {
      this.#setKeys(keys, first, count);
      const found = this.#found;
      this.#pool.run(this.#index.searchMany(this.#requests, count, this.#batch, found));
      for (let i = 0; i < count; i++) {
        const request = this.#requests[i];
        if (found[i]) left -= request.foundValueBytes;
        if (left < 0 && values.length > 0) return left;
        values.push(found[i] ? this.#host.foundValue(request) : undefined);
        // A value of many blocks was put together in memory of its own: never 32 at once.
        if (!request.mayBeKept(KEPT_REQUEST_BYTES)) this.#requests[i] = this.#index.newRequest();
      }
      return left;
    } finally {
      this.#pool.exit();
    }
  }

  #setKeys(keys: readonly Key[], first: number, count: number): void {
    touchKeys(keys, first, count);
    for (let i = 0; i < count; i++) {
      this.#requests[i] ??= this.#index.newRequest();
      this.#requests[i].setKey(keys[first + i], this.#index.hashSeed);
    }
  }
}

/** Reads a bit of every key first, so that the cache misses of strings that lie apart overlap. */
function touchKeys(keys: readonly Key[], first: number, count: number): number {
  let sum = 0;
  for (let i = first; i < first + count; i++) {
    const key = keys[i];
    if (typeof key === 'string') sum += key.charCodeAt(0) | 0;
  }
  return sum;
}
