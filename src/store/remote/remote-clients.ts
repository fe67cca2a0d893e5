import { isDeepStrictEqual } from 'node:util';
import { hasCode, StepwellError } from '../../errors.ts';
import type { Credentials } from '../../fabrics/tcp/client/queue-pair.ts';
import { SharedDoorbells } from '../../fabrics/tcp/client/shared-doorbells.ts';
import type { TcpFabric } from '../../fabrics/tcp/client/tcp-fabric.ts';
import type { Endpoint } from '../../fabrics/tcp/endpoint.ts';
import type { Index } from '../../indexes/contract.ts';
import { TELL_EVERY_MS } from '../../pool/clients/meter.ts';
import { type OpenStore, storeDropped } from '../../pool/open-stores.ts';
import type { RemotePool } from '../../pool/remote-pool.ts';
import { type Operation, type TrafficCounters, waitFor } from '../../verbs/index.ts';
import { refuseAborted } from '../abortable.ts';
import type { OpenOptions } from '../api.ts';
import { type Attachment, inSection } from '../attachment.ts';
import { ExpirySweep } from '../calls/expiry-sweep.ts';
import type { BoundedStore } from '../eviction/bounded-store.ts';
import { Evictor } from '../eviction/evictor.ts';
import { clientName, type OpenedStore, openStore, type StoreInPool } from '../store-in-pool.ts';
import type { RemoteLocation } from './address.ts';
import { attachRemote, refuseOtherPool } from './attach.ts';

/** Not in the registry of symbols; see `ThreadClients`. */
const CLIENTS = Symbol('stepwell.remoteClients');

/** An attempt fails only if a client has ended since the one before. */
const ATTEMPTS_MAX = 10;
/** Operations of one call that are in flight together. */
const WIDTH = 128;
/** Evictions in flight together when a store is closed. */
const LAST_WIDTH = 16;

/** Options that must be equal for stores to share a client. */
interface Entrance {
  endpoints: readonly Endpoint[];
  /** The verbs that reach them. */
  fabric: 'tcp' | 'ucx';
  credentials: Credentials;
  /** An option of the index, which the handles of a store share. So are the next two. */
  delegation: boolean;
  hotspots: number | undefined;
  lockTimeoutMs: number | undefined;
  /** A read-only client cleans up after no other client. */
  readOnly: boolean;
}

interface Attached {
  entrance: Entrance;
  client: Promise<RemoteClient>;
  /** Once it is attached. */
  made?: RemoteClient;
}

/**
 * The clients of a thread, through which stores on memory nodes share connections and rows: one
 * client for each `Entrance`.
 */
export class RemoteClients {
  #attached: Attached[] = [];

  /** Those of this thread. */
  static ofThread(): RemoteClients {
    const thread = globalThis as typeof globalThis & { [CLIENTS]?: RemoteClients };
    if (thread[CLIENTS] === undefined) {
      Object.defineProperty(thread, CLIENTS, { value: new RemoteClients() });
    }
    return thread[CLIENTS] as RemoteClients;
  }

  /**
   * Opens a store through the client with these options, or a new one. After a former session this
   * creates nothing: a node that lost its memory is an error, and so is another pool in place of
   * the former session's.
   */
  async open(
    location: RemoteLocation,
    credentials: Credentials,
    given: OpenOptions,
    former?: Session,
  ): Promise<Session> {
    const options = former ? { ...given, create: false } : given;
    const { endpoints, fabric, url } = location;
    const { delegation = false, readOnly = false, hotspots, lockTimeoutMs } = options;
    const own = { delegation, hotspots, lockTimeoutMs };
    const entrance = { endpoints, fabric, credentials, readOnly, ...own };
    const attach = async () => {
      const name = clientName(options);
      return new RemoteClient(
        await attachRemote(location, credentials, options, name, former?.client),
      );
    };
    const reopen = (last: Session) => this.open(location, credentials, given, last);
    // Otherwise the connections of clients that have ended would stay in memory.
    this.#attached = this.#attached.filter(({ made }) => !made?.over);
    for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
      const known = this.#attached.find((one) => isDeepStrictEqual(one.entrance, entrance));
      const { client } = known ?? this.#attach(entrance, attach());
      const shared = known === undefined ? await client : await made(client);
      if (shared === undefined) continue;
      if (!shared.over) {
        if (former) refuseOtherPool(shared.poolId, former.client.poolId, url);
        const opened = await shared.open(options);
        if (opened !== undefined) return new Session(shared, opened, reopen);
      }
      this.#forget(client);
    }
    throw new StepwellError('SW_CONTENTION', 'the clients of this thread end again and again');
  }

  #attach(entrance: Entrance, client: Promise<RemoteClient>): Attached {
    const attached: Attached = { entrance, client };
    this.#attached.push(attached);
    client.then(
      (made) => {
        attached.made = made;
      },
      () => this.#forget(client),
    );
    return attached;
  }

  #forget(client: Promise<RemoteClient>): void {
    this.#attached = this.#attached.filter((one) => one.client !== client);
  }

  /** Each client lets go of closed stores, and finds out at once which stores were dropped. */
  async lookAgain(): Promise<void> {
    const clients = await Promise.allSettled(this.#attached.map(({ client }) => client));
    const found = clients.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
    await Promise.allSettled(found.map(({ pool }) => pool.lookAgain()));
  }
}

/** The client that another store attaches; undefined if an option of that store made it fail. */
async function made(client: Promise<RemoteClient>): Promise<RemoteClient | undefined> {
  try {
    return await client;
  } catch (error) {
    if (hasCode(error, 'SW_NODE_UNREACHABLE')) throw error;
    return undefined;
  }
}

