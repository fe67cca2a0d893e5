import { StepwellError } from '../errors.ts';
import type { Index } from '../indexes/contract.ts';
import { sweep } from '../indexes/sweep.ts';
import type { Pool } from '../pool/pool.ts';

const SWEEP_INTERVAL_MS = 1000;

/** What can be done about a full pool before its error is raised. */
export class FullPool {
  readonly #pool: Pool;
  readonly #index: Index;
  #sweptAt = 0;
  #sweptInVain = false;
  #freedBefore = 0;
  #reusableBefore = 0;

  constructor(pool: Pool, index: Index) {
    this.#pool = pool;
    this.#index = index;
  }

  /**
   * Runs a write. When the pool is full it is run again after memory that only waited for epochs
   * was brought back, and again after a sweep for what dead clients lost: twice, because the first
   * may have been another client's, or have brought what others took.
   */
  retry<T>(write: () => T): T {
    try {
      return write();
    } catch (error) {
      return this.#remedy(error, write);
    }
  }

  #remedy<T>(first: unknown, write: () => T): T {
    const sweep = () => this.#sweep() > 0;
    const remedies = [() => this.#pool.reclaim(), sweep, sweep];
    for (let failure = first; ; ) {
      const full = failure instanceof StepwellError && failure.code === 'SW_POOL_FULL';
      if (!full) throw failure;
      let helped = false;
      while (!helped && remedies.length > 0) helped = remedies.shift()?.() ?? false;
      if (!helped) throw failure;
      try {
        return write();
      } catch (error) {
        failure = error;
      }
    }
  }

  /**
   * A sweep walks the whole store: when one was in vain, and since then this client has freed
   * nothing and nobody has left chunks, the writes of the next second do not pay for another.
   */
  #sweep(): number {
    const { freed } = this.#pool.allocator;
    this.#pool.recoverGone();
    const reusable = this.#pool.reusableChunks();
    const changed = freed !== this.#freedBefore || reusable !== this.#reusableBefore;
    const recent = Date.now() - this.#sweptAt < SWEEP_INTERVAL_MS;
    if (this.#sweptInVain && !changed && recent) return 0;
    const brought = this.#pool.betweenOperations(() => sweep(this.#pool, this.#index)) ?? 0;
    this.#sweptInVain = brought === 0;
    this.#sweptAt = Date.now();
    this.#freedBefore = this.#pool.allocator.freed;
    this.#reusableBefore = this.#pool.reusableChunks();
    return brought;
  }
}
