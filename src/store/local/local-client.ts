import { StepwellError } from '../../errors.ts';
import type { RegionSource } from '../../fabrics/shared/region.ts';
import type { Index } from '../../indexes/contract.ts';
import { TELL_EVERY_MS } from '../../pool/clients/meter.ts';
import { LocalPool } from '../../pool/local-pool.ts';
import { type OpenStore, storeDropped } from '../../pool/open-stores.ts';
import type { Address, InPlace, Operation, TrafficCounters } from '../../verbs/index.ts';
import type { OpenOptions } from '../api.ts';
import type { Attachment } from '../attachment.ts';
import { ExpirySweep } from '../calls/expiry-sweep.ts';
import { Evictor } from '../eviction/evictor.ts';
import type { OpenedPool, PoolIdentity, PoolPlace } from '../places/pool-place.ts';
import { clientName, type OpenedStore, openStore, type StoreInPool } from '../store-in-pool.ts';

/** A store's handle where verbs finish at once: nothing waits, and nothing overlaps. */
export class LocalAttachment implements Attachment {
  readonly pool: LocalPool;
  readonly width = 1;
  readonly #store: OpenStore;
  /** The store that this namespace is a view of. */
  readonly #parent: LocalAttachment | undefined;
  #closed = false;

  constructor(pool: LocalPool, store: OpenStore, parent?: LocalAttachment) {
    this.pool = pool;
    this.#store = store;
    this.#parent = parent;
  }

