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
 * A client's attachment to a pool over a network, where many of its operations are in flight. All
 * protocols take time there, so housekeeping runs between operations by closing a gate: new
 * operations wait, those in flight end.
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
   * Begins an operation; each has its `exit`. What it returns has to be awaited first. Raises
   * SW_REVOKED when this client was declared dead.
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
   * Claims blocks ahead of need, beside the operations. Not in a full pool: there it would find one
   * or two, over and over.
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
      // What it fails with, the next operation meets too.
      this.run(this.prefetchBlocks()).then(done, done);
      return;
    }
  }

  /** Closes the gate, waits for the operations in flight, does something, and opens it again. */
  #close(action: () => Promise<void>): Promise<void> {
    const closing = (async () => {
      if (this.#inFlight > 0) {
        await new Promise<void>((resolve) => {
          this.#drained = resolve;
        });
      }
      // Their blocks may be re-used by what follows.
      await this.unwaited.settled();
      await action();
      this.#tellLater();
    })();
    const gate = closing.finally(() => {
      if (this.#gate === gate) this.#gate = undefined;
    });
    this.#gate = gate;
    // A call that waits for the gate hears of a failure; when none waits, none needs to.
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

  /** Nothing was begun for a while: this client holds back no other. */
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

  /** A timer publishes figures, so no operation waits, and the last ones are told, too. */
  #tellLater(): void {
    if (this.#closed) return;
    const dueInMs = this.tellsInMs;
    if (this.#telling !== undefined || dueInMs === Number.POSITIVE_INFINITY) return;
    const tell = () => {
      this.#telling = undefined;
      if (this.#closed) return;
      // A connection that is gone the next operation meets too.
      this.fabric.traffic.uncounted(() => this.run(this.telling())).catch(() => {});
    };
    this.#telling = setTimeout(tell, Math.max(1, dueInMs + 1)).unref();
  }

  /** Runs something while no operation is in flight. */
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

  /** Closed before the gate opens: what waits at it must not begin without a row. */
  *#leaving(): Operation<void> {
    try {
      yield* this.departing();
    } finally {
      this.#closed = true;
    }
  }
}
