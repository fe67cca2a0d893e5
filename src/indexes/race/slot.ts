import { invariant } from '../../errors.ts';
import type { Address } from '../../verbs/index.ts';
import {
  isVacantIn,
  pointerHigh,
  pointerIn,
  type SlotFormat,
} from '../substrates/claims/slot-format.ts';

/**
 * A slot is 8 bytes: pointer 40 (in 64-byte units), flags 8, length 8 (in units), fingerprint 8.
 *
 *   low half    pointer bits 0-31
 *   high half   fingerprint 24-31 | length 16-23 | flags 8-15 | pointer bits 32-39 in 0-7
 *   flags       depth stamp 8-12 | PENDING 13 | UNMOVED 14
 *
 * The paper's slot has no flags and a pointer of 48 bits in bytes; 40 bits of units reach 64 TiB.
 *
 * The depth stamp makes moving safe. Every stored word, also an empty one, carries the local depth
 * that its bucket had at that time. Freezing a slot for a split to depth d is a CAS that stamps the
 * same word with d, so every CAS in flight that expects the old word fails. A reader that sees a
 * stamp above the depth in the header knows that the bucket is being split, or that the header it
 * read is older than the slot. The write that raises the header to depth d thaws the slots: a stamp
 * that is not above the header's depth means nothing.
 */
export const STAMP_SHIFT = 8;
export const STAMP_MASK = 0x1f << STAMP_SHIFT;
/** Claimed by an insertion that has not yet made sure that its key has no other slot. */
export const PENDING = 1 << 13;
/** In a new subtable: the slot of the parent has not been copied here yet. */
export const UNMOVED = 1 << 14;

/** A frozen claim has a later stamp; only its owner or a mover changes it. */
export const RACE_SLOTS: SlotFormat = {
  pointer: 0xff,
  pending: PENDING,
  moved: STAMP_MASK,
  frozen: 0,
  shared: 0,
  emptied: (high) => emptySlot(stampOf(high)),
};

export function stampOf(high: number): number {
  return (high & STAMP_MASK) >>> STAMP_SHIFT;
}

/**
 * Whether a slot of a bucket of this depth waits for its parent's record or is stamped for a later
 * depth. Every search asks for 28 slots: UNMOVED is above all stamps, so one comparison tells both.
 */
export function isAhead(high: number, depth: number): boolean {
  return (high & (UNMOVED | STAMP_MASK)) > depth << STAMP_SHIFT;
}

export function withStamp(high: number, depth: number): number {
  return (high & ~STAMP_MASK) | (depth << STAMP_SHIFT);
}

/** The high half of an empty slot. Its low half is 0. */
export function emptySlot(depth: number): number {
  return depth << STAMP_SHIFT;
}

/** Whether the slot holds no record: neither a live nor a pending one. */
export function isVacant(low: number, high: number): boolean {
  return isVacantIn(RACE_SLOTS, low, high);
}

/** Whether the slot holds a committed record. */
export function isLive(low: number, high: number): boolean {
  return !isVacant(low, high) && (high & PENDING) === 0;
}

export function pointerOf(low: number, high: number): Address {
  return pointerIn(RACE_SLOTS, low, high);
}

/** The high half of a slot for a record. */
export function slotHigh(
  address: Address,
  fingerprint: number,
  units: number,
  depth: number,
): number {
  // A fingerprint of 0 would match bucket headers.
  const fits = fingerprint > 0 && fingerprint <= 0xff && units <= 0xff && depth <= 0x1f;
  invariant(fits, 'a slot has no room for what it is to say');
  return (fingerprint << 24) | (units << 16) | (depth << STAMP_SHIFT) | pointerHigh(address);
}

/**
 * A bucket header is 8 bytes: the suffix of its subtable in the low half, local depth and state in
 * the high one. Its top byte is 0, so it matches no fingerprint.
 */
const NOT_READY = 1 << 8;

export function bucketHeaderHigh(depth: number, ready: boolean): number {
  return depth | (ready ? 0 : NOT_READY);
}

export function depthOf(headerHigh: number): number {
  return headerHigh & 0xff;
}

export function isReady(headerHigh: number): boolean {
  return (headerHigh & NOT_READY) === 0;
}

/**
 * Whether a key with this hash belongs to the bucket (RACE Algorithm 5, without its first test).
 */
export function ownsHash(headerLow: number, headerHigh: number, hash: number): boolean {
  const mask = (1 << depthOf(headerHigh)) - 1;
  return (hash & mask) === headerLow;
}
