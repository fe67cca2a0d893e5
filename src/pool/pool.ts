import { StepwellError } from '../errors.ts';
import { type Fabric, type Operation, run } from '../verbs/index.ts';
import { Catalog } from './catalog.ts';
import { HolderWord } from './clients/holder-word.ts';
import { type ClientRow, Membership, type Registrar } from './clients/membership.ts';
import { Reclamation } from './clients/reclamation.ts';
import type { ThreadIdentity } from './clients/thread-identity.ts';
import { control } from './control.ts';
import { PoolLayout, type PoolParameters, SUPERBLOCK } from './layout.ts';
import { Allocator } from './memory/allocator.ts';
import type { PoolMemory } from './memory/chunk-memory.ts';
import { ChunkTable } from './memory/chunks.ts';
import { type OpenStore, OpenStores, storeDropped } from './open-stores.ts';

/** Operations between two quiescent points: what an announcement costs is shared by so many. */
const OPERATIONS_PER_QUIESCENCE = 64;
const IDLE_COLLECT_MS = 25;
const LIVENESS_INTERVAL_MS = 50;
const RECLAIM_ATTEMPTS = 40;
/** How long a leaving client waits for the others to let go of what it retired. */
const DEPARTURE_ATTEMPTS = 20;
const RECLAIM_PAUSE_MICROSECONDS = 1000;

/**
 * One client's attachment to a pool. Everything that touches the pool goes through `fabric`; the
 * synchronous runner is chosen here because both shared fabrics finish a verb at once.
 */
export class Pool {
  readonly fabric: Fabric;
  readonly layout: PoolLayout;
  readonly membership: Membership;
  readonly chunks: ChunkTable;
  readonly allocator: Allocator;
  readonly catalog: Catalog;
  readonly reclamation: Reclamation;
  readonly stores: OpenStores;
  /** Names the client that sweeps: see indexes/sweep.ts. */
  readonly sweeper: HolderWord;
  #inFlight = 0;
  /** What waits until no operation is in flight. */
  #afterwards: (() => void) | undefined;
  /** When the operating system was last asked about lagging clients. */
  #askedAt = 0;
  #budget = 0;
  #burst: NodeJS.Immediate | undefined;
  #idle: NodeJS.Timeout | undefined;
  #closed = false;

  /**
   * Clients that share a thread, in a simulation, and those that come over a network, say with
   * `thread` who they are; the latter with `registrar` who knows about others of their kind.
   */
  constructor(
    fabric: Fabric,
    parameters: PoolParameters,
    memory: PoolMemory,
    thread?: ThreadIdentity,
    registrar?: Registrar,
  ) {
    this.fabric = fabric;
    this.layout = new PoolLayout(parameters);
    this.membership = new Membership(this.layout, thread, registrar);
    this.chunks = new ChunkTable(this.layout, memory);
    this.allocator = new Allocator(this.layout, this.chunks);
    this.catalog = new Catalog(this.membership, this.chunks);
    this.reclamation = new Reclamation(this.layout, this.membership, this.allocator);
    const { membership, catalog, allocator, reclamation } = this;
    this.stores = new OpenStores(membership, catalog, allocator, reclamation);
    this.sweeper = new HolderWord(this.membership, SUPERBLOCK.sweeper);
  }

  get closed(): boolean {
    return this.#closed;
  }

  run<T>(operation: Operation<T>): T {
    return run(this.fabric, operation);
  }

  /** Cleans up after clients that are gone, then takes a row of the client table. */
  join(name: string): void {
    this.run(this.joining(name));
  }

  *joining(name: string): Operation<void> {
    yield* this.recovering(() => true);
    yield* this.membership.join(name);
    this.allocator.own(this.membership.id, this.membership.incarnation);
  }

