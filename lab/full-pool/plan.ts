import type { IndexName } from '../../src/store/api.ts';

/** What to measure. */
export interface Plan {
  readonly indexes: readonly IndexName[];
  readonly processes: readonly number[];
  /** Of `torture`. */
  readonly rounds: number;
  readonly seed: number;
  /** How many records a store of `stalls` has. */
  readonly records: number;
}
