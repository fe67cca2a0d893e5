import type { FileLocks } from '../../fabrics/shared/file-locks.ts';
import type { Operation } from '../../verbs/index.ts';

/**
 * A lock for each row of the client table, which is released when the client ends, however and
 * wherever that happens. A client takes the lock before its row is marked as taken, and releases it
 * after the row is free. So if a taken row's lock is free, and the row is unchanged when read
 * afterwards, its client is gone.
 */
export interface RowLocks {
  /** LOCK_TAKEN, LOCK_HELD, LOCK_REFUSED or LOCK_NEEDLESS. */
  take(row: number): Operation<number>;
  release(row: number): Operation<void>;
  /** Whether any client has it; true if that cannot be known. */
  isTaken(row: number): Operation<boolean>;
}

/** Row locks in a pool file that this process maps. */
export class LocalRowLocks implements RowLocks {
  readonly #locks: FileLocks;

  constructor(locks: FileLocks) {
    this.#locks = locks;
  }

  // biome-ignore lint/correctness/useYield: over a network this step waits
  *take(row: number): Operation<number> {
    return this.#locks.take(row);
  }

  // biome-ignore lint/correctness/useYield: over a network this step waits
  *release(row: number): Operation<void> {
    this.#locks.release(row);
  }

  // biome-ignore lint/correctness/useYield: over a network this step waits
  *isTaken(row: number): Operation<boolean> {
    return this.#locks.isTaken(row);
  }
}