  /** A separate handle, which is closed alone or with this one. */
  view(): LocalAttachment {
    return new LocalAttachment(this.pool, this.#store, this);
  }

  get closed(): boolean {
    return this.#closed || (this.#parent?.closed ?? false);
  }

  close(): void {
    this.#closed = true;
  }

  get traffic(): TrafficCounters {
    return this.pool.fabric.traffic;
  }

  refuseClosed(): void {
    if (!this.#closed && this.#parent === undefined) return;
    if (!this.closed) return;
    throw new StepwellError('SW_CLOSED', `store ${this.#store.name} has been closed`);
  }

  // biome-ignore lint/correctness/useYield: over a network this step waits
  *enter(): Operation<void> {
    this.refuseClosed();
    this.pool.enter();
    if (!this.#store.dropped) return;
    this.pool.exit();
    throw storeDropped(this.#store.name);
  }

  exit(): void {
    this.pool.exit();
  }

  // biome-ignore lint/correctness/useYield: the pool runs the operation to its end
  *exclusive<T>(operation: () => Operation<T>): Operation<T | undefined> {
    return this.pool.betweenOperations(operation);
  }

  *each<T>(
    items: readonly T[],
    _width: number,
    act: (item: T) => Operation<void>,
  ): Operation<void> {
    for (const item of items) yield* act(item);
  }

  *together<T>(items: readonly T[], act: (item: T) => Operation<void>): Operation<void> {
    for (const item of items) yield* act(item);
  }

  window(address: Address, bytes: number): Uint8Array {
    return this.pool.fabric.window(address, bytes);
  }

  get inPlace(): InPlace | undefined {
    return this.pool.fabric.inPlace;
  }
}

/**
 * A client of a pool that this thread can address: one mapping, one row of the client table, one
 * allocator and one announced epoch, however many stores it has open. Handles of one store share
 * its index too, because HStore and SHARD identify servers and movers by their clients.
 */
export class LocalClient {
  readonly pool: LocalPool;
  readonly source: RegionSource;
  readonly #onEnd: (client: LocalClient) => void;
  readonly #opened = new Map<OpenStore, OpenedStore>();
  /** Indexes whose expired records this client removes. */
  readonly #swept = new WeakSet<Index>();
  #handles = 0;

  /** Takes a row. Raises SW_TOO_MANY_CLIENTS; the mapping is then closed. */
  constructor(
    { fabric, parameters, source }: OpenedPool,
    options: OpenOptions,
    onEnd: (client: LocalClient) => void = () => {},
  ) {
    this.source = source;
    this.#onEnd = onEnd;
    try {
      this.pool = new LocalPool(fabric, parameters, source);
      this.pool.join(clientName(options));
      this.pool.meter.tellEveryMs = TELL_EVERY_MS;
    } catch (error) {
      source.close();
      throw error;
    }
  }

  /** Whether it can open stores: it was not declared dead, and the pool still exists. */
  get isUsable(): boolean {
    return !this.pool.closed && this.pool.run(this.pool.usable());
  }

  /** Opens a store. Each handle must be closed; with the last one the client ends. */
  open(options: OpenOptions): StoreInPool {
    this.#handles++;
    try {
      const known = (store: OpenStore) => this.#opened.get(store);
      const opened = this.pool.run(openStore(this.pool, options, known));
      this.pool.clock.use(options);
      this.#opened.set(opened.store, opened);
      if (!options.readOnly) this.#sweepExpired(opened);
      return opened;
    } catch (error) {
      this.#release();
      throw error;
    }
  }

  /** Removes expired records as long as the store is open and the event loop turns. */
  #sweepExpired({ store, index, bounded }: StoreInPool): void {
    if (this.#swept.has(index)) return;
    this.#swept.add(index);
    const attachment = new LocalAttachment(this.pool, store);
    const evictor = bounded && new Evictor(bounded, index, attachment, store.name);
    const sweep = new ExpirySweep(attachment, index, evictor);
    sweep.repeat(store.name, () => {
      if (this.pool.closed || store.dropped) return undefined;
      if (this.#opened.get(store)?.index !== index) return undefined;
      try {
        return attachment.traffic.uncounted(() => this.pool.run(sweep.turn()));
      } finally {
        this.pool.rest();
      }
    });
  }

  close(store: OpenStore): void {
    this.#tellLast(store);
    this.pool.stores.close(store);
    if (store.handles === 0) this.#opened.delete(store);
    this.#release();
  }

  /** Tells other clients what this one has counted of a bounded store. */
  #tellLast(store: OpenStore): void {
    const bounded = this.#opened.get(store)?.bounded;
    if (!bounded?.ledger.isUnpublished || this.pool.closed) return;
    try {
      this.pool.enterStore(store);
      try {
        this.pool.run(bounded.ledger.publish());
      } finally {
        this.pool.exit();
      }
    } catch (error) {
      // The store was dropped or this client was declared dead: no client needs the counts.
      if (!(error instanceof StepwellError)) throw error;
    }
  }

  /**
   * Gives up what it holds of stores without handles, if necessary after the operation in progress.
   */
  #release(): void {
    this.#handles--;
    // By then a callback may have opened another store.
    const end = () => (this.#handles === 0 ? this.end() : undefined);
    if (this.#handles === 0) this.pool.afterOperations(end);
    else if (!this.pool.closed) this.pool.betweenOperations(() => this.pool.stores.tend());
  }

  /** Leaves the pool, even if stores are open. */
  end(): void {
    if (this.pool.closed) return;
    this.#onEnd(this);
    try {
      this.pool.close();
    } finally {
      // Unmaps even a damaged pool.
      this.source.close();
    }
  }
}

/**
 * Not in the registry of symbols: another copy of this package in the thread, of whatever version,
 * has another symbol and so clients of its own. Objects of one copy are never handed to another.
 */
const CLIENTS = Symbol('stepwell.clients');

/**
 * The clients of a thread, so that the stores of one pool share one. The thread's global object
 * holds them: each thread has one, and it ends with the thread.
 */
export class ThreadClients {
  readonly #shared = new Map<PoolIdentity, LocalClient>();
  readonly #all = new Set<LocalClient>();

  /** The clients of this thread. */
  static ofThread(): ThreadClients {
    const thread = globalThis as typeof globalThis & { [CLIENTS]?: ThreadClients };
    let clients = thread[CLIENTS];
    if (clients === undefined) {
      const made = new ThreadClients();
      clients = made;
      Object.defineProperty(thread, CLIENTS, { value: made });
      // A process that exits gives its memory back at once. If it is killed, other clients notice
      // later.
      process.on('exit', () => {
        for (const client of [...made.#all]) client.end();
      });
    }
    return clients;
  }

  /** A client of the pool: a new one, or the one that stores of the pool share. */
  attach(place: PoolPlace, options: OpenOptions, isShared: boolean): LocalClient {
    const known = isShared ? this.#shared.get(place.identity) : undefined;
    if (known?.isUsable) {
      place.release();
      return known;
    }
    const client = new LocalClient(place.open(), options, (one) => this.#remove(one));
    this.#all.add(client);
    if (isShared) this.#shared.set(place.identity, client);
    return client;
  }

  #remove(client: LocalClient): void {
    this.#all.delete(client);
    for (const [identity, one] of this.#shared) if (one === client) this.#shared.delete(identity);
  }

  /** Each client finds out at once whether its pool or one of its stores is gone. */
  lookAgain(): void {
    for (const client of this.#all) client.pool.lookAgain();
  }
}