/**
 * One life of a client in a pool over the network: its connections and its row, for all stores that
 * share it. It ends when a connection breaks, a node revokes it, or its last store is closed.
 * Handles of one store share its index, as those of a `LocalClient` do.
 */
export class RemoteClient {
  readonly fabric: TcpFabric;
  readonly pool: RemotePool;
  readonly #opened = new Map<OpenStore, OpenedStore>();
  #handles = 0;
  #closed = false;

  constructor({ fabric, pool }: { fabric: TcpFabric; pool: RemotePool }) {
    this.fabric = fabric;
    this.pool = pool;
    pool.meter.tellEveryMs = TELL_EVERY_MS;
  }

  get poolId(): number {
    return this.pool.layout.parameters.poolId;
  }

  /** Whether it can open no more stores. */
  get over(): boolean {
    return this.#closed || this.fabric.failure !== undefined;
  }

  /**
   * Opens a store for one handle, until `close`. Between operations, because opening announces
   * epochs of its own. Undefined when this client was declared dead, has lost a node, or its pool
   * was destroyed.
   */
  async open(options: OpenOptions): Promise<StoreInPool | undefined> {
    this.#handles++;
    try {
      const opened = await this.pool.exclusive(() => this.#opening(options));
      if (opened !== undefined) return opened;
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
      // Waits for writes in flight, which count in their sections and evict nothing afterwards.
      await this.pool.exclusive(nothing);
      if (!bounded.ledger.isUnpublished && !bounded.ledger.hasChanged) return;
      const session = new Session(this, { ...opened, store });
      const evictor = new Evictor(bounded, opened.index, session, store.name);
      const lanes = Array.from({ length: LAST_WIDTH }, () => undefined);
      await inFlight(lanes, LAST_WIDTH, () => this.pool.run(evictor.settle()));
    } catch (error) {
      // Other clients find out what this one could not tell.
      if (!(error instanceof StepwellError)) throw error;
    }
  }

  /** If this fails, other clients clean up the rest. */
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

/**
 * One handle's use of a store that a client has open. When the client ends, calls under way fail,
 * and later calls use a session of the next client.
 */
export class Session implements Attachment {
  readonly client: RemoteClient;
  readonly index: Index;
  readonly bounded: BoundedStore | undefined;
  readonly width = WIDTH;
  readonly #store: OpenStore;
  readonly #shared: SharedDoorbells;
  readonly #reopen: ((last: Session) => Promise<Session>) | undefined;
  /** State that the views of a session share with it. */
  #state = { closed: false };
  #signal: AbortSignal | undefined;
  #following: Promise<Session> | undefined;
  #next: Session | undefined;
  #sweeps = false;

  constructor(
    client: RemoteClient,
    { index, bounded, store }: StoreInPool,
    reopen?: (last: Session) => Promise<Session>,
  ) {
    this.client = client;
    this.#shared = new SharedDoorbells(client.fabric);
    this.index = index;
    this.bounded = bounded;
    this.#store = store;
    this.#reopen = reopen;
  }

  /** A view that begins no more operations once the signal is aborted: SW_ABORTED ends a call. */
  withSignal(signal: AbortSignal): Session {
    const { client, index, bounded } = this;
    const view = new Session(client, { index, bounded, store: this.#store });
    view.#state = this.#state;
    view.#signal = signal;
    return view;
  }

  /** The session that the handle uses now. */
  get latest(): Session {
    let latest: Session = this;
    while (latest.#next !== undefined) latest = latest.#next;
    return latest;
  }

  /** The session that follows this one, which is over. Raises what opening a store raises. */
  follow(): Promise<Session> {
    this.#following ??= this.#begin().finally(() => {
      this.#following = undefined;
    });
    return this.#following;
  }

  async #begin(): Promise<Session> {
    if (this.#reopen === undefined) throw new Error('no session follows a view');
    const next = await this.#reopen(this);
    if (this.#state.closed) {
      await next.close();
      return next;
    }
    if (this.#sweeps) next.sweepExpired();
    this.#next = next;
    return next;
  }

  get pool(): RemotePool {
    return this.client.pool;
  }

  get over(): boolean {
    return this.client.over;
  }

  get traffic(): TrafficCounters {
    return this.client.fabric.traffic;
  }

  refuseClosed(): void {
    if (!this.#state.closed) return;
    throw new StepwellError('SW_CLOSED', `store ${this.#store.name} has been closed`);
  }

  *enter(): Operation<void> {
    const gate = this.pool.enter();
    if (gate !== undefined) yield* waitFor(this.#passed(gate));
    // Meanwhile the client may have let go of the store.
    if (!this.#state.closed && !this.#store.dropped && !this.#signal?.aborted) return;
    this.pool.exit();
    this.refuseClosed();
    if (this.#store.dropped) throw storeDropped(this.#store.name);
    refuseAborted('the call', this.#signal);
  }

  /**
   * A client that learns at its quiescent point that it was declared dead is over, even if its
   * connections still work.
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

  /** Removes expired records as long as the store is open, also in later sessions. */
  sweepExpired(): void {
    this.#sweeps = true;
    const { name } = this.#store;
    const evictor = this.bounded && new Evictor(this.bounded, this.index, this, name);
    const sweep = new ExpirySweep(this, this.index, evictor);
    sweep.repeat(name, () => {
      if (this.#state.closed || this.#store.dropped || this.over) return undefined;
      return this.pool.run(sweep.turn());
    });
  }

  async close(): Promise<void> {
    this.#state.closed = true;
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