  /**
   * Begins an operation. Between two operations of a client nothing of the pool is held, so this is
   * where the client announces epochs; while operations nest (a callback inside a read), it is not.
   */
  enter(): void {
    if (this.#inFlight === 0 && --this.#budget < 0) this.#quiesce();
    this.#inFlight++;
  }

  /** Begins an operation on a store. Raises SW_STORE_DROPPED. */
  enterStore(store: OpenStore): void {
    this.enter();
    if (!store.dropped) return;
    this.exit();
    throw storeDropped(store.name);
  }

  exit(): void {
    if (--this.#inFlight > 0 || this.#afterwards === undefined) return;
    const action = this.#afterwards;
    this.#afterwards = undefined;
    action();
  }

  /**
   * Does something when no operation is in flight: at once, or when the last one ends. A callback
   * inside an operation may close the store, and the operation still needs the client's row, its
   * blocks and its mapping. Of several actions the last one counts.
   */
  afterOperations(action: () => void): void {
    if (this.#inFlight > 0) this.#afterwards = action;
    else action();
  }

  #quiesce(): void {
    if (this.#closed) throw new StepwellError('SW_CLOSED', 'the pool has been closed');
    this.run(this.reclamation.quiesce());
    if (this.stores.isStale) this.run(this.stores.tend());
    this.#budget = OPERATIONS_PER_QUIESCENCE;
    this.run(this.prefetchBlocks());
    if (this.reclamation.lagging.length > 0) this.#recoverLagging();
    this.#burst ??= setImmediate(() => this.#endBurst()).unref();
  }

  /** Claims blocks ahead of need, off the path of the operations (RACE section 4.2). */
  *prefetchBlocks(): Operation<void> {
    for (const sizeClass of this.allocator.classes()) {
      if (sizeClass.isLow) {
        sizeClass.wanted = false;
        yield* this.allocator.refillQuietly(sizeClass);
      }
    }
  }

  /** The event loop has turned: nothing is in flight, so this client holds back nobody. */
  #endBurst(): void {
    this.#burst = undefined;
    if (this.#closed || this.#inFlight > 0) return;
    this.#budget = 0;
    this.run(this.reclamation.goOffline());
    if (this.stores.isStale) this.run(this.stores.tend());
    if (this.#hasIdleWork) this.#collectLater();
  }

  get #hasIdleWork(): boolean {
    return this.reclamation.retired > 0 || this.allocator.mayHaveEmptied;
  }

  #collectLater(): void {
    this.#idle ??= setTimeout(() => {
      this.#idle = undefined;
      if (this.#closed || this.#inFlight > 0) return;
      this.run(this.collectIdle());
      if (this.stores.isStale) this.run(this.stores.tend());
      this.#recoverLagging();
      if (this.#hasIdleWork) this.#collectLater();
    }, IDLE_COLLECT_MS).unref();
  }

  /** What an idle client does: frees what it retired, and gives back chunks that this empties. */
  *collectIdle(): Operation<void> {
    const { allocator, reclamation } = this;
    if (reclamation.retired > 0) yield* reclamation.collect();
    if (reclamation.retired === 0 && allocator.mayHaveEmptied) yield* allocator.releaseEmptied();
  }

  /**
   * Tries to bring back memory after SW_POOL_FULL: only between operations. True when something may
   * have come free.
   */
  reclaim(): boolean {
    if (this.#inFlight > 0 || this.reclamation.retired === 0) return false;
    const before = this.reclamation.retired;
    this.#budget = 0;
    this.run(this.reclamation.goOffline());
    for (let attempt = 0; attempt < RECLAIM_ATTEMPTS; attempt++) {
      this.run(this.reclamation.collect());
      if (this.reclamation.retired < before) break;
      this.#recoverLagging();
      this.run(control.pause(RECLAIM_PAUSE_MICROSECONDS));
    }
    return this.reclamation.retired < before;
  }

  /** Runs housekeeping that must not interrupt an operation; undefined when one is in flight. */
  betweenOperations<T>(operation: () => Operation<T>): T | undefined {
    if (this.#inFlight > 0) return undefined;
    this.#budget = 0;
    return this.run(operation());
  }

  /** Looks whether the clients that hold back the epoch are still there. */
  #recoverLagging(): void {
    if (this.reclamation.lagging.length === 0) return;
    // A busy client lags now and then; asking the system about it each time would cost more.
    const now = Date.now();
    if (now - this.#askedAt < LIVENESS_INTERVAL_MS) return;
    this.#askedAt = now;
    const lagging = new Set(this.reclamation.lagging);
    this.run(this.recovering((row) => lagging.has(row.id)));
  }

  /**
   * Stores may have been dropped, or the pool destroyed, in this thread: the next operation looks.
   * Between operations the client gives up at once what it has of dropped stores.
   */
  lookAgain(): void {
    this.#budget = 0;
    if (this.#closed || this.#inFlight > 0) return;
    this.run(this.reclamation.goOffline());
    if (this.reclamation.retired > 0) this.run(this.reclamation.collect());
    this.run(this.stores.lookAgain());
  }

  /** Whether this client may go on: it was not declared dead, nor the pool destroyed. */
  *usable(): Operation<boolean> {
    if ((yield* control.load(SUPERBLOCK.destroyed)) !== 0n) return false;
    return yield* this.membership.holdsRow();
  }

  recoverGone(): void {
    this.run(this.recovering(() => true));
  }

  /** Cleans up after those clients that are gone and that `concerns` says. */
  *recovering(concerns: (row: ClientRow) => boolean): Operation<void> {
    for (const row of yield* this.membership.rows()) {
      if (row.id === this.membership.id || !concerns(row)) continue;
      if (yield* this.membership.isGone(row)) yield* this.#takeOver(row);
    }
  }

  /**
   * Cleans up after a dead client: its chunks become orphans that anyone may adopt. What it had
   * half done in an index is finished by whoever meets it there.
   */
  *#takeOver(row: ClientRow): Operation<void> {
    if (!(yield* this.membership.claimRecovery(row))) return;
    yield* this.#bury();
    yield* this.chunks.orphan(row.id, row.incarnation);
    yield* this.membership.finishRecovery(row);
  }

  /**
   * Counts a client that has left blocks behind which are in use and which nothing reaches. First,
   * before its row is free: who dies in between counts it once more, and nobody counts too few.
   */
  *#bury(): Operation<void> {
    yield* control.add(SUPERBLOCK.buried, 1n);
  }

  /** Leaves the pool: blocks go back, chunks become orphans, the row is free. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    // The next operation is refused, not the one after many.
    this.#budget = 0;
    clearImmediate(this.#burst);
    clearTimeout(this.#idle);
    this.run(this.departing());
  }

  /**
   * What `close` does in the pool: only between operations. Nothing, when this client was declared
   * dead while it stood still: its row may be another client's by now, whose announced epoch must
   * not be cleared, and the blocks that it had cached may be in use.
   */
  *departing(): Operation<void> {
    if (!(yield* this.membership.holdsRow())) return;
    yield* this.reclamation.goOffline();
    for (let i = 0; this.reclamation.retired > 0 && i < DEPARTURE_ATTEMPTS; i++) {
      yield* this.reclamation.collect();
      if (this.reclamation.retired > 0) yield* control.pause(RECLAIM_PAUSE_MICROSECONDS);
    }
    if (this.reclamation.retired > 0) yield* this.#bury();
    yield* this.allocator.surrender();
    yield* this.chunks.orphan(this.membership.id, this.membership.incarnation);
    yield* this.membership.leave();
  }

  epoch(): number {
    return Number(this.run(control.load(SUPERBLOCK.epoch)));
  }

  regionCount(): number {
    return Number(this.run(control.load(SUPERBLOCK.regionCount)));
  }
}
