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

  constructor(pool: Pool, index: Index) {
    this.#pool = pool;
    this.#index = index;
  }

  /**
   * Runs a write. When the pool is full it is run again after memory that only waited for epochs
   * was brought back, and once more after a sweep for what dead clients lost.
   */
  retry<T>(write: () => T): T {
    const remedies = [() => this.#pool.reclaim(), () => this.#sweep() > 0];
    for (;;) {
      try {
        return write();
      } catch (error) {
        const full = error instanceof StepwellError && error.code === 'SW_POOL_FULL';
        if (!full) throw error;
        let helped = false;
        while (!helped && remedies.length > 0) helped = remedies.shift()?.() ?? false;
        if (!helped) throw error;
      }
    }
  }

  /**
   * A sweep walks the whole store: when one was in vain and this client has freed nothing since,
   * the writes of the next second do not pay for another.
   */
  #sweep(): number {
    const { freed } = this.#pool.allocator;
    const unchanged = this.#sweptInVain && freed === this.#freedBefore;
    if (unchanged && Date.now() - this.#sweptAt < SWEEP_INTERVAL_MS) return 0;
    this.#pool.recoverGone();
    const brought = this.#pool.betweenOperations(() => sweep(this.#pool, this.#index)) ?? 0;
    this.#sweptInVain = brought === 0;
    this.#sweptAt = Date.now();
    this.#freedBefore = this.#pool.allocator.freed;
    return brought;
  }
}
