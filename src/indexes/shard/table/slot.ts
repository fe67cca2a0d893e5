import { type Address, highHalf, lowHalf, type Scratch, UNIT_BYTES } from '../../../verbs/index.ts';
import {
  isVacantIn,
  pointerHigh,
  pointerIn,
  type SlotFormat,
} from '../../substrates/claims/slot-format.ts';

/**
 * An entry is 8 bytes: pointer 35 (in 64-byte units, 2 TiB), segment id 4, flags 9, length 8 (in
 * units), fingerprint 8.
 *
 *   low half    pointer bits 0-31
 *   high half   fingerprint 24-31 | length 16-23 | flags 8-15 | segment id 4-7 | flag 3 | pointer
 *   flags       stamp 8-12 | FROZEN 13 | PENDING 14 | OVERFLOW 15 | CLEARING 3
 *
 * The stamp is the version of the bucket plus one; a word of 0 has never been initialised. The
 * paper spreads a version over the lock bits of a line's eight entries. Here READ and WRITE are
 * atomic per word only, so every word carries the whole version. A READ may return words of
 * different times; each still tells its version. A CAS that expects a word of an earlier version
 * fails.
 *
 * The segment id holds the four bits of the key's hash that decide the next resizes, so that a
 * mover need not read the record. They belong to the group of four versions that the stamp is in.
 */
export const STAMP_SHIFT = 8;
export const STAMP_MASK = 0x1f << STAMP_SHIFT;
/** The word cannot change at this version: its bucket is being moved to the next one. */
export const FROZEN = 1 << 13;
/** Claimed by an insertion that has not yet made sure that its key has no other slot. */
export const PENDING = 1 << 14;
/**
 * Set in the first entry of a level 1 bucket: keys of it may be in levels 2 and 3. Either bit says
 * so. CLEARING alone means that a client is checking whether that is still true, and both bits that
 * it is: see overflow.ts.
 */
export const OVERFLOW = 1 << 15;
export const CLEARING = 1 << 3;
export const OVERFLOW_MASK = OVERFLOW | CLEARING;
export const POOL_BYTES_MAX = 2 ** 35 * UNIT_BYTES;

const SEGMENT_ID_SHIFT = 4;
const SEGMENT_ID_MASK = 0xf << SEGMENT_ID_SHIFT;
/** Versions whose resizes one segment id covers. */
export const SEGMENT_ID_BITS = 4;
/** Tells a slot that was used and emptied from one that never was, in this version. */
const USED_UNITS = 1 << 16;
/** The bits in which a committed entry of a key must match. */
export const MATCH_MASK = (0xff << 24) | STAMP_MASK | FROZEN | PENDING | SEGMENT_ID_MASK;
export const SETTLED_MASK = STAMP_MASK | FROZEN;
/** The bits that a word keeps when its entry is replaced. */
export const KEPT_MASK = STAMP_MASK | OVERFLOW_MASK;
/** The overflow bits are in a bucket's first entry, no matter which client has claimed that. */
export const SHARD_SLOTS: SlotFormat = {
  pointer: 0x7,
  pending: PENDING,
  moved: SETTLED_MASK,
  frozen: FROZEN,
  shared: OVERFLOW_MASK,
  emptied: usedHigh,
};
/** Stamps are 5 bits, and 0 is "never initialised". */
export const VERSION_MAX = 30;

/**
 * The first word of a new bucket before the bucket is in use. It is 0, or TAKEN by the one mover
 * that may write to the bucket (the low half names it), or RELOCATED to another place because that
 * mover was slow. All have stamp 0; see new-bucket.ts.
 */
export const TAKEN_HIGH = FROZEN;
const RELOCATED_FLAGS = FROZEN | PENDING;

export function relocatedHigh(to: Address): number {
  return RELOCATED_FLAGS | pointerHigh(to);
}

/** Whether the first word of a bucket says that the bucket is where the word points to. */
export function isRelocated(high: number): boolean {
  return (high & (STAMP_MASK | RELOCATED_FLAGS)) === RELOCATED_FLAGS;
}

