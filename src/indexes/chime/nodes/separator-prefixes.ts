import type { PackedSeparators } from './internal-node.ts';

/*
 * The separators of a remembered node as numbers, so that a key is found among them by few
 * comparisons: of each the four bytes (but for one bit) behind what all of them begin with, and the
 * next four for those where that is the same. Whole keys are compared only where both are.
 */

/** Bytes that a number takes whole: of the next byte it has all bits but one. */
export const PREFIX_BYTES = 3;

/** How many bytes all separators begin with. They ascend. */
export function sharedBytes(separators: PackedSeparators): number {
  const { bytes, ends, length } = separators;
  if (length < 2) return 0;
  const last = separators.begin(length - 1);
  const most = Math.min(ends[0], ends[length - 1] - last);
  let shared = 0;
  while (shared < most && bytes[shared] === bytes[last + shared]) shared++;
  return shared;
}

/** The four bytes from `at` on as a number of 31 bits that orders as they do, 0 behind the end. */
export function prefixAt(key: Uint8Array, at: number, end: number): number {
  if (at + 4 <= end) {
    return ((key[at] << 24) | (key[at + 1] << 16) | (key[at + 2] << 8) | key[at + 3]) >>> 1;
  }
  let number = 0;
  for (let i = at; i < at + 4; i++) number = (number << 8) | (i < end ? key[i] : 0);
  return number >>> 1;
}

/**
 * How many of `count` ascending numbers are below this one. Without a branch on what was compared,
 * which the processor could not foresee: numbers have 31 bits, so the highest bit of a difference
 * says whether it is below 0.
 */
export function countBelow(words: Int32Array, at: number, count: number, number: number): number {
  if (count === 0) return 0;
  let low = at;
  for (let left = count; left > 1; ) {
    const half = left >> 1;
    low += half & ((words[low + half - 1] - number) >> 31);
    left -= half;
  }
  return low - at - ((words[low] - number) >> 31);
}
