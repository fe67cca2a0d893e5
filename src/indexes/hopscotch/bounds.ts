import { invariant } from '../../errors.ts';
import { type Address, type Scratch, setWord, UNIT_BYTES } from '../../verbs/index.ts';
import { BOUNDS_AT } from '../substrates/leaf/layout.ts';

/**
 * A segment's header records the suffix and the depth of its keys in two of the words that a leaf
 * leaves to its index. The suffix never changes. The depth and the child of the last split share
 * one word, so that a reader never sees the depth of one split with the child of another.
 *
 *   32  suffix 32
 *   40  child's address 48, in lines (0: none) | depth 8
 */
const CHILD_WORD = BOUNDS_AT + 8;
const DEPTH_SHIFT = 16;

/** `at`: where the bounds, or a whole header, begin in the memory. */
export function suffixIn({ i32 }: Scratch, header: number): number {
  return i32[(header + BOUNDS_AT) >> 2];
}

export function depthIn({ i32 }: Scratch, header: number): number {
  return (i32[(header + CHILD_WORD + 4) >> 2] >>> DEPTH_SHIFT) & 0xff;
}

/** The segment that holds the keys of the other value of the suffix bit split last, or 0. */
export function childIn({ i32 }: Scratch, header: number): Address {
  const word = (header + CHILD_WORD) >> 2;
  return ((i32[word + 1] & 0xffff) * 2 ** 32 + (i32[word] >>> 0)) * UNIT_BYTES;
}

/** Writes the bounds at `at`, where they begin. */
export function writeBounds(
  memory: Scratch,
  at: number,
  suffix: number,
  depth: number,
  child: Address,
): void {
  invariant(suffix >= 0 && suffix < 2 ** depth, 'a segment has a suffix longer than its depth');
  const lines = child / UNIT_BYTES;
  invariant(Number.isInteger(lines), 'the child of a segment stands at no block');
  setWord(memory, at, suffix, 0);
  setWord(memory, at + 8, lines | 0, (depth << DEPTH_SHIFT) | Math.floor(lines / 2 ** 32));
}
