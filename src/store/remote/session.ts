import { hasCode, StepwellError } from '../../errors.ts';
import type { Index } from '../../indexes/contract.ts';
import { type OpenStore, storeDropped } from '../../pool/open-stores.ts';
import type { RemotePool } from '../../pool/remote-pool.ts';
import { type Operation, type TrafficCounters, waitFor } from '../../verbs/index.ts';
import type { Attachment } from '../calls/attachment.ts';
import type { RemoteClient } from './remote-client.ts';

/** Operations of one call that are in flight together. */
const WIDTH = 128;

/** A store that a client has open, as one handle uses it; a store whose client ends opens another. */
export class Session implements Attachment {
  readonly client: RemoteClient;
  readonly index: Index;
  readonly width = WIDTH;
  readonly #store: OpenStore;
  #closed = false;

  constructor(client: RemoteClient, index: Index, store: OpenStore) {
    this.client = client;
    this.index = index;
    this.#store = store;
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
