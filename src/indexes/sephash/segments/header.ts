import { type Address, type Scratch, setWord, UNIT_BYTES } from '../../../verbs/index.ts';

/**
 * A segment's header is one line, at one address for ever; the directory points to it.
 *
 *    0  metadata: MainSegment 35 (64-byte units) | closed 1 | epoch 23 | local depth 5, changed by
 *       CAS only
 *    8  7 filter words: 37 bits for fingerprints | the epoch that they are of
 *
 * The epoch counts the merges of the segment; its lowest bit is the sign. Every merge installs a
 * MainSegment in a new block, so while an operation runs the word never comes back, and an equal
 * word says that nothing has been merged in between.
 *
 * A closed segment takes deletions only, because its MainSegment's block has no room for more keys:
 * see compact.ts. It is closed or open for a whole epoch.
 */
export const HEADER_BYTES = 64;
export const HEADER_UNITS = 1;
export const FILTER_WORDS = 7;

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

/** Offset in the header of the filter word for a fingerprint. */
export function filterWordOf(fingerprint: number): number {
  return 8 + 8 * (fingerprint % FILTER_WORDS);
}

/** What a filter word says about a fingerprint in an epoch. */
export const BIT_CLEAR = 0;
export const BIT_SET = 1;
/** The word is of a later epoch than the metadata that it was read with, or very old. */
export const BIT_UNKNOWN = 2;

/** A filter word of an earlier epoch is empty: turning the sign over empties the filter too. */
export function bitState(low: number, high: number, fingerprint: number, epoch: number): number {
  const age = (epoch - (high >>> EPOCH_SHIFT)) & EPOCH_MASK;
  if (age !== 0) return age < EPOCH_VALUES / 2 ? BIT_CLEAR : BIT_UNKNOWN;
  const bit = Math.floor(fingerprint / FILTER_WORDS);
  return bit < 32 ? (low >>> bit) & 1 : (high >>> (bit - 32)) & 1;
}

/** Copies the filter word at `from` to `to`, with the fingerprint's bit set. */
export function addBit(
  { i32 }: Scratch,
  from: number,
  to: number,
  fingerprint: number,
  epoch: number,
): void {
  const high = i32[(from >> 2) + 1];
  const current = high >>> EPOCH_SHIFT === epoch;
  const bit = Math.floor(fingerprint / FILTER_WORDS);
  const low = (current ? i32[from >> 2] : 0) | (bit < 32 ? 1 << bit : 0);
  i32[to >> 2] = low;
  i32[(to >> 2) + 1] = (current ? high : epoch << EPOCH_SHIFT) | (bit < 32 ? 0 : 1 << (bit - 32));
}

/** The image of a new segment's header, with an empty filter. */
export function writeHeader(image: Scratch, main: Address, depth: number, epoch: number): void {
  setWord(image, 0, metaLow(main), metaHigh(main, depth, epoch));
  for (let i = 0; i < FILTER_WORDS; i++) setWord(image, 8 + 8 * i, 0, epoch << EPOCH_SHIFT);
}

/**
 * The version of the record in an entry is its position in the segment's history. So a key's
 * versions only grow, and no two writes share one before the epoch wraps around.
 */
export function versionAt(epoch: number, slot: number): number {
  return epoch * 256 + slot;
}
