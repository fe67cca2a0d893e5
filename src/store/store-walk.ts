import type { Index, IndexWalk } from '../indexes/contract.ts';
import type { Request } from '../indexes/request.ts';
import type { Pool } from '../pool/pool.ts';
import { HEADER_BYTES } from '../records/layout.ts';
import type { Encoding, Entry, Page, Value } from './api.ts';
import { decodeKey, decodeValue } from './decoding.ts';

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
  ) {
    this.#pool = pool;
    this.#walk = index.walk(cursor);
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
    return this.#step(({ outgoing }, keyBytes) =>
      outgoing.u8.slice(HEADER_BYTES, HEADER_BYTES + keyBytes),
    );
  }

  /** Records until there are `count` of them, or so many groups were empty. */
  page(count: number): Page<V> {
    const entries: Entry<V>[] = [];
    for (let groups = 0; groups < EMPTY_GROUPS_MAX + count; groups++) {
      if (this.done || entries.length >= count) break;
      entries.push(...this.entries());
    }
    return { cursor: this.#walk.cursor, entries };
  }

  #step<T>(visit: (request: Request, keyBytes: number) => T): T[] {
    const found: T[] = [];
    this.#pool.enter();
    try {
      this.#pool.run(
        this.#walk.next((request, keyBytes) => {
          found.push(visit(request, keyBytes));
        }),
      );
    } finally {
      this.#pool.exit();
    }
    return found;
  }
}
