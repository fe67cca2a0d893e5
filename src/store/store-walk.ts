import { StepwellError } from '../errors.ts';
import { type Index, type IndexWalk, isOrdered } from '../indexes/contract.ts';
import type { Request } from '../indexes/request.ts';
import type { Pool } from '../pool/pool.ts';
import { HEADER_BYTES } from '../records/layout.ts';
import type { Encoding, Entry, Key, KeyPage, Page, Value } from './api.ts';
import { shown } from './arguments.ts';
import { decodeKey, decodeValue } from './decoding.ts';
import { prefixRange, rangeOf } from './key-range.ts';

/** Groups that one page may pass without finding enough records, beside its count. */
const EMPTY_GROUPS_MAX = 64;

/**
 * A walk over a store, one group of buckets at a time. Each step is an operation of its own:
 * between two steps nothing of the pool is held, however long the caller takes.
 */
export class StoreWalk<V extends Value> {
  readonly #pool: Pool;
  readonly #walk: IndexWalk;
  readonly #encodings: { keys: Encoding; values: Encoding };

  constructor(
    pool: Pool,
    index: Index,
    encodings: { keys: Encoding; values: Encoding },
    cursor = 0,
    prefix?: Key,
  ) {
    this.#pool = pool;
    this.#walk = walkOf(index, cursor, prefix);
    this.#encodings = encodings;
  }

  get done(): boolean {
    return this.#walk.done;
  }

  /** The records of the next group. */
  entries(): Entry<V>[] {
    const { keys, values } = this.#encodings;
    return this.#step((request, keyBytes) => ({
      key: decodeKey(request, keyBytes, keys),
      value: decodeValue(request, values) as V,
      version: request.foundVersion,
    }));
  }

  /** The keys of the next group. */
  keys(): Uint8Array[] {
    const take = ({ outgoing }: Request, keyBytes: number) =>
      outgoing.u8.slice(HEADER_BYTES, HEADER_BYTES + keyBytes);
    return this.#step(take, true);
  }

  /** Records until there are `count` of them, or so many groups were empty. */
  page(count: number): Page<V> {
    const entries = this.#gather(count, () => this.entries());
    return { cursor: this.#walk.cursor, entries };
  }

  /** As `page`, of keys alone. */
  keyPage(count: number): KeyPage {
    const keys = this.#gather(count, () => this.keys());
    return { cursor: this.#walk.cursor, keys };
  }

  #gather<T>(count: number, next: () => T[]): T[] {
    const found: T[] = [];
    for (let groups = 0; groups < EMPTY_GROUPS_MAX + count; groups++) {
      if (this.done || found.length >= count) break;
      found.push(...next());
    }
    return found;
  }

  #step<T>(visit: (request: Request, keyBytes: number) => T, keysOnly = false): T[] {
    const found: T[] = [];
    // `enter` looks only now and then, and a walk of few steps might be over before.
    if (this.#pool.closed) throw new StepwellError('SW_CLOSED', 'the store has been closed');
    this.#pool.enter();
    try {
      this.#pool.run(
        this.#walk.next((request, keyBytes) => {
          found.push(visit(request, keyBytes));
        }, keysOnly),
      );
    } finally {
      this.#pool.exit();
    }
    return found;
  }
}

/** Where keys have no order a prefix spares nothing: whoever asked leaves out the others. */
export function walkOf(index: Index, cursor: number, prefix: Key | undefined): IndexWalk {
  if (prefix === undefined || !isOrdered(index)) return index.walk(cursor);
  return index.walk(cursor, rangeOf(prefixRange(prefix)).range);
}

/** Raises SW_INVALID_ARGUMENT. */
export function checkPage(cursor: number, count: number): void {
  if (!Number.isInteger(count) || count < 1) {
    throw new StepwellError('SW_INVALID_ARGUMENT', `count must be 1 or more, not ${shown(count)}`);
  }
  if (!Number.isSafeInteger(cursor)) {
    throw new StepwellError('SW_INVALID_ARGUMENT', `not a cursor of this store: ${shown(cursor)}`);
  }
}
