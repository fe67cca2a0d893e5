import { type Address, highHalf, lowHalf, type Scratch, UNIT_BYTES } from '../../../verbs/index.ts';
import type { Word } from './word.ts';

/**
 * A slot (section 4.1): signature 8 | length in lines 8 | address of the record in lines 48, from
 * the highest bit down. Without a length it is empty: 0, or what `vacated` says. The signature is
 * the key's, so most misses cost no READ.
 *
 * The last word of a bucket is the address of the next bucket of its chain. Its lowest bit marks a
 * valid bucket: lost memory reads as zeros, and must not look like an empty bucket. Five more bits
 * count how often the table has grown, so that a client that knows a smaller table does not mistake
 * a bucket of a larger one for its own.
 */
export const SLOTS = 7;
export const BUCKET_BYTES = 64;
export const NEXT = 8 * SLOTS;
const MARK_BITS = 63;

const ADDRESS_HIGH_BITS = 16;
const LOW_VALUES = 2 ** 32;

/** A slot of the table that names a record. */
export interface NamedSlot extends Word {
  readonly slot: Address;
}

export function signatureOf(h2: number): number {
  return h2 >>> 24;
}

/** The word of a slot that names a record of `units` lines. */
export function slotWord(record: Address, units: number, signature: number): Word {
  const line = record / UNIT_BYTES;
  const high = (signature << 24) | (units << ADDRESS_HIGH_BITS) | Math.floor(line / LOW_VALUES);
  return { low: line | 0, high };
}

export function recordOf({ low, high }: Word): Address {
  return ((high & 0xffff) * LOW_VALUES + (low >>> 0)) * UNIT_BYTES;
}

export function unitsOfSlot(high: number): number {
  return (high >>> ADDRESS_HIGH_BITS) & 0xff;
}

/** Whether the slot with this high half is empty: a record has at least one line. */
export function isEmpty(high: number): boolean {
  return unitsOfSlot(high) === 0;
}

/** The first empty slot of the bucket that stands at `at`, -1 for none. */
export function emptySlotIn({ i32 }: Scratch, at: number): number {
  for (let slot = 0; slot < SLOTS; slot++) {
    if (isEmpty(i32[(at >> 2) + 2 * slot + 1])) return slot;
  }
  return -1;
}

/**
 * The word of a slot that the change with this number has emptied. No two such words are the same,
 * so that a late CAS which puts the first key into the slot fails.
 */
export function vacated(sequence: number): Word {
  const high = Math.floor(sequence / LOW_VALUES) & (2 ** ADDRESS_HIGH_BITS - 1);
  return { low: sequence | 0, high };
}

/** The mark of every bucket of a table that has grown `growth` times. */
export function markOf(growth: number): number {
  return 2 * growth + 1;
}

/** The mark of the bucket at `at`; 0 for a lost bucket. */
export function markIn(words: Scratch, at: number): number {
  return lowHalf(words, at + NEXT) & MARK_BITS;
}

/** Address of the bucket behind the one at `at`, 0 at the end of its chain. */
export function nextIn(words: Scratch, at: number): Address {
  return highHalf(words, at + NEXT) * LOW_VALUES + ((lowHalf(words, at + NEXT) & ~MARK_BITS) >>> 0);
}
