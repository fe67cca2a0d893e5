import type { Operation } from '../verbs/index.ts';
import type { GatewayStore } from './gateway-store.ts';

/** How the databases beyond the first are found. */
export interface DatabaseOptions {
  /** How many SELECT knows. */
  readonly count: number;
  /** Opens the store of a database from 1 on; undefined if it is not there and not to be made. */
  open(index: number, create: boolean): GatewayStore | undefined;
}

/** A database, opened. */
interface Database {
  readonly index: number;
  readonly store: GatewayStore;
  /** Where RANDOMKEY goes on. */
  randomCursor: number;
  readonly keyCount: KeyCount;
}

/** The databases that SELECT chooses among: stores, opened when a client first asks for them. */
export class Databases {
  readonly count: number;
  readonly #options: DatabaseOptions | undefined;
  readonly #open: (Database | undefined)[];

  constructor(first: GatewayStore, options: DatabaseOptions | undefined) {
    this.count = options?.count ?? 1;
    this.#options = options;
    this.#open = Array(this.count).fill(undefined);
    this.#open[0] = { index: 0, store: first, randomCursor: 0, keyCount: new KeyCount() };
  }

  /** Opens it, and makes it when it is not there. */
  get(index: number): Database {
    const database = this.#find(index, true);
    if (database === undefined) throw new RangeError(`database ${index} cannot be opened`);
    return database;
  }

  /** Those that are there. */
  *existing(): Iterable<Database> {
    for (let index = 0; index < this.count; index++) {
      const database = this.#find(index, false);
      if (database !== undefined) yield database;
    }
  }

  #find(index: number, create: boolean): Database | undefined {
    const found = this.#open[index];
    if (found !== undefined) return found;
    const store = this.#options?.open(index, create);
    if (store === undefined) return undefined;
    const database = { index, store, randomCursor: 0, keyCount: new KeyCount() };
    this.#open[index] = database;
    return database;
  }
}

/** Counting takes this part of the time at most, however often INFO comes. */
const COUNTING_SHARE = 50;
/** What took less is not worth remembering, in milliseconds. */
const CHEAP_MS = 5;

/**
 * Counts the keys of a database for INFO. It asks the index and reads no record. So expired records
 * count until they are removed, as they do in Redis; DBSIZE is exact. For a large index, the last
 * count is reused for a while.
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
