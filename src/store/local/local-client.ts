import { publish, ResizeNews } from '../../diagnostics.ts';
import { StepwellError } from '../../errors.ts';
import type { RegionSource } from '../../fabrics/shared/region.ts';
import type { Index } from '../../indexes/contract.ts';
import { TELL_EVERY_MS } from '../../pool/clients/meter.ts';
import { LocalPool } from '../../pool/local-pool.ts';
import type { OpenStore } from '../../pool/open-stores.ts';
import type { OpenOptions } from '../api.ts';
import { ExpirySweep, runTurns } from '../calls/expiry-sweep.ts';
import { Evictor } from '../eviction/evictor.ts';
import type { OpenedPool } from '../places/pool-place.ts';
import { clientName, type OpenedStore, openStore, type StoreInPool } from '../store-in-pool.ts';
import { LocalAttachment } from './local-attachment.ts';

/**
 * A client of a pool that this thread can address: one mapping, one row of the client table, one
 * allocator and one announced epoch, whatever number of stores it has open. Handles of one store
 * share its index, too: servers of HStore and movers of SHARD are told apart by their clients.
 */
export class LocalClient {
  readonly pool: LocalPool;
  readonly source: RegionSource;
  readonly #onEnd: (client: LocalClient) => void;
  readonly #opened = new Map<OpenStore, OpenedStore>();
  /** Indexes whose expired records this client takes out. */
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

  /** Whether stores can be opened by it: it was not declared dead, and the pool is still there. */
  get isUsable(): boolean {
    return !this.pool.closed && this.pool.run(this.pool.usable());
  }

  /** Opens a store; each handle has its `close`. Without any handle the client ends. */
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

  /** Takes expired records out as long as the store is open and the event loop turns. */
  #sweepExpired({ store, index, bounded }: StoreInPool): void {
    if (this.#swept.has(index)) return;
    this.#swept.add(index);
    const attachment = new LocalAttachment(this.pool, store);
    const evictor = bounded && new Evictor(bounded, index, attachment, store.name);
    const sweep = new ExpirySweep(attachment, index, evictor);
    const resizes = new ResizeNews(store.name, index);
    runTurns(sweep.pause, () => {
      if (this.pool.closed || store.dropped) return undefined;
      if (this.#opened.get(store)?.index !== index) return undefined;
      try {
        const records = attachment.traffic.uncounted(() => this.pool.run(sweep.turn()));
        if (records > 0) publish('expire', () => ({ store: store.name, records }));
        resizes.look();
        return sweep.pause;
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
    if (!bounded?.ledger.hasNews || this.pool.closed) return;
    try {
      this.pool.enterStore(store);
      try {
        this.pool.run(bounded.ledger.publish());
      } finally {
        this.pool.exit();
      }
    } catch (error) {
      // Dropped, or this client was declared dead: there is nobody to tell.
      if (!(error instanceof StepwellError)) throw error;
    }
  }

  /** Gives up what it has of stores without handles; if an operation runs, that comes later. */
  #release(): void {
    this.#handles--;
    // By then a callback may have opened another store.
    const end = () => (this.#handles === 0 ? this.end() : undefined);
    if (this.#handles === 0) this.pool.afterOperations(end);
    else if (!this.pool.closed) this.pool.betweenOperations(() => this.pool.stores.tend());
  }

  /** Leaves the pool, with whatever stores are open. */
  end(): void {
    if (this.pool.closed) return;
    this.#onEnd(this);
    try {
      this.pool.close();
    } finally {
      // Of a pool that is damaged, too, nothing stays mapped.
      this.source.close();
    }
  }
}
