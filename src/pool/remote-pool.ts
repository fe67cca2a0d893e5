import { StepwellError } from '../errors.ts';
import { type Operation, type RemoteFabric, runRemote } from '../verbs/index.ts';
import type { Registrar } from './clients/membership.ts';
import type { ThreadIdentity } from './clients/thread-identity.ts';
import type { PoolParameters } from './layout.ts';
import { Pool } from './pool.ts';

/** Operations between two quiescent points: each waits until all that are in flight have ended. */
const OPERATIONS_PER_QUIESCENCE = 2048;
const IDLE_CHECK_MS = 25;
const LIVENESS_INTERVAL_MS = 500;

/** Memory nodes have their memory from the start. */
const NODE_MEMORY = { extend() {}, reserve() {} };

/**
 * A client's attachment to a pool over a network, where many of its operations are in flight.
 * Housekeeping takes time there, and must run between operations. So it closes a gate: new
 * operations wait until those in flight have ended and housekeeping is done.
 */
export class RemotePool extends Pool {
  readonly fabric: RemoteFabric;
  #inFlight = 0;
  #drained: (() => void) | undefined;
  /** Settled when the gate is open again. */
  #gate: Promise<void> | undefined;
  #budget = 0;
  #busy = false;
  #claiming = false;
  #idle: NodeJS.Timeout | undefined;
  #telling: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(
    fabric: RemoteFabric,
    parameters: PoolParameters,
    thread: ThreadIdentity,
    registrar: Registrar,
    readOnly = false,
  ) {
    super(parameters, NODE_MEMORY, LIVENESS_INTERVAL_MS, thread, registrar, readOnly);
    this.fabric = fabric;
    this.meter.timedEvery = 1;
  }

  run<T>(operation: Operation<T>): Promise<T> {
    return runRemote(this.fabric, operation);
  }

  join(name: string): Promise<void> {
    return this.run(this.joining(name));
  }

  /**
   * Begins an operation, which must end with `exit`. Await the returned promise, if any, first.
   * Raises SW_REVOKED if this client was declared dead.
   */
  enter(): Promise<void> | undefined {
    if (this.#gate !== undefined || this.#budget === 0) return this.#enterLater();
    this.#begin();
    return undefined;
  }

  async #enterLater(): Promise<void> {
    while (this.#gate !== undefined || this.#budget === 0) {
      if (this.#closed) throw new StepwellError('SW_CLOSED', 'the pool has been closed');
      await (this.#gate ?? this.#close(() => this.#quiesce()));
    }
    this.#begin();
  }

  #begin(): void {
    this.#budget--;
    this.#inFlight++;
    this.#busy = true;
    this.#idle ??= setInterval(() => this.#rest(), IDLE_CHECK_MS).unref();
  }

  exit(): void {
    if (!this.#claiming) this.#claimAhead();
    this.#leave();
  }

  #leave(): void {
    if (--this.#inFlight > 0) return;
    this.#drained?.();
    this.#drained = undefined;
  }

  /**
   * Claims blocks ahead of need, concurrently with operations. Not in a full pool, where it would
   * repeatedly find only one or two.
   */
  #claimAhead(): void {
    if (this.allocator.isTight) return;
    for (const sizeClass of this.allocator.classes()) {
      if (!sizeClass.isLow) continue;
      this.#claiming = true;
      this.#inFlight++;
      const done = () => {
        this.#claiming = false;
        this.#leave();
      };
      // If it fails, the next operation will fail the same way.
      this.run(this.prefetchBlocks()).then(done, done);
      return;
    }
  }

  /**
   * Closes the gate, waits for the operations in flight, runs `action`, and opens the gate again.
   */
  #close(action: () => Promise<void>): Promise<void> {
    const closing = (async () => {
      if (this.#inFlight > 0) {
        await new Promise<void>((resolve) => {
          this.#drained = resolve;
        });
      }
      // After the action, the blocks that these WRITE to may be reused.
      await this.unwaited.settled();
      await action();
      this.#tellLater();
    })();
    const gate = closing.finally(() => {
      if (this.#gate === gate) this.#gate = undefined;
    });
    this.#gate = gate;
    // Calls that wait for the gate see the failure. If there are none, it is not an unhandled one.
    gate.catch(() => {});
    return gate;
  }

  async #quiesce(): Promise<void> {
    await this.run(this.reclamation.quiesce());
    const { stores } = this;
    if (stores.isStale) await this.run(stores.tend());
    await this.run(this.recyclingOwn());
    await this.run(this.recoverLagging());
    this.#budget = OPERATIONS_PER_QUIESCENCE;
  }

  /** Goes offline if no operation has begun for a while, so as not to hold back other clients. */
  #rest(): void {
    const idle = !this.#busy && this.#inFlight === 0 && this.#gate === undefined;
    this.#busy = false;
    this.#tellLater();
    if (!idle || this.#closed) return;
    clearInterval(this.#idle);
    this.#idle = undefined;
    this.#budget = 0;
    this.#close(async () => {
      await this.run(this.reclamation.goOffline());
      await this.run(this.collectIdle());
      if (this.stores.isStale) await this.run(this.stores.tend());
    });
  }

  /**
   * Publishes figures from a timer, so that no operation waits and the last ones are published,
   * too.
   */
  #tellLater(): void {
    if (this.#closed) return;
    const dueInMs = this.tellsInMs;
    if (this.#telling !== undefined || dueInMs === Number.POSITIVE_INFINITY) return;
    const tell = () => {
      this.#telling = undefined;
      if (this.#closed) return;
      // If the connection is gone, the next operation will notice.
      this.fabric.traffic.uncounted(() => this.run(this.telling())).catch(() => {});
    };
    this.#telling = setTimeout(tell, Math.max(1, dueInMs + 1)).unref();
  }

  /** Runs `operation` while no other is in flight. */
  async exclusive<T>(operation: () => Operation<T>): Promise<T> {
    while (this.#gate !== undefined) await this.#gate.catch(() => {});
    if (this.#closed) throw new StepwellError('SW_CLOSED', 'the pool has been closed');
    const result: { value?: T } = {};
    await this.#close(async () => {
      this.#budget = 0;
      result.value = await this.run(operation());
    });
    return result.value as T;
  }

  /** As `LocalPool.lookAgain`; waits for the operations in flight. */
  lookAgain(): Promise<void> {
    return this.exclusive(() => this.lettingGo());
  }

  /** Leaves the pool, as `LocalPool.close` does. */
  async close(): Promise<void> {
    if (this.#closed) return;
    clearInterval(this.#idle);
    clearTimeout(this.#telling);
    await this.exclusive(() => this.#leaving());
  }

  /**
   * Marks the pool closed before the gate opens, so that no waiting operation begins without a row.
   */
  *#leaving(): Operation<void> {
    try {
      yield* this.departing();
    } finally {
      this.#closed = true;
    }
  }
}
