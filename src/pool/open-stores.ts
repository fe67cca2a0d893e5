import { invariant, StepwellError } from '../errors.ts';
import type { Operation } from '../verbs/index.ts';
import type { Catalog, CatalogEntry } from './catalog.ts';
import type { Membership } from './clients/membership.ts';
import type { Reclamation } from './clients/reclamation.ts';
import type { Allocator } from './memory/allocator.ts';

const ATTEMPTS_MAX = 100;

/** A store that this client has open, by one handle or several. */
export interface OpenStore {
  readonly catalog: number;
  readonly name: string;
  handles: number;
  /** A client has dropped the store: its handles must not be used any more. */
  dropped: boolean;
}

/**
 * The stores that this client has open. Its row names them, so that their memory is not reused
 * meanwhile:
 *
 * - A client names a store before its last lookup of it, and before it takes a chunk for a store
 *   that it creates. A client that drops a store marks it in the catalog first and reads the rows
 *   afterwards. So one of the two sees the other, and either the store is not opened or its memory
 *   stays.
 * - A client takes the name out of its row when it has no open handle of the store, and no block of
 *   the store in its cache or waiting for an epoch. Afterwards it writes to no byte of the store. A
 *   dead client's row keeps the name until it is recovered.
 * - A row of the catalog is reused only when no client's row names it. So the number of a store
 *   never means another store to a handle that is still open.
 */
export class OpenStores {
  readonly #membership: Membership;
  readonly #catalog: Catalog;
  readonly #allocator: Allocator;
  readonly #reclamation: Reclamation;
  readonly #open = new Map<number, OpenStore>();
  /** Stores without a handle that this client's row still names. */
  readonly #leaving = new Set<number>();
  /** The count of drops at the last check for dropped stores. */
  #reviewedAt = 0;

  constructor(
    membership: Membership,
    catalog: Catalog,
    allocator: Allocator,
    reclamation: Reclamation,
  ) {
    this.#membership = membership;
    this.#catalog = catalog;
    this.#allocator = allocator;
    this.#reclamation = reclamation;
  }

  /** Opens a store; each handle must be closed. Undefined if there is none. */
  *open(name: string): Operation<{ entry: CatalogEntry; store: OpenStore } | undefined> {
    for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
      const seen = yield* this.#catalog.find(name);
      if (seen === undefined) return undefined;
      const isNamed = this.#membership.names(seen.id);
      if (!isNamed) yield* this.#membership.nameStore(seen.id, true);
      // Looks it up again: before it was named, the store may have been dropped and its row reused.
      const entry = yield* this.#catalog.find(name);
      if (entry?.id === seen.id) return { entry, store: this.#take(entry) };
      if (!isNamed) yield* this.#membership.nameStore(seen.id, false);
    }
    throw new StepwellError(
      'SW_CONTENTION',
      `store ${name} is dropped and created again all the time`,
    );
  }

  #take({ id, name }: CatalogEntry): OpenStore {
    const store = this.#open.get(id) ?? { catalog: id, name, handles: 0, dropped: false };
    this.#open.set(id, store);
    this.#leaving.delete(id);
    store.handles++;
    return store;
  }

  /** Creates a store: `build` takes its chunks while this client's row names it. */
  *making<T>(catalog: number, build: () => Operation<T>): Operation<T> {
    yield* this.#membership.nameStore(catalog, true);
    try {
      // A client claims blocks only in an epoch, even for a store that it creates.
      return yield* this.#reclamation.duringEpoch(build);
    } catch (error) {
      // At once, so that the chunks it took can serve another store.
      yield* this.#leave(catalog);
      throw error;
    }
  }

  /** Call if this client does not open a store that it has created. */
  abandon(catalog: number): void {
    if (!this.#open.has(catalog)) this.#leaving.add(catalog);
  }

  /** Closes a handle. After the last one, `tend` gives up what this client holds of the store. */
  close(store: OpenStore): void {
    invariant(store.handles > 0, 'a handle of a store is closed twice');
    if (--store.handles > 0 || store.dropped) return;
    this.#open.delete(store.catalog);
    this.#leaving.add(store.catalog);
  }

  /** Whether `tend` has something to do. */
  get isStale(): boolean {
    return this.#leaving.size > 0 || this.#reclamation.drops !== this.#reviewedAt;
  }

  /**
   * Finds out which open stores were dropped, and gives up what this client holds of stores without
   * a handle. Blocks that wait for an epoch need a later call. Call it only between operations.
   */
  *tend(): Operation<void> {
    // The row of a client that was declared dead may be another client's by now.
    if (!(yield* this.#membership.holdsRow())) return;
    if (this.#reclamation.drops !== this.#reviewedAt) yield* this.review();
    for (const catalog of [...this.#leaving]) yield* this.#leave(catalog);
  }

  *#leave(catalog: number): Operation<void> {
    this.#leaving.add(catalog);
    yield* this.#allocator.leaveStore(catalog);
    if (this.#reclamation.isWaiting(catalog)) return;
    this.#leaving.delete(catalog);
    yield* this.#membership.nameStore(catalog, false);
  }

  /** Reads the count of drops, then does what `tend` does. */
  *lookAgain(): Operation<void> {
    yield* this.#reclamation.readDrops();
    if (this.isStale) yield* this.tend();
  }

  /** Marks the stores that were dropped. */
  *review(): Operation<void> {
    this.#reviewedAt = this.#reclamation.drops;
    if (this.#open.size === 0) return;
    const entries = yield* this.#catalog.entries();
    const there = new Set(entries.filter(({ ready }) => ready).map(({ id }) => id));
    for (const store of this.#open.values()) {
      if (there.has(store.catalog)) continue;
      store.dropped = true;
      this.#open.delete(store.catalog);
      this.#leaving.add(store.catalog);
    }
  }
}

export function storeDropped(name: string): StepwellError {
  return new StepwellError('SW_STORE_DROPPED', `store ${name} was dropped while it was open`);
}
