import type { Pool } from '../pool/pool.ts';
import type { Address, InPlace, Operation, TrafficCounters } from '../verbs/index.ts';

/** How the calls of a store get at its pool, whatever its verbs take. */
export interface Attachment {
  readonly pool: Pool;
  readonly traffic: TrafficCounters;
  /** Operations of one call in flight together; 1 where each verb finishes at once. */
  readonly width: number;
  /** Raises SW_CLOSED. */
  refuseClosed(): void;
  /**
   * Begins an operation: from here to its `exit` nothing that it meets in the pool is used again.
   * Raises SW_CLOSED, SW_STORE_DROPPED, and SW_REVOKED when this client was declared dead.
   */
  enter(): Operation<void>;
  exit(): void;
  /**
   * Runs an operation while no other one of this client is in flight; undefined when that cannot
   * be, because a callback inside an operation asks for it.
   */
  exclusive<T>(operation: () => Operation<T>): Operation<T | undefined>;
  /**
   * Does something with every item, at most `width` at a time. When one fails no more are begun,
   * and the first error is raised when those in flight have ended.
   */
  each<T>(items: readonly T[], width: number, act: (item: T) => Operation<void>): Operation<void>;
  /** As `each`, with all items at a time and in step: their operations share doorbells. */
  together<T>(items: readonly T[], act: (item: T) => Operation<void>): Operation<void>;
  /** The pool's own memory, without a copy, if this thread can address it. */
  window?(address: Address, bytes: number): Uint8Array;
  /** The pool's words where they stand, likewise. */
  readonly inPlace?: InPlace | undefined;
}

/** Runs an operation in a section of its own: nothing that it meets is used again meanwhile. */
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
