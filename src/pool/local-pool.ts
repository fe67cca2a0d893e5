import { StepwellError } from '../errors.ts';
import { type Fabric, type Operation, run } from '../verbs/index.ts';
import { currentThread, type ThreadIdentity } from './clients/thread-identity.ts';
import type { PoolParameters } from './layout.ts';
import type { PoolMemory } from './memory/chunk-memory.ts';
import { type OpenStore, storeDropped } from './open-stores.ts';
import { Pool } from './pool.ts';

/** Operations from one quiescent point to the next; they share the cost of its announcement. */
const OPERATIONS_PER_QUIESCENCE = 64;
/** The same in a full pool, where other clients need the memory that this one has retired. */
const TIGHT_OPERATIONS = 16;
const IDLE_COLLECT_MS = 25;
const LIVENESS_INTERVAL_MS = 50;

/**
 * A client's attachment to a pool whose verbs finish at once. Each operation runs to completion in
 * the call that starts it. Housekeeping runs between operations and when the event loop turns.
 */
export class LocalPool extends Pool {
  readonly fabric: Fabric;
  #inFlight = 0;
  /** Runs when no operation is in flight. */
  #afterwards: (() => void) | undefined;
  #budget = 0;
  #burst: NodeJS.Immediate | undefined;
  #idle: NodeJS.Timeout | undefined;
  #telling: NodeJS.Timeout | undefined;
  #closed = false;

  /** `thread` identifies a client that shares its thread with others, in a simulation. */
  constructor(
    fabric: Fabric,
    parameters: PoolParameters,
    memory: PoolMemory,
    thread?: ThreadIdentity,
  ) {
    const self = thread ?? currentThread(memory.isInFile);
    super(parameters, memory, LIVENESS_INTERVAL_MS, self);
    this.fabric = fabric;
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

  /**
   * Begins an operation. Between operations a client holds no references into the pool, so it
   * announces epochs here, unless the operation is nested (in a callback inside a read).
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
   * Runs `action` when no operation is in flight: at once, or when the last one ends. A callback
   * inside an operation may close the store, and the operation still needs the client's row, its
   * blocks and its mapping. If there are several actions, the last one counts.
   */
  afterOperations(action: () => void): void {
    if (this.#inFlight > 0) this.#afterwards = action;
    else action();
  }

  #quiesce(): void {
    if (this.#closed) throw new StepwellError('SW_CLOSED', 'the pool has been closed');
    this.run(this.reclamation.quiesce());
    if (this.stores.isStale) this.run(this.stores.tend());
    this.#budget = this.allocator.isTight ? TIGHT_OPERATIONS : OPERATIONS_PER_QUIESCENCE;
    this.run(this.recyclingOwn());
    this.run(this.prefetchBlocks());
    this.run(this.recoverLagging());
    this.#tellIfDue();
    this.#burst ??= setImmediate(() => this.rest()).unref();
  }

  /**
   * Runs when the event loop has turned, or a timer's work has ended. The thread may now be busy
   * elsewhere for long, so with nothing in flight the client must not hold back the epoch.
   */
  rest(): void {
    clearImmediate(this.#burst);
    this.#burst = undefined;
    if (this.#closed || this.#inFlight > 0) return;
    this.#budget = 0;
    this.run(this.reclamation.goOffline());
    if (this.stores.isStale) this.run(this.stores.tend());
    if (this.#hasIdleWork) this.#collectLater();
    this.#tellLater();
  }

  #tellIfDue(): void {
    if (this.#closed || this.meter.dueInMs > 0) return;
    this.fabric.traffic.uncounted(() => this.run(this.telling()));
  }

  /** Publishes figures even after the last operation, and after retired memory was freed. */
  #tellLater(): void {
    const dueInMs = this.tellsInMs;
    if (this.#telling !== undefined || dueInMs === Number.POSITIVE_INFINITY) return;
    const tell = () => {
      this.#telling = undefined;
      this.#tellIfDue();
    };
    this.#telling = setTimeout(tell, Math.max(1, dueInMs + 1)).unref();
  }

  get #hasIdleWork(): boolean {
    return this.reclamation.retired > 0 || this.allocator.hasEmptied;
  }

  #collectLater(): void {
    this.#idle ??= setTimeout(() => {
      this.#idle = undefined;
      if (this.#closed || this.#inFlight > 0) return;
      this.run(this.collectIdle());
      if (this.stores.isStale) this.run(this.stores.tend());
      this.run(this.recoverLagging());
      if (this.#hasIdleWork) this.#collectLater();
      this.#tellLater();
    }, IDLE_COLLECT_MS).unref();
  }

  /** Runs housekeeping that must not interrupt an operation; undefined when one is in flight. */
  betweenOperations<T>(operation: () => Operation<T>): T | undefined {
    if (this.#inFlight > 0) return undefined;
    this.#budget = 0;
    return this.run(operation());
  }

  /**
   * Call when a client of this thread may have dropped stores or destroyed the pool. The next
   * operation checks. If none is in flight, this client frees its parts of dropped stores at once.
   */
  lookAgain(): void {
    this.#budget = 0;
    if (this.#closed || this.#inFlight > 0) return;
    this.run(this.lettingGo());
  }

  recoverGone(): void {
    this.run(this.recovering(() => true));
  }

  /** Leaves the pool: gives its blocks back and frees its row. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    // Makes `enter` refuse the very next operation.
    this.#budget = 0;
    clearImmediate(this.#burst);
    clearTimeout(this.#idle);
    clearTimeout(this.#telling);
    this.run(this.departing());
  }
}
