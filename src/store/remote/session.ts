import { hasCode, StepwellError } from '../../errors.ts';
import type { TcpFabric } from '../../fabrics/tcp/client/tcp-fabric.ts';
import type { Index } from '../../indexes/contract.ts';
import { type OpenStore, storeDropped } from '../../pool/open-stores.ts';
import type { RemotePool } from '../../pool/remote-pool.ts';
import { type Operation, type TrafficCounters, waitFor } from '../../verbs/index.ts';
import type { Attachment } from '../calls/attachment.ts';

/** Operations of one call that are in flight together. */
const WIDTH = 128;

/**
 * One life of a client in a pool over the network: its connections, its row, its index. It ends
 * when a connection breaks or a node revokes it; the store then opens another.
 */
export class Session implements Attachment {
  readonly fabric: TcpFabric;
  readonly pool: RemotePool;
  readonly index: Index;
  readonly poolId: number;
  readonly width = WIDTH;
  readonly #store: OpenStore;
  #closed = false;

  constructor(fabric: TcpFabric, pool: RemotePool, index: Index, store: OpenStore, poolId: number) {
    this.fabric = fabric;
    this.pool = pool;
    this.index = index;
    this.#store = store;
    this.poolId = poolId;
  }

  get over(): boolean {
    return this.fabric.failure !== undefined;
  }

  get traffic(): TrafficCounters {
    return this.fabric.traffic;
  }

  refuseClosed(): void {
    if (!this.#closed) return;
    throw new StepwellError('SW_CLOSED', `store ${this.#store.name} has been closed`);
  }

  *enter(): Operation<void> {
    const gate = this.pool.enter();
    if (gate !== undefined) yield* waitFor(this.#passed(gate));
    if (!this.#store.dropped) return;
    this.pool.exit();
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
      if (hasCode(error, 'SW_REVOKED')) this.fabric.lost(error);
      throw error;
    }
  }

  exit(): void {
    this.pool.exit();
  }

  /** Runs one operation of the store's. */
  runOne<T>(operation: () => Operation<T>): Promise<T> {
    return this.pool.run(this.#inPool(operation));
  }

  *#inPool<T>(operation: () => Operation<T>): Operation<T> {
    yield* this.enter();
    try {
      return yield* operation();
    } finally {
      this.exit();
    }
  }

  *exclusive<T>(operation: () => Operation<T>): Operation<T | undefined> {
    return yield* waitFor(this.pool.exclusive(operation));
  }

  *each<T>(items: readonly T[], width: number, act: (item: T) => Operation<void>): Operation<void> {
    yield* waitFor(inFlight(items, width, (item) => this.pool.run(act(item))));
  }

  /** The pool's memory is elsewhere. */
  window(): undefined {
    return undefined;
  }

  async close(): Promise<void> {
    this.#closed = true;
    try {
      await this.pool.close();
    } catch (error) {
      // Other clients clean up after this one then.
      if (!(error instanceof StepwellError)) throw error;
    } finally {
      this.fabric.close();
    }
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
