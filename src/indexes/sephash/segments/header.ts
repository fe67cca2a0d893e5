import { type Address, UNIT_BYTES } from '../../../verbs/index.ts';

/**
 * A segment's header is one word, at one address for ever, and has a line of its own; the directory
 * points to it. It is changed by CAS only.
 *
 *    metadata: MainSegment 35 (64-byte units) | closed 1 | epoch 23 | local depth 5
 *
 * The epoch counts the merges of the segment; its lowest bit is the sign. Every merge installs a
 * MainSegment in a new block, so while an operation runs the word never comes back, and an equal
 * word says that nothing has been merged in between.
 *
 * A closed segment takes deletions only, because its MainSegment's block has no room for more keys:
 * see compact.ts. It is closed or open for a whole epoch.
 */
export const HEADER_BYTES = 8;
export const HEADER_UNITS = 1;

export const EPOCH_VALUES = 2 ** 23;
const EPOCH_MASK = EPOCH_VALUES - 1;
const EPOCH_SHIFT = 9;
const DEPTH_SHIFT = 4;
const DEPTH_MASK = 0x1f;
/** A pool has at most 2^35 units. */
const POINTER_HIGH = 0x7;
const CLOSED = 0x8;

/** Sign 1, so that the zeros of new CurSegments are empty entries. */
export const FIRST_EPOCH = 1;

export function metaLow(main: Address): number {
  return (main / UNIT_BYTES) | 0;
}

export function metaHigh(
  main: Address,
  depth: number,
  epoch: number,
  closed: boolean = false,
): number {
  const pointer = Math.floor(main / UNIT_BYTES / 2 ** 32);
  return (epoch << EPOCH_SHIFT) | (depth << DEPTH_SHIFT) | (closed ? CLOSED : 0) | pointer;
}

export function mainOf(low: number, high: number): Address {
  return ((high & POINTER_HIGH) * 2 ** 32 + (low >>> 0)) * UNIT_BYTES;
}

export function depthOf(high: number): number {
  return (high >>> DEPTH_SHIFT) & DEPTH_MASK;
}

export function isClosed(high: number): boolean {
  return (high & CLOSED) !== 0;
}

export function epochOf(high: number): number {
  return high >>> EPOCH_SHIFT;
}

export function signOfEpoch(epoch: number): number {
  return epoch & 1;
}

export function nextEpoch(epoch: number): number {
  return (epoch + 1) & EPOCH_MASK;
}

/** The next epoch of sign 1, for new CurSegments: their zeros are then empty entries. */
export function nextOddEpoch(epoch: number): number {
  return ((epoch + 1) | 1) & EPOCH_MASK;
}

/**
 * The version of the record in an entry is its position in the segment's history. So a key's
 * versions only grow, and no two writes share one before the epoch wraps around.
 */
export function versionAt(epoch: number, slot: number): number {
  return epoch * 256 + slot;
}