/** Whether a bucket is in use, by its first word. Otherwise its words mean nothing. */
export function isInUse(firstHigh: number): boolean {
  return (firstHigh & STAMP_MASK) !== 0;
}

export function stampOf(high: number): number {
  return (high & STAMP_MASK) >>> STAMP_SHIFT;
}

export function stampFor(version: number): number {
  return (version + 1) << STAMP_SHIFT;
}

export function pointerOf(low: number, high: number): Address {
  return pointerIn(SHARD_SLOTS, low, high);
}

/** The address that the word at `at` points to. */
export function pointerAt(words: Scratch, at: number): Address {
  return pointerOf(lowHalf(words, at), highHalf(words, at));
}

/** Whether there is no record in the slot: neither a committed nor a pending one. */
export function isEmpty(low: number, high: number): boolean {
  return isVacantIn(SHARD_SLOTS, low, high);
}

/** Whether the slot may be claimed: slots of a chain that is being given back are frozen. */
export function isOpen(low: number, high: number): boolean {
  return isEmpty(low, high) && (high & FROZEN) === 0;
}

/** Whether the slot has never been used in this version of its bucket. */
export function isFresh(low: number, high: number): boolean {
  return isEmpty(low, high) && (high & USED_UNITS) === 0;
}

/** Whether the slot holds a committed record. */
export function isLive(low: number, high: number): boolean {
  return (high & PENDING) === 0 && !isEmpty(low, high);
}

/** The high half of a slot that was never used at this version. */
export function freshHigh(version: number): number {
  return stampFor(version);
}

/** The high half of a slot that was emptied. Keeps stamp and overflow bits. */
export function usedHigh(high: number): number {
  return (high & KEPT_MASK) | USED_UNITS;
}

/** The high half of an entry, without stamp and flags. */
export function entryHigh(
  address: Address,
  fingerprint: number,
  units: number,
  segmentId: number,
): number {
  const meta = (fingerprint << 24) | (units << 16) | (segmentId << SEGMENT_ID_SHIFT);
  return meta | pointerHigh(address);
}

export function segmentIdOf(high: number): number {
  return (high & SEGMENT_ID_MASK) >>> SEGMENT_ID_SHIFT;
}

/** Whether the entry goes to the new bucket when its bucket leaves the version of its stamp. */
export function leaves(high: number): boolean {
  const bit = (stampOf(high) - 1) % SEGMENT_ID_BITS;
  return ((segmentIdOf(high) >>> bit) & 1) === 1;
}

/**
 * The final value, in the old place, of a word whose bucket is migrated at `version`: frozen, and
 * of a later version.
 */
export function gone(high: number, version: number): number {
  return (high & ~STAMP_MASK) | stampFor(version + 1) | FROZEN;
}

/**
 * Whether a frozen word no longer counts at `version`: its entry leaves for the new bucket, or its
 * bucket is being migrated. The new place may have a newer word.
 */
export function isOutdated(high: number, version: number): boolean {
  return (high & FROZEN) !== 0 && (leaves(high) || stampOf(high) > version + 1);
}

/** The entry at the next version; its segment id is replaced when a new group of four begins. */
export function advanced(high: number, version: number, segmentId: number | undefined): number {
  const kept = (high & ~(STAMP_MASK | FROZEN | OVERFLOW_MASK)) | overflowAfterMove(high);
  const entry =
    segmentId === undefined ? kept : (kept & ~SEGMENT_ID_MASK) | (segmentId << SEGMENT_ID_SHIFT);
  return entry | stampFor(version);
}

/** Keys below stay below, and no client has checked the new buckets yet. */
export function overflowAfterMove(high: number): number {
  return (high & OVERFLOW_MASK) === 0 ? 0 : OVERFLOW;
}

/** Fingerprints are never 0, so that no empty slot matches one. */
export function fingerprintOf(h4: number): number {
  return h4 >>> 24 || 1;
}
