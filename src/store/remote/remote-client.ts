import { StepwellError } from '../../errors.ts';
import type { TcpFabric } from '../../fabrics/tcp/client/tcp-fabric.ts';
import type { Index } from '../../indexes/contract.ts';
import type { OpenStore } from '../../pool/open-stores.ts';
import type { RemotePool } from '../../pool/remote-pool.ts';
import type { Operation } from '../../verbs/index.ts';
import type { OpenOptions } from '../api.ts';
import { openStore, type StoreInPool } from '../store-in-pool.ts';
import { Session } from './session.ts';

/**
 * One life of a client in a pool over the network: its connections and its row, for all stores that
 * share it. It ends when a connection breaks, a node revokes it, or its last store is closed.
 * Handles of one store share its index, as those of a `LocalClient` do.
 */
export class RemoteClient {
  readonly fabric: TcpFabric;
  readonly pool: RemotePool;
  readonly poolId: number;
  readonly #indexes = new Map<OpenStore, Index>();
  #handles = 0;
  #closed = false;

  constructor(fabric: TcpFabric, pool: RemotePool, poolId: number) {
    this.fabric = fabric;
    this.pool = pool;
    this.poolId = poolId;
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
      if (opened !== undefined) return new Session(this, opened.index, opened.store);
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
    const known = (store: OpenStore) => this.#indexes.get(store);
    const opened = yield* openStore(this.pool, options, known);
    this.#indexes.set(opened.store, opened.index);
    return opened;
  }

  async close(store: OpenStore): Promise<void> {
    this.pool.stores.close(store);
    if (store.handles === 0) this.#indexes.delete(store);
    await this.#release();
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
