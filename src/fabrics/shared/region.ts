import { StepwellError } from '../../errors.ts';
import { WordArray } from '../../verbs/index.ts';
import type { FileLocks } from './file-locks.ts';

/** One mapped region of the pool with the views that verbs use. */
export class Region {
  readonly bytes: number;
  readonly u8: Uint8Array;
  readonly i32: Int32Array;
  readonly f64: Float64Array;
  readonly i64: BigInt64Array;

  constructor(memory: ArrayBuffer | SharedArrayBuffer) {
    this.bytes = memory.byteLength;
    this.u8 = new Uint8Array(memory);
    this.i32 = new Int32Array(memory);
    this.f64 = new WordArray(memory);
    this.i64 = new BigInt64Array(memory);
  }
}

/** Where a shared fabric gets its regions from. */
export interface RegionSource {
  /** The pool's location to show to people: a path, or '' for `memory:`. */
  readonly path: string;
  /** Present for a pool in a file. */
  readonly locks?: FileLocks;
  /** What lets the pool hold more when it has its full size. */
  remedy(): string;
  /** Maps region `index`, which the superblock says exists; undefined when it does not exist. */
  map(index: number): Region | undefined;
  /** Makes the pool's memory cover regions 0..count-1. Harmless when they exist. */
  extend(count: number): void;
  /**
   * Takes the memory of a range from the system now, so that running out is an error here and not
   * a bus error at the first touch.
   */
  reserve(region: number, offset: number, bytes: number): void;
  /** Whether the mapping is backed by huge pages, as far as the system tells. */
  hugePages(): boolean;
  close(): void;
}

export function poolFull(detail: string, cause?: unknown): StepwellError {
  return new StepwellError('SW_POOL_FULL', `the pool is full: ${detail}`, { cause });
}
