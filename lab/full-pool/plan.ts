import type { IndexName } from '../../src/store/api.ts';

/** What to measure. */
export interface Plan {
  readonly indexes: readonly IndexName[];
  readonly processes: readonly number[];
  /** Rounds of `torture`. */
  readonly rounds: number;
  /** Seed for `torture` and for traces. */
  readonly seed: number;
  /** Length of a trace of `hit-rates`. */
  readonly requests: number;
  /** How many records a store of `stalls` has. */
  readonly records: number;
}
