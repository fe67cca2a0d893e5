import { type Address, UNIT_BYTES } from '../../../verbs/index.ts';

/**
 * An entry is one 8-byte word, so that one CAS publishes it whole, second fingerprint included.
 *
 *   low half    pointer bits 0-31, in 64-byte units
 *   high half   fp 24-31 | fp2 16-23 | sign 15 | tombstone 14 | depth bits 10-13 | length 4-9 |
 *               pointer bits 32-35
 *
 * The paper's pointer has 48 bits of bytes and its length 3; a pool has at most 2^35 units, and 6
 * bits of length spare records of up to 62 units a second READ.
 *
 * A CurSegment's entry counts while its sign is that of the segment's metadata: turning that one
 * bit over empties all of them (section 4.2.1; there equal signs mean empty). In a MainSegment the
 * sign is 0.
 */
const SIGN = 1 << 15;
export const TOMBSTONE = 1 << 14;
const DEPTH_BITS_SHIFT = 10;
const DEPTH_BITS_MASK = 0xf << DEPTH_BITS_SHIFT;
const LENGTH_SHIFT = 4;
const LENGTH_MASK = 0x3f << LENGTH_SHIFT;
const POINTER_HIGH = 0xf;

/** Largest value of `length`; it means "this much or more": the record's header tells. */
export const ENTRY_UNITS_MAX = 63;

/** Both fingerprints; a MainSegment is sorted by them. */
export function tagOf(high: number): number {
  return high >>> 16;
}

export function fingerprintOf(high: number): number {
  return high >>> 24;
}

export function signOf(high: number): number {
  return (high >>> 15) & 1;
}

export function isTombstone(high: number): boolean {
  return (high & TOMBSTONE) !== 0;
}

export function depthBitsOf(high: number): number {
  return (high & DEPTH_BITS_MASK) >>> DEPTH_BITS_SHIFT;
}

export function withDepthBits(high: number, bits: number): number {
  return (high & ~DEPTH_BITS_MASK) | (bits << DEPTH_BITS_SHIFT);
}

export function withoutSign(high: number): number {
  return high & ~SIGN;
}

export function unitsOfEntry(high: number): number {
  return (high & LENGTH_MASK) >>> LENGTH_SHIFT;
}

export function recordOf(low: number, high: number): Address {
  return ((high & POINTER_HIGH) * 2 ** 32 + (low >>> 0)) * UNIT_BYTES;
}

export function entryLow(record: Address): number {
  return (record / UNIT_BYTES) | 0;
}

/** The high half of an entry; `units` may be more than the length can say. */
export function entryHigh(
  record: Address,
  units: number,
  { tag, depthBits, sign }: { tag: number; depthBits: number; sign: number },
): number {
  const pointer = Math.floor(record / UNIT_BYTES / 2 ** 32);
  const length = Math.min(units, ENTRY_UNITS_MAX);
  return (
    (tag << 16) |
    (sign << 15) |
    (depthBits << DEPTH_BITS_SHIFT) |
    (length << LENGTH_SHIFT) |
    pointer
  );
}

/** A deletion of the record that `high` points to: the same word, marked, of this sign. */
export function tombstoneHigh(high: number, sign: number): number {
  return withoutSign(high) | (sign << 15) | TOMBSTONE;
}

/**
 * A word that fills an entry of a CurSegment and says nothing, so that the segment can be merged
 * before writers have filled it. No entry has its length of 0. It contains the epoch, so that it
 * differs from the pads of a later epoch of the same sign: a word that was read as empty must never
 * come back.
 */
export function padLow(epoch: number): number {
  return epoch | 0;
}

export function padHigh(sign: number): number {
  return TOMBSTONE | (sign << 15);
}

export function isPad(high: number): boolean {
  return unitsOfEntry(high) === 0;
}

/**
 * The high half of a mark among the entries of a MainSegment (filter.ts): a pad with the first
 * fingerprint that the mark is for. Such a word sorts before all entries of that fingerprint.
 */
export function markHigh(fingerprint: number): number {
  return fingerprint << 24;
}

/** Splits that the depth bits of an entry can decide (section 4.2.1, Figure 6). */
export const SPLITS_PER_ROUND = 4;

/** The four bits of the hash that an entry carries in a segment of this local depth. */
export function depthBitsFor(hash: number, depth: number): number {
  return (hash >>> (depth - (depth % SPLITS_PER_ROUND))) & 0xf;
}

/** The two fingerprints of a key, from a hash word that chooses no segment. */
export function tagFor(h2: number): number {
  return h2 & 0xffff;
}
