import { StepwellError } from '../errors.ts';
import { type Operation, type RemoteFabric, runRemote } from '../verbs/index.ts';
import type { Registrar } from './clients/membership.ts';
import type { ThreadIdentity } from './clients/thread-identity.ts';
import { control } from './control.ts';
import type { PoolParameters } from './layout.ts';
import { Pool } from './pool.ts';

/** Operations between two quiescent points: each waits until all that are in flight have ended. */
const OPERATIONS_PER_QUIESCENCE = 2048;
const IDLE_CHECK_MS = 25;
const LIVENESS_INTERVAL_MS = 500;
const RECLAIM_ATTEMPTS = 40;
const RECLAIM_PAUSE_MICROSECONDS = 2000;

/** Memory nodes have their memory from the start. */
const NODE_MEMORY = { extend() {}, reserve() {} };

/**
 * A client's attachment to a pool over a network, where many of its operations are in flight. The
 * tables and protocols are those of `Pool`; what differs is that all of them take time, so that
 * housekeeping runs between operations by closing a gate: new operations wait, those in flight end.
 */
export class RemotePool {
  /** For the indexes, which use its parts and run no operation themselves. */
  readonly pool: Pool;
  readonly fabric: RemoteFabric;
  #inFlight = 0;
  #drained: (() => void) | undefined;
  /** Settled when the gate is open again. */
  #gate: Promise<void> | undefined;
  #budget = 0;
  #busy = false;
  #claiming = false;
  #askedAt = Number.NEGATIVE_INFINITY;
  #idle: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(
    fabric: RemoteFabric,
    parameters: PoolParameters,
    thread: ThreadIdentity,
    registrar: Registrar,
  ) {
    this.fabric = fabric;
    const { traffic } = fabric;
    const never = () => {
      throw new StepwellError('SW_UNSUPPORTED', 'verbs take time on this fabric');
    };
    const synchronous = { traffic, execute: never, window: never };
    this.pool = new Pool(synchronous, parameters, NODE_MEMORY, thread, registrar);
  }

  run<T>(operation: Operation<T>): Promise<T> {
    return runRemote(this.fabric, operation);
  }

  join(name: string): Promise<void> {
    return this.run(this.pool.joining(name));
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

  /** Claims blocks ahead of need, beside the operations. */
  #claimAhead(): void {
    for (const sizeClass of this.pool.allocator.classes()) {
      if (!sizeClass.isLow) continue;
      this.#claiming = true;
      this.#inFlight++;
      const done = () => {
        this.#claiming = false;
        this.#leave();
      };
      // What it fails with, the next operation meets too.
      this.run(this.pool.prefetchBlocks()).then(done, done);
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
      await action();
    })();
    const gate = closing.finally(() => {
      if (this.#gate === gate) this.#gate = undefined;
    });
    this.#gate = gate;
    // Whoever waits for the gate hears of a failure; when nobody waits, nobody needs to.
    gate.catch(() => {});
    return gate;
  }

  async #quiesce(): Promise<void> {
    await this.run(this.pool.reclamation.quiesce());
    const { stores } = this.pool;
    if (stores.isStale) await this.run(stores.tend());
    await this.#recoverLagging();
    this.#budget = OPERATIONS_PER_QUIESCENCE;
  }

  /** Nothing was begun for a while: this client holds back nobody. */
  #rest(): void {
    const idle = !this.#busy && this.#inFlight === 0 && this.#gate === undefined;
    this.#busy = false;
    if (!idle || this.#closed) return;
    clearInterval(this.#idle);
    this.#idle = undefined;
    this.#budget = 0;
    this.#close(async () => {
      await this.run(this.pool.reclamation.goOffline());
      await this.run(this.pool.collectIdle());
      if (this.pool.stores.isStale) await this.run(this.pool.stores.tend());
    });
  }

  async #recoverLagging(): Promise<void> {
    const { lagging } = this.pool.reclamation;
    if (lagging.length === 0) return;
    const now = performance.now();
    if (now - this.#askedAt < LIVENESS_INTERVAL_MS) return;
    this.#askedAt = now;
    const concerned = new Set(lagging);
    await this.run(this.pool.recovering((row) => concerned.has(row.id)));
  }

  /** Runs something while no operation is in flight. */
  async exclusive<T>(operation: () => Operation<T>): Promise<T> {
    while (this.#gate !== undefined) await this.#gate.catch(() => {});
    const result: { value?: T } = {};
    await this.#close(async () => {
      this.#budget = 0;
      result.value = await this.run(operation());
    });
    return result.value as T;
  }

  /** As `Pool.reclaim`: tries to bring back memory that only waits for epochs. */
  reclaim(): Promise<boolean> {
    const { reclamation } = this.pool;
    const recovering = () => this.pool.recovering(() => true);
    return this.exclusive(function* () {
      const before = reclamation.retired;
      if (before === 0) return false;
      yield* reclamation.goOffline();
      for (let attempt = 0; attempt < RECLAIM_ATTEMPTS; attempt++) {
        yield* reclamation.collect();
        if (reclamation.retired < before) break;
        if (attempt === 0 && reclamation.lagging.length > 0) yield* recovering();
        yield* control.pause(RECLAIM_PAUSE_MICROSECONDS);
      }
      return reclamation.retired < before;
    });
  }

  /** Leaves the pool, as `Pool.close` does. */
  async close(): Promise<void> {
    if (this.#closed) return;
    clearInterval(this.#idle);
    await this.exclusive(() => this.pool.departing()).finally(() => {
      this.#closed = true;
    });
  }
}
