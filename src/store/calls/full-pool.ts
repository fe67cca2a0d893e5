import { StepwellError } from '../../errors.ts';
import type { Index } from '../../indexes/contract.ts';
import { sweep } from '../../indexes/sweep.ts';
import type { Pool } from '../../pool/pool.ts';

const SWEEP_INTERVAL_MS = 1000;

/** What meets a full pool. A deletion may wait for other things than memory. */
export type WriteKind = 'deletion' | 'write';

/** A sweep that brought nothing, and what there was after it. */
interface VainSweep {
  at: number;
  freed: number;
  reusable: number;
}

/** What can be done about a full pool before its error is raised. */
export class FullPool {
  readonly #pool: Pool;
  readonly #index: Index;
  /**
   * The last sweep for each kind, if it was in vain. One that brought a write no memory says
   * nothing about a deletion, for which a sweep makes room in the index: see `Index.compact`.
   */
  readonly #vain: { [kind in WriteKind]?: VainSweep } = {};

  constructor(pool: Pool, index: Index) {
    this.#pool = pool;
    this.#index = index;
  }

  /**
   * Runs a write. When the pool is full it is run again after memory that only waited for epochs
   * was brought back, and again after a sweep for what dead clients lost: twice, because the first
   * may have been another client's, or have brought what others took.
   */
  retry<T>(write: () => T, kind: WriteKind = 'write'): T {
    try {
      return write();
    } catch (error) {
      return this.#remedy(error, write, kind);
    }
  }

  #remedy<T>(first: unknown, write: () => T, kind: WriteKind): T {
    const sweep = () => this.#sweep(kind) > 0;
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
  #sweep(kind: WriteKind): number {
    const pool = this.#pool;
    pool.recoverGone();
    const vain = this.#vain[kind];
    if (vain !== undefined && Date.now() - vain.at < SWEEP_INTERVAL_MS) {
      const { freed, reusable } = vain;
      if (freed === pool.allocator.freed && reusable === pool.reusableChunks()) return 0;
    }
    const brought = pool.betweenOperations(() => sweep(pool, this.#index)) ?? 0;
    const after = { freed: pool.allocator.freed, reusable: pool.reusableChunks() };
    this.#vain[kind] = brought === 0 ? { at: Date.now(), ...after } : undefined;
    return brought;
  }
}
