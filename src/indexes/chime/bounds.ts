import { invariant } from '../../errors.ts';
import { type Address, readInteger, type Scratch, writeInteger } from '../../verbs/index.ts';
import { bareLeafHigh, type Link } from './nodes/link.ts';

/**
 * The bounds of a leaf's keys, in the four words of its header that belong to the index. The lower
 * bound never changes and is the separator in the leaf's parent; the upper one is the pivot.
 *
 *    0  link to the sibling: pointer 40 | version 8 | tag 16; no pointer in the last leaf
 *    8  bytes of the pivot
 *   16  the pivot, of up to 16 bytes; or the address of a block that holds it
 *
 * The first word has copies among the entries. Its version counts splits and merges of the leaf.
 */
const BYTES_AT = 8;
const PIVOT_AT = 16;
const PIVOT_INLINE_MAX = 16;
const VERSION_SHIFT = 8;
const VERSION_MASK = 0xff;

/** `at`: offset of the bounds in the memory. */
export function siblingIn({ i32 }: Scratch, at: number): Link | undefined {
  const low = i32[at >> 2];
  const high = bareLeafHigh(i32[(at >> 2) + 1]);
  return isNoLeaf(low, high) ? undefined : { low, high };
}

/** Whether the link in a word leads to no leaf. */
export function isNoLeaf(low: number, high: number): boolean {
  return low === 0 && (high & 0xff) === 0;
}

/** The link to a sibling, with the version after another word's. */
export function writeSibling(
  { i32 }: Scratch,
  at: number,
  sibling: Link | undefined,
  older: number,
): void {
  const version = ((older >>> VERSION_SHIFT) + 1) & VERSION_MASK;
  i32[at >> 2] = sibling?.low ?? 0;
  i32[(at >> 2) + 1] = (sibling?.high ?? 0) | (version << VERSION_SHIFT);
}

export function pivotBytesIn({ i32 }: Scratch, at: number): number {
  return i32[(at + BYTES_AT) >> 2] >>> 0;
}

export function isLong(pivotBytes: number): boolean {
  return pivotBytes > PIVOT_INLINE_MAX;
}

/** Offset of a pivot that is not long; `at` is that of its bounds. */
export function pivotAt(at: number): number {
  return at + PIVOT_AT;
}

export function pivotBlockIn(memory: Scratch, at: number): Address {
  return readInteger(memory, at + PIVOT_AT);
}

export function writePivot(memory: Scratch, at: number, pivot: Uint8Array, block: Address): void {
  const { i32, u8 } = memory;
  invariant(!isLong(pivot.length) || block > 0, 'a long pivot has no block');
  i32[(at + BYTES_AT) >> 2] = pivot.length;
  i32[((at + BYTES_AT) >> 2) + 1] = 0;
  i32.fill(0, (at + PIVOT_AT) >> 2, (at + PIVOT_AT + PIVOT_INLINE_MAX) >> 2);
  if (isLong(pivot.length)) writeInteger(memory, at + PIVOT_AT, block);
  else u8.set(pivot, at + PIVOT_AT);
}

/** Copies the pivot from one leaf's bounds to another's. */
export function copyPivot(from: Scratch, fromAt: number, to: Scratch, toAt: number): void {
  for (let i = BYTES_AT; i < PIVOT_AT + PIVOT_INLINE_MAX; i += 4) {
    to.i32[(toAt + i) >> 2] = from.i32[(fromAt + i) >> 2];
  }
}
