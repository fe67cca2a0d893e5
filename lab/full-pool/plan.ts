import type { IndexName } from '../../src/store/api.ts';

/** What is to be measured. */
export interface Plan {
  readonly indexes: readonly IndexName[];
  readonly processes: readonly number[];
  /** Of `torture`. */
  readonly rounds: number;
  readonly seed: number;
  /** Of a store of `stalls`. */
  readonly records: number;
}
