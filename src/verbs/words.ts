import type { Scratch } from './scratch.ts';

/**
 * 64-bit words as two 32-bit halves: BigInt arithmetic allocates, halves do not. Layouts keep the
 * half that decides a test (fingerprint, depth, state) in the high one.
 */
export function setWord(scratch: Scratch, offset: number, low: number, high: number): void {
  const word = offset >> 2;
  scratch.i32[word] = low;
  scratch.i32[word + 1] = high;
}

export function copyWord(scratch: Scratch, from: number, to: number): void {
  const { i32 } = scratch;
  i32[to >> 2] = i32[from >> 2];
  i32[(to >> 2) + 1] = i32[(from >> 2) + 1];
}

export function lowHalf(scratch: Scratch, offset: number): number {
  return scratch.i32[offset >> 2];
}

export function highHalf(scratch: Scratch, offset: number): number {
  return scratch.i32[(offset >> 2) + 1];
}

/** A word that holds a non-negative integer below 2^53 (epochs, counters, times). */
export function readInteger(scratch: Scratch, offset: number): number {
  const word = offset >> 2;
  return (scratch.i32[word + 1] >>> 0) * 2 ** 32 + (scratch.i32[word] >>> 0);
}

export function writeInteger(scratch: Scratch, offset: number, value: number): void {
  const word = offset >> 2;
  scratch.i32[word] = value | 0;
  scratch.i32[word + 1] = Math.floor(value / 2 ** 32) | 0;
}
