import { hasCode, StepwellError } from '../../errors.ts';
import { SharedDoorbells } from '../../fabrics/tcp/client/shared-doorbells.ts';
import type { TcpFabric } from '../../fabrics/tcp/client/tcp-fabric.ts';
import type { Index } from '../../indexes/contract.ts';
import { TELL_EVERY_MS } from '../../pool/clients/meter.ts';
import { type OpenStore, storeDropped } from '../../pool/open-stores.ts';
import type { RemotePool } from '../../pool/remote-pool.ts';
import { type Operation, type TrafficCounters, waitFor } from '../../verbs/index.ts';
import type { OpenOptions } from '../api.ts';
import { type Attachment, inSection } from '../attachment.ts';
import type { BoundedStore } from '../eviction/bounded-store.ts';
import { Evictor } from '../eviction/evictor.ts';
import { type OpenedStore, openStore, type StoreInPool } from '../store-in-pool.ts';

/** Operations of one call that are in flight together. */
const WIDTH = 128;
/** Evictions in flight together when a store is closed. */
const LAST_WIDTH = 16;

/**
 * One life of a client in a pool over the network: its connections and its row, for all stores that
 * share it. It ends when a connection breaks, a node revokes it, or its last store is closed.
 * Handles of one store share its index, as those of a `LocalClient` do.
 */
export class RemoteClient {
  readonly fabric: TcpFabric;
  readonly pool: RemotePool;
  readonly poolId: number;
  readonly #opened = new Map<OpenStore, OpenedStore>();
  #handles = 0;
  #closed = false;

  constructor(fabric: TcpFabric, pool: RemotePool, poolId: number) {
    this.fabric = fabric;
    this.pool = pool;
    this.poolId = poolId;
    pool.meter.tellEveryMs = TELL_EVERY_MS;
  }

  /** Whether no store can be opened by it any more. */
  get over(): boolean {
    return this.#closed || this.fabric.failure !== undefined;
  }

  /**
   * Opens a store; each session has its `close`. Between operations, because opening announces
   * epochs of its own. Undefined when this client was declared dead, has lost a node, or its pool
   * was destroyed.
   */
  async open(options: OpenOptions): Promise<Session | undefined> {
    this.#handles++;
    try {
      const opened = await this.pool.exclusive(() => this.#opening(options));
      if (opened !== undefined) return new Session(this, opened);
    } catch (error) {
      await this.#release();
      if (this.#handles === 0 || !this.over) throw error;
      return undefined;
    }
    await this.#release();
    return undefined;
  }

  *#opening(options: OpenOptions): Operation<StoreInPool | undefined> {
    if (!(yield* this.pool.usable())) return undefined;
    this.pool.clock.use(options);
    const known = (store: OpenStore) => this.#opened.get(store);
    const opened = yield* openStore(this.pool, options, known, 'network');
    this.#opened.set(opened.store, opened);
    return opened;
  }

  async close(store: OpenStore): Promise<void> {
    await this.#settleLast(store);
    this.pool.stores.close(store);
    if (store.handles === 0) this.#opened.delete(store);
    await this.#release();
  }

  /** Evicts what writes in flight have added to a bounded store, and tells others its counts. */
  async #settleLast(store: OpenStore): Promise<void> {
    const opened = this.#opened.get(store);
    const bounded = opened?.bounded;
    if (opened === undefined || bounded === undefined || this.over) return;
    try {
      // They count in their sections, but can evict no more after them.
      await this.pool.exclusive(nothing);
      if (!bounded.ledger.hasNews && !bounded.ledger.hasChanged) return;
      const session = new Session(this, { ...opened, store });
      const evictor = new Evictor(bounded, opened.index, session, store.name);
      const lanes = Array.from({ length: LAST_WIDTH }, () => undefined);
      await inFlight(lanes, LAST_WIDTH, () => this.pool.run(evictor.settle()));
    } catch (error) {
      // Other clients find out what this one could not tell.
      if (!(error instanceof StepwellError)) throw error;
    }
  }

  /** What this leaves undone other clients clean up. */
  async #release(): Promise<void> {
    this.#closed = --this.#handles === 0;
    try {
      if (this.#closed) await this.pool.close();
      else await this.pool.lookAgain();
    } catch (error) {
      if (!(error instanceof StepwellError)) throw error;
    } finally {
      if (this.#closed) this.fabric.close();
    }
  }
}

function* nothing(): Operation<void> {}

/** A store that a client has open, as one handle uses it. When the client ends, another follows. */
export class Session implements Attachment {
  readonly client: RemoteClient;
  readonly index: Index;
  readonly bounded: BoundedStore | undefined;
  readonly width = WIDTH;
  readonly #store: OpenStore;
  readonly #shared: SharedDoorbells;
  #closed = false;

  constructor(client: RemoteClient, { index, bounded, store }: StoreInPool) {
    this.client = client;
    this.#shared = new SharedDoorbells(client.fabric);
    this.index = index;
    this.bounded = bounded;
    this.#store = store;
  }

  get pool(): RemotePool {
    return this.client.pool;
  }

  get over(): boolean {
    return this.client.over;
  }

  get dropped(): boolean {
    return this.#store.dropped;
  }

  get traffic(): TrafficCounters {
    return this.client.fabric.traffic;
  }

  refuseClosed(): void {
    if (!this.#closed) return;
    throw new StepwellError('SW_CLOSED', `store ${this.#store.name} has been closed`);
  }

  *enter(): Operation<void> {
    const gate = this.pool.enter();
    if (gate !== undefined) yield* waitFor(this.#passed(gate));
    // Meanwhile the client may have let go of the store.
    if (!this.#closed && !this.#store.dropped) return;
    this.pool.exit();
    this.refuseClosed();
    throw storeDropped(this.#store.name);
  }

  /**
   * A client that finds at its quiescent point that it was declared dead is out, whatever its
   * connections say.
   */
  async #passed(gate: Promise<void>): Promise<void> {
    try {
      await gate;
    } catch (error) {
      if (hasCode(error, 'SW_REVOKED')) this.client.fabric.lost(error);
      throw error;
    }
  }

  exit(): void {
    this.pool.exit();
  }

  /** Runs one operation of the store's. */
  runOne<T>(operation: () => Operation<T>): Promise<T> {
    return this.pool.run(inSection(this, operation));
  }

  *exclusive<T>(operation: () => Operation<T>): Operation<T | undefined> {
    return yield* waitFor(this.pool.exclusive(operation));
  }

  *each<T>(items: readonly T[], width: number, act: (item: T) => Operation<void>): Operation<void> {
    yield* waitFor(inFlight(items, width, (item) => this.pool.run(act(item))));
  }

  *together<T>(items: readonly T[], act: (item: T) => Operation<void>): Operation<void> {
    yield* waitFor(inFlight(items, items.length, (item) => this.#shared.run(act(item))));
  }

  /** The pool's memory is elsewhere. */
  window(): undefined {
    return undefined;
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.client.close(this.#store);
  }
}

/** Acts on every item, at most `width` at a time; the first failure ends it. */
export async function inFlight<T>(
  items: readonly T[],
  width: number,
  act: (item: T) => Promise<void>,
): Promise<void> {
  let next = 0;
  let failure: { error: unknown } | undefined;
  const lane = async () => {
    while (next < items.length && failure === undefined) {
      try {
        await act(items[next++]);
      } catch (error) {
        failure ??= { error };
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(width, items.length) }, lane));
  if (failure) throw failure.error;
}
