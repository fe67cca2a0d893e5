import { type Address, UNIT_BYTES } from '../../verbs/index.ts';

/**
 * A slot (section 4.1): signature 8 | length in lines 8 | address of the record in lines 48, from
 * the highest bit down. Without a length it is empty: 0, or what `vacated` says. The signature is
 * the key's, so most misses cost no READ.
 *
 * The last word of a bucket is the address of the next bucket of its chain; its lowest bit says
 * that the bucket is one: a bucket whose memory was lost reads as zeros and is no empty bucket.
 */
export const SLOTS = 7;
export const BUCKET_BYTES = 64;
export const NEXT = 8 * SLOTS;
export const VALID = 1;

const ADDRESS_HIGH_BITS = 16;
const LOW_VALUES = 2 ** 32;

export function signatureOf(h2: number): number {
  return h2 >>> 24;
}

export function slotLow(address: Address): number {
  return (address / UNIT_BYTES) | 0;
}

export function slotHigh(address: Address, units: number, signature: number): number {
  const high = Math.floor(address / UNIT_BYTES / LOW_VALUES);
  return (signature << 24) | (units << ADDRESS_HIGH_BITS) | high;
}

export function recordOf(low: number, high: number): Address {
  return ((high & 0xffff) * LOW_VALUES + (low >>> 0)) * UNIT_BYTES;
}

export function unitsOfSlot(high: number): number {
  return (high >>> ADDRESS_HIGH_BITS) & 0xff;
}

/** Of a slot's high half: a record has at least one line. */
export function isEmpty(high: number): boolean {
  return unitsOfSlot(high) === 0;
}

/**
 * The word of a slot whose key is deleted by the change of this number: an empty slot that never
 * was the same before, so that a CAS which puts the first key into it fails when it comes late.
 */
export function vacated(sequence: number): { low: number; high: number } {
  return {
    low: sequence | 0,
    high: Math.floor(sequence / LOW_VALUES) & (2 ** ADDRESS_HIGH_BITS - 1),
  };
}

export function isValid(nextLow: number): boolean {
  return (nextLow & VALID) !== 0;
}

/** Address of the next bucket of a chain, 0 at its end. */
export function nextOf(low: number, high: number): Address {
  return high * LOW_VALUES + ((low & ~VALID) >>> 0);
}
