import type { GatewayStore } from './gateway-store.ts';
import { KeyCount } from './observation/key-count.ts';
import type { Database, Databases } from './server-view.ts';

/** How the databases beyond the first are found. */
export interface DatabaseOptions {
  /** How many SELECT knows. */
  readonly count: number;
  /** Opens the store of a database from 1 on; undefined if it is not there and not to be made. */
  open(index: number, create: boolean): GatewayStore | undefined;
}

/** Databases are stores, opened when a client first asks for them. */
export class OpenDatabases implements Databases {
  readonly count: number;
  readonly #options: DatabaseOptions | undefined;
  readonly #open: (Database | undefined)[];

  constructor(first: GatewayStore, options: DatabaseOptions | undefined) {
    this.count = options?.count ?? 1;
    this.#options = options;
    this.#open = Array(this.count).fill(undefined);
    this.#open[0] = { index: 0, store: first, randomCursor: 0, keyCount: new KeyCount() };
  }

  get(index: number): Database {
    const database = this.#find(index, true);
    if (database === undefined) throw new RangeError(`database ${index} cannot be opened`);
    return database;
  }

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
