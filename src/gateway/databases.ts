import type { Operation } from '../verbs/index.ts';
import { parseInteger, ReplyError } from './arguments.ts';
import type { GatewayStore } from './gateway-store.ts';

/** How to open the databases beyond the first. */
export interface DatabaseOptions {
  /** How many SELECT accepts. */
  readonly count: number;
  /** Opens the store of a database from 1 on; undefined if it is absent and `create` is false. */
  open(index: number, create: boolean): GatewayStore | undefined;
}

/** A database, opened. */
interface Database {
  readonly index: number;
  readonly store: GatewayStore;
  /** Where the next RANDOMKEY continues. */
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

  /** Reads the number of a database. */
  parse(argument: Buffer): number {
    const index = parseInteger(argument);
    if (index >= 0n && index < BigInt(this.count)) return Number(index);
    throw new ReplyError('ERR DB index is out of range');
  }

  /** Opens a database, and creates it if it does not exist. */
  get(index: number): Database {
    const database = this.#find(index, true);
    if (database === undefined) throw new RangeError(`database ${index} cannot be opened`);
    return database;
  }

  /** The databases that exist. */
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

/** Counting takes at most one part in this many of the time, however often INFO comes. */
const COUNTING_SHARE = 50;
/** A count that took fewer milliseconds is not remembered. */
const CHEAP_MS = 5;

/**
 * Counts the keys of a database for INFO by the index, without reading records. So expired records
 * count until they are removed, as in Redis; DBSIZE is exact. For a large index, the last count is
 * reused for a while.
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
