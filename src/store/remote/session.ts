import { StepwellError } from '../../errors.ts';
import type { TcpFabric } from '../../fabrics/tcp/client/tcp-fabric.ts';
import type { Index } from '../../indexes/contract.ts';
import type { Request } from '../../indexes/substrates/request.ts';
import { sweep } from '../../indexes/sweep.ts';
import { type OpenStore, storeDropped } from '../../pool/open-stores.ts';
import type { RemotePool } from '../../pool/remote-pool.ts';
import type { Operation } from '../../verbs/index.ts';
import { VainSweeps, type WriteKind } from '../calls/full-pool.ts';

const KEPT_REQUESTS = 256;
/** Scratch memory of a request that is kept for the next operation, at most. */
const KEPT_SCRATCH_BYTES = 256 * 1024;

/**
 * One life of a client in a pool over the network: its connections, its row, its index. It ends
 * when a connection breaks or a node revokes it; the store then opens another.
 */
export class Session {
  readonly fabric: TcpFabric;
  readonly pool: RemotePool;
  readonly index: Index;
  readonly poolId: number;
  readonly #store: OpenStore;
  readonly #idle: Request[] = [];
  readonly #vain: VainSweeps;

  constructor(fabric: TcpFabric, pool: RemotePool, index: Index, store: OpenStore, poolId: number) {
    this.fabric = fabric;
    this.pool = pool;
    this.index = index;
    this.#store = store;
    this.#vain = new VainSweeps(pool.pool);
    this.poolId = poolId;
  }

  get over(): boolean {
    return this.fabric.failure !== undefined;
  }

  take(): Request {
    return this.#idle.pop() ?? this.index.newRequest();
  }

  give(request: Request): void {
    const small = request.mayBeKept(KEPT_SCRATCH_BYTES);
    if (small && this.#idle.length < KEPT_REQUESTS) this.#idle.push(request);
  }

  run<T>(operation: Operation<T>): Promise<T> {
    return this.pool.run(operation);
  }

  /** Runs one operation between two quiescent points. */
  async runOne<T>(operation: () => Operation<T>): Promise<T> {
    await this.enter();
    try {
      return await this.run(operation());
    } finally {
      this.pool.exit();
    }
  }

  /**
   * An operation on one key. `prepare` encodes key and value at once, before anything is waited
   * for: the caller may change their bytes afterwards.
   */
  async perform<T>(
    prepare: (request: Request) => void,
    operate: (request: Request) => Promise<T>,
  ): Promise<T> {
    const request = this.take();
    prepare(request);
    const waiting = this.pool.enter();
    if (waiting !== undefined) await this.enter(waiting);
    else this.#refuseDropped();
    try {
      return await operate(request);
    } finally {
      this.pool.exit();
      this.give(request);
    }
  }

  /**
   * Begins an operation, which ends with `pool.exit()`. A client that finds at its quiescent point
   * that it was declared dead is out, whatever its connections say.
   */
  async enter(waiting: Promise<void> | undefined = this.pool.enter()): Promise<void> {
    try {
      await waiting;
    } catch (error) {
      if (error instanceof StepwellError && error.code === 'SW_REVOKED') this.fabric.lost(error);
      throw error;
    }
    this.#refuseDropped();
  }

  #refuseDropped(): void {
    if (!this.#store.dropped) return;
    this.pool.exit();
    throw storeDropped(this.#store.name);
  }

  /** As `FullPool.retry`: what can be done about a full pool before its error is raised. */
  async retry<T>(write: () => Promise<T>, kind: WriteKind = 'write'): Promise<T> {
    const sweep = async () => (await this.#sweep(kind)) > 0;
    const remedies = [() => this.pool.reclaim(), sweep, sweep];
    for (;;) {
      try {
        return await write();
      } catch (error) {
        const full = error instanceof StepwellError && error.code === 'SW_POOL_FULL';
        if (!full) throw error;
        let helped = false;
        while (!helped && remedies.length > 0) helped = (await remedies.shift()?.()) ?? false;
        if (!helped) throw error;
      }
    }
  }

  async #sweep(kind: WriteKind): Promise<number> {
    if (!(await this.run(this.#vain.mayBring(kind)))) return 0;
    const { pool } = this.pool;
    const brought = await this.pool.exclusive(() => sweep(pool, this.index, kind === 'deletion'));
    await this.run(this.#vain.note(kind, brought));
    return brought;
  }

  async close(): Promise<void> {
    try {
      await this.pool.close();
    } catch (error) {
      // The others clean up after this client then.
      if (!(error instanceof StepwellError)) throw error;
    } finally {
      this.fabric.close();
    }
  }
}
