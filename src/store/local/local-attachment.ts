import { StepwellError } from '../../errors.ts';
import type { LocalPool } from '../../pool/local-pool.ts';
import type { OpenStore } from '../../pool/open-stores.ts';
import type { Address, Operation, TrafficCounters } from '../../verbs/index.ts';
import type { Attachment } from '../calls/attachment.ts';

/** A store's handle where verbs finish at once: nothing waits, and nothing overlaps. */
export class LocalAttachment implements Attachment {
  readonly pool: LocalPool;
  readonly width = 1;
  readonly #store: OpenStore;
  /** Of a namespace: the store that it is a view of. */
  readonly #parent: LocalAttachment | undefined;
  #closed = false;

  constructor(pool: LocalPool, store: OpenStore, parent?: LocalAttachment) {
    this.pool = pool;
    this.#store = store;
    this.#parent = parent;
  }

  /** A handle of its own that is closed by itself, or with this one. */
  view(): LocalAttachment {
    return new LocalAttachment(this.pool, this.#store, this);
  }

  get closed(): boolean {
    return this.#closed || (this.#parent?.closed ?? false);
  }

  close(): void {
    this.#closed = true;
  }

  get traffic(): TrafficCounters {
    return this.pool.fabric.traffic;
  }

  refuseClosed(): void {
    if (!this.#closed && this.#parent === undefined) return;
    if (!this.closed) return;
    throw new StepwellError('SW_CLOSED', `store ${this.#store.name} has been closed`);
  }

  // biome-ignore lint/correctness/useYield: over a network this step waits
  *enter(): Operation<void> {
    this.refuseClosed();
    this.pool.enterStore(this.#store);
  }

  exit(): void {
    this.pool.exit();
  }

  // biome-ignore lint/correctness/useYield: the pool runs the operation to its end
  *exclusive<T>(operation: () => Operation<T>): Operation<T | undefined> {
    return this.pool.betweenOperations(operation);
  }

  *each<T>(
    items: readonly T[],
    _width: number,
    act: (item: T) => Operation<void>,
  ): Operation<void> {
    for (const item of items) yield* act(item);
  }

  *together<T>(items: readonly T[], act: (item: T) => Operation<void>): Operation<void> {
    for (const item of items) yield* act(item);
  }

  window(address: Address, bytes: number): Uint8Array {
    return this.pool.fabric.window(address, bytes);
  }
}
