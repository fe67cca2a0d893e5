import { type Address, UNIT_BYTES } from '../../verbs/index.ts';

/**
 * A leaf's entry is one word, so that a single CAS inserts, replaces or removes a record.
 *
 *   low half    pointer bits 0-31, in 64-byte units
 *   high half   fingerprint 24-31 | length in units 16-23 | flags 8-15 | pointer bits 32-39
 *   flags       FROZEN 8 | PENDING 9 | distance from the key's home 10-13
 *
 * An empty slot is 0. FROZEN is set in every slot, also in an empty one, when the leaf is replaced,
 * and never taken away: every CAS in flight fails. Where no slot is frozen, nothing of the leaf has
 * been replaced when it was read, so the bit does what the paper's fence keys and node versions do.
 */
export const SLOT_FROZEN = 1 << 8;
/** Claimed by an insertion that has not yet made sure that its key has no other slot. */
export const PENDING = 1 << 9;
const DISTANCE_SHIFT = 10;
const DISTANCE_MASK = 0xf << DISTANCE_SHIFT;
/** A neighbourhood is no larger: the distance has 4 bits. */
export const NEIGHBOURHOOD_MAX = 16;

export function isVacant(low: number, high: number): boolean {
  return low === 0 && (high & 0xff) === 0;
}

export function isLive(low: number, high: number): boolean {
  return !isVacant(low, high) && (high & PENDING) === 0;
}

export function recordOf(low: number, high: number): Address {
  return ((high & 0xff) * 2 ** 32 + (low >>> 0)) * UNIT_BYTES;
}

export function lengthOf(high: number): number {
  return (high >>> 16) & 0xff;
}

export function distanceOf(high: number): number {
  return (high & DISTANCE_MASK) >>> DISTANCE_SHIFT;
}

export function withDistance(high: number, distance: number): number {
  return (high & ~DISTANCE_MASK) | (distance << DISTANCE_SHIFT);
}

export function slotLow(record: Address): number {
  return (record / UNIT_BYTES) | 0;
}

export function slotHigh(
  record: Address,
  fingerprint: number,
  units: number,
  distance: number,
): number {
  const pointer = Math.floor(record / UNIT_BYTES / 2 ** 32);
  return (fingerprint << 24) | (units << 16) | (distance << DISTANCE_SHIFT) | pointer;
}
