import type { Pool } from '../pool/pool.ts';
import type { Address, InPlace, Operation, TrafficCounters } from '../verbs/index.ts';

/** How the calls of a store use its pool, on any fabric. */
export interface Attachment {
  readonly pool: Pool;
  readonly traffic: TrafficCounters;
  /** How many operations of one call are in flight together; 1 where verbs finish at once. */
  readonly width: number;
  /** Raises SW_CLOSED. */
  refuseClosed(): void;
  /**
   * Begins an operation. Until `exit`, no memory that it finds in the pool is reused. Raises
   * SW_CLOSED, SW_STORE_DROPPED, and SW_REVOKED if this client was declared dead.
   */
  enter(): Operation<void>;
  exit(): void;
  /**
   * Runs an operation while no other operation of this client is in flight; undefined if it is
   * called from a callback inside an operation, where that is impossible.
   */
  exclusive<T>(operation: () => Operation<T>): Operation<T | undefined>;
  /**
   * Calls `act` with every item, at most `width` at a time. After a failure it begins no more,
   * waits for those in flight, and raises the first error.
   */
  each<T>(items: readonly T[], width: number, act: (item: T) => Operation<void>): Operation<void>;
  /**
   * As `each`, with all items at the same time and in step, so that their operations share
   * doorbells.
   */
  together<T>(items: readonly T[], act: (item: T) => Operation<void>): Operation<void>;
  /** The pool's own memory, without a copy, if this thread can address it. */
  window?(address: Address, bytes: number): Uint8Array;
  /** The pool's own words, likewise. */
  readonly inPlace?: InPlace | undefined;
}

/** Runs an operation in a section of its own: no memory that it finds is reused meanwhile. */
export function* inSection<T>(
  attachment: Pick<Attachment, 'enter' | 'exit'>,
  operation: () => Operation<T>,
): Operation<T> {
  yield* attachment.enter();
  try {
    return yield* operation();
  } finally {
    attachment.exit();
  }
}
