import { SLOT_UNITS_MAX, sizeClassOf } from '../../records/layout.ts';
import { type Address, UNIT_BYTES } from '../../verbs/index.ts';

/**
 * A leaf's entry is one word, so that a single CAS inserts, replaces or removes a record.
 *
 *   low half    pointer bits 0-31, in 64-byte units
 *   high half   fingerprint 24-31 | size class 19-23 | hint 14-18 | flags 8-13
 *               | pointer bits 32-39
 *   flags       FROZEN 8 | PENDING 9 | distance from the key's home 10-13
 *   size class  number of the class of the record's first block: a READ of its units stays within
 *               the block, and the record's header tells how much of it counts
 *   hint        where in the range of its leaf the key is (key-scale.ts), or 0: anywhere
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
const HINT_SHIFT = 14;
/** The highest hint; it has 5 bits. */
export const HINT_MAX = 31;
const HINT_MASK = HINT_MAX << HINT_SHIFT;
const CLASS_SHIFT = 19;
const CLASS_MASK = 0x1f;
/** A neighbourhood is no larger: the distance has 4 bits. */
export const NEIGHBOURHOOD_MAX = 16;

/** The number of the class of a first block of so many units; a longer one is in the last class. */
const CLASS_OF_UNITS = new Uint8Array(SLOT_UNITS_MAX + 1);
/** Units of a block of each class; a number that no slot should have reads as the last one. */
const UNITS_OF_CLASS = new Uint16Array(CLASS_MASK + 1).fill(sizeClassOf(SLOT_UNITS_MAX));
UNITS_OF_CLASS[0] = 0;
for (let units = 1, number = 0; units <= SLOT_UNITS_MAX; units++) {
  if (sizeClassOf(units) !== UNITS_OF_CLASS[number]) UNITS_OF_CLASS[++number] = sizeClassOf(units);
  CLASS_OF_UNITS[units] = number;
}

export function isVacant(low: number, high: number): boolean {
  return low === 0 && (high & 0xff) === 0;
}

export function isLive(low: number, high: number): boolean {
  return !isVacant(low, high) && (high & PENDING) === 0;
}

export function recordOf(low: number, high: number): Address {
  return ((high & 0xff) * 2 ** 32 + (low >>> 0)) * UNIT_BYTES;
}

/**
 * Units of the record's first block, of which the record may leave the last ones empty. The largest
 * (at least `SLOT_UNITS_MAX`) means "this many or more".
 */
export function lengthOf(high: number): number {
  return UNITS_OF_CLASS[(high >>> CLASS_SHIFT) & CLASS_MASK];
}

/** Where in the range of its leaf the key is, 1 to `HINT_MAX`; 0 for anywhere. */
export function hintOf(high: number): number {
  return (high & HINT_MASK) >>> HINT_SHIFT;
}

export function withHint(high: number, hint: number): number {
  return (high & ~HINT_MASK) | (hint << HINT_SHIFT);
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

/** `units` of the record's first block; what is above `SLOT_UNITS_MAX` counts as that many. */
export function slotHigh(
  record: Address,
  fingerprint: number,
  units: number,
  distance: number,
  hint: number,
): number {
  const pointer = Math.floor(record / UNIT_BYTES / 2 ** 32);
  const number = CLASS_OF_UNITS[units < SLOT_UNITS_MAX ? units : SLOT_UNITS_MAX];
  const place = (distance << DISTANCE_SHIFT) | (hint << HINT_SHIFT);
  return (fingerprint << 24) | (number << CLASS_SHIFT) | place | pointer;
}
