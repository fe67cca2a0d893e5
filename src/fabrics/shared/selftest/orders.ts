import type { Found, Program } from './litmus.ts';
import type { Copying, Sums, TearCount } from './whole-words.ts';

/** What a thread is to do. */
export type Task =
  | { kind: 'litmus'; program: Program; rounds: number }
  | { kind: 'sum'; rounds: number }
  | ({ kind: 'write' } & Copying)
  | ({ kind: 'read'; rounds: number } & Copying);

/** Words of the buffer by which the threads of a test begin and end together. */
export const SIGNAL = { go: 0, stop: 1 } as const;

export interface Order {
  task: Task;
  /** The memory under test: an open file to be mapped, or a buffer. */
  memory: number | SharedArrayBuffer;
  signals: Int32Array;
}

export type Answer = Found | Sums | TearCount | undefined;
