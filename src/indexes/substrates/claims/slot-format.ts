import { type Address, UNIT_BYTES } from '../../../verbs/index.ts';

/**
 * A slot is one word that points to a record. All indexes that claim slots lay it out like this;
 * the bits between length and pointer are each index's own.
 *
 *   low half    pointer bits 0-31, in units of 64 bytes
 *   high half   fingerprint 24-31 | length in units 16-23 | flags | further pointer bits
 */
export interface SlotFormat {
  /** The pointer's bits in the high half. */
  readonly pointer: number;
  /** Set while an inserter has claimed the slot, until it knows that the key has no other slot. */
  readonly pending: number;
  /** Bits that a mover changes: if they differ, a mover may have changed the word. */
  readonly moved: number;
  /** Set in a word that only a mover may change; 0 if the index has no such bit. */
  readonly frozen: number;
  /** Bits of a claimed slot that other clients may change without affecting the claim. */
  readonly shared: number;
  /** The high half of the slot after it is emptied, from its present high half. */
  readonly emptied: (high: number) => number;
}

export function isVacantIn({ pointer }: SlotFormat, low: number, high: number): boolean {
  return low === 0 && (high & pointer) === 0;
}

export function pointerIn({ pointer }: SlotFormat, low: number, high: number): Address {
  return ((high & pointer) * 2 ** 32 + (low >>> 0)) * UNIT_BYTES;
}

export function lengthOf(high: number): number {
  return (high >>> 16) & 0xff;
}

export function pointerLow(address: Address): number {
  return (address / UNIT_BYTES) | 0;
}

export function pointerHigh(address: Address): number {
  return Math.floor(address / UNIT_BYTES / 2 ** 32);
}
