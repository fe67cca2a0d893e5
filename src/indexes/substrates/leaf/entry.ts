import { finalMix } from '../../../records/hash.ts';
import { FLAG_SLIDING, FLAG_TIMED, pad8, TIMES_BYTES } from '../../../records/layout.ts';
import { UNCHECKED_BYTES } from '../../../records/times.ts';
import { type Address, readInteger, type Scratch } from '../../../verbs/index.ts';
import { CONTENT_AT, ITEM_AT, SUM_AT } from './layout.ts';

/** Flags of an item; the high half of an occupied entry's item word is never 0. */
const OCCUPIED = 1 << 31;
const INDIRECT = 1 << 30;
/** Position of an inline item's flags, which are those of a record with times: FLAG_TIMED … */
const FLAGS_SHIFT = 24;
const FLAGS = FLAG_TIMED | FLAG_SLIDING;
const HOP_SHIFT = 16;
/** The checksum's bits in the high half of its word; the others are the hop bitmap. */
export const SUM_HIGH_MASK = 0xffff;

/** In place of an entry's number: there is no such entry. */
export const NONE = -1;

/** Offsets in the content of an indirect item. */
export const FINGERPRINT_AT = CONTENT_AT;
export const LINES_AT = CONTENT_AT + 4;
export const RECORD_AT = CONTENT_AT + 8;
export const PREFIX_AT = CONTENT_AT + 16;

/** The high half of the item word of an inline item. */
export function inlineItem(
  keyBytes: number,
  valueBytes: number,
  codec: number,
  flags: number,
): number {
  return OCCUPIED | (flags << FLAGS_SHIFT) | (codec << 16) | (valueBytes << 8) | keyBytes;
}

/** The item word of an indirect entry, with the lowest 8 bits of the key's length. */
export function indirectItem(keyBytes: number): number {
  return OCCUPIED | INDIRECT | (keyBytes & 0xff);
}

export function itemHigh({ i32 }: Scratch, entry: number): number {
  return i32[(entry + ITEM_AT + 4) >> 2];
}

export function isEmpty(item: number): boolean {
  return item === 0;
}

export function isIndirect(item: number): boolean {
  return (item & INDIRECT) !== 0;
}

/** Length of an inline item's key; of an indirect item's key only the lowest 8 bits. */
export function keyBytesOf(item: number): number {
  return item & 0xff;
}

export function valueBytesOf(item: number): number {
  return (item >>> 8) & 0xff;
}

/** The codec's number: see records/codec.ts. */
export function codecOf(item: number): number {
  return (item >>> 16) & 0xff;
}

/** The record flags of an inline item. */
export function flagsIn(item: number): number {
  return (item >>> FLAGS_SHIFT) & FLAGS;
}

export function versionOf({ i32 }: Scratch, entry: number): number {
  return i32[(entry + ITEM_AT) >> 2] >>> 0;
}

export function hopsOf({ i32 }: Scratch, entry: number): number {
  return i32[(entry + SUM_AT + 4) >> 2] >>> HOP_SHIFT;
}

export function setHops({ i32 }: Scratch, entry: number, hops: number): void {
  const word = (entry + SUM_AT + 4) >> 2;
  i32[word] = (i32[word] & SUM_HIGH_MASK) | (hops << HOP_SHIFT);
}

export function fingerprintOf({ i32 }: Scratch, entry: number): number {
  return i32[(entry + FINGERPRINT_AT) >> 2];
}

export function recordOf(words: Scratch, entry: number): Address {
  return readInteger(words, entry + RECORD_AT);
}

export function linesOf({ i32 }: Scratch, entry: number): number {
  return i32[(entry + LINES_AT) >> 2] >>> 0;
}

/** Offset of an inline item's value in its entry. */
export function valueAt(item: number): number {
  return CONTENT_AT + pad8(keyBytesOf(item));
}

/**
 * Checksums of the entries of a leaf: 48 bits over an item without the access word of its times,
 * seeded with the leaf's identity.
 */
export class EntrySums {
  readonly #itemBytes: number;
  #low = 0;
  #high = 0;

  constructor(itemBytes: number) {
    this.#itemBytes = itemBytes;
  }

  /** Bytes of an entry that its item uses. */
  usedBytes(item: number): number {
    if (isIndirect(item)) return this.#itemBytes;
    return valueAt(item) + pad8(valueBytesOf(item));
  }

  /** Whether an occupied entry is one whole item of the leaf with this identity. */
  holds(words: Scratch, entry: number, idLow: number, idHigh: number): boolean {
    const item = itemHigh(words, entry);
    const used = this.usedBytes(item);
    // No item has such lengths: these are words of several items.
    if (used > this.#itemBytes) return false;
    if (flagsIn(item) !== 0 && valueBytesOf(item) < TIMES_BYTES) return false;
    this.#compute(words, entry, used, idLow, idHigh);
    const { i32 } = words;
    const sum = (entry + SUM_AT) >> 2;
    return i32[sum] === this.#low && (i32[sum + 1] & SUM_HIGH_MASK) === this.#high;
  }

  /** Whether every occupied entry of a leaf's image is whole; `entries` has their offsets. */
  allHold(
    words: Scratch,
    image: number,
    entries: Int32Array,
    idLow: number,
    idHigh: number,
  ): boolean {
    for (let i = 0; i < entries.length; i++) {
      const entry = image + entries[i];
      if (!isEmpty(itemHigh(words, entry)) && !this.holds(words, entry, idLow, idHigh))
        return false;
    }
    return true;
  }

  /** Writes the checksum of an entry that has its item and hop bitmap. */
  seal(words: Scratch, entry: number, idLow: number, idHigh: number): void {
    this.#compute(words, entry, this.usedBytes(itemHigh(words, entry)), idLow, idHigh);
    const { i32 } = words;
    const sum = (entry + SUM_AT) >> 2;
    i32[sum] = this.#low;
    i32[sum + 1] = (i32[sum + 1] & ~SUM_HIGH_MASK) | this.#high;
  }

  #compute({ i32 }: Scratch, entry: number, used: number, idLow: number, idHigh: number): void {
    let low = idLow;
    let high = idHigh;
    const end = (entry + used) >> 2;
    const item = i32[(entry + ITEM_AT + 4) >> 2];
    const isTimed = flagsIn(item) !== 0;
    let word = (entry + ITEM_AT) >> 2;
    for (let stop = isTimed ? (entry + valueAt(item)) >> 2 : end; ; stop = end) {
      for (; word < stop; word++) {
        const one = i32[word];
        low = Math.imul(low ^ one, 0x9e3779b1);
        low ^= low >>> 15;
        high = (Math.imul((high << 13) | (high >>> 19), 5) + one) | 0;
      }
      if (stop === end) break;
      // Skips the access word.
      word += UNCHECKED_BYTES >> 2;
    }
    this.#low = finalMix(low);
    this.#high = finalMix(high ^ low) >>> 16;
  }
}
