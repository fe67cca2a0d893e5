import { UNIT_BYTES } from '../verbs/index.ts';

/**
 * A record (the paper's key-value block):
 *
 *   0  checksum 32     finalised over key hash, value, lengths, codec and version
 *   4  value bytes 32
 *   8  key bytes 16 | codec 8 | flags 8
 *  12  version 32
 *  16  key, zero-padded to 8 bytes
 *      [link of 16 bytes when CHAINED: next address 8, next units 4, value bytes in this block 4]
 *      [times of 16 bytes when TIMED, counted as the beginning of the value: see times.ts]
 *      value, zero-padded to 8 bytes
 *
 * 16-byte keys with 32-byte values take one 64-byte unit. A block that other clients may know is
 * never changed: an update writes another block.
 */
export const CHECKSUM = 0;
export const VALUE_BYTES = 4;
export const KEY_BYTES_AND_KIND = 8;
export const VERSION = 12;
export const HEADER_BYTES = 16;
export const LINK_BYTES = 16;

export const FLAG_CHAINED = 1;
/** The value begins with times. */
export const FLAG_TIMED = 2;
/** The deadline is a span that restarts with each access. */
export const FLAG_SLIDING = 4;

/** Times in front of a value; the first block of a chained record has all of them. */
export const TIMES_BYTES = 16;

export const KEY_BYTES_MAX = 65_535;
export const VALUE_BYTES_MAX = 64 * 1024 * 1024;

/**
 * A slot's length field has 8 bits of 64-byte units (RACE section 3.3). The largest value means
 * "this much or more": the header then tells, which costs one more READ.
 */
export const SLOT_UNITS_MAX = 255;
const HEAD_BYTES_MAX = SLOT_UNITS_MAX * UNIT_BYTES;

/**
 * A further block of a chained value:
 *   0 next address 8 | 8 next units 4 | 12 value bytes here 4 | 16 head address 8 | 24 unused 8 |
 *   32 value
 * The head's address lets a sweep find out whether the block is in use. Eight fill a chunk.
 */
export const CONTINUATION_HEADER_BYTES = 32;
export const CONTINUATION_UNITS = 511;
const CONTINUATION_VALUE_BYTES = CONTINUATION_UNITS * UNIT_BYTES - CONTINUATION_HEADER_BYTES;

export function pad8(bytes: number): number {
  return (bytes + 7) & ~7;
}

/** Offset of the value (or link) in a record whose key has `keyBytes`. */
export function valueOffset(keyBytes: number): number {
  return HEADER_BYTES + pad8(keyBytes);
}

/** The most bytes of a record in front of its value: key, link and times. */
export function headBytes(keyBytes: number): number {
  return valueOffset(keyBytes) + LINK_BYTES + TIMES_BYTES;
}

/** Bytes of a record in front of its value; `kind` is the word of its header. */
export function bytesToValue(kind: number): number {
  const flags = kind >>> 24;
  const link = (flags & FLAG_CHAINED) === 0 ? 0 : LINK_BYTES;
  const times = (flags & FLAG_TIMED) === 0 ? 0 : TIMES_BYTES;
  return valueOffset(kind & 0xffff) + link + times;
}

export function unitsOf(bytes: number): number {
  return Math.ceil(bytes / UNIT_BYTES);
}

/** Whether key and value fit in one block that a slot's length field can express. */
export function fitsOneBlock(keyBytes: number, valueBytes: number): boolean {
  return valueOffset(keyBytes) + pad8(valueBytes) <= HEAD_BYTES_MAX;
}

export interface ChainPlan {
  headUnits: number;
  /** Value bytes in the head. */
  inlineBytes: number;
  /** Value bytes and units of each further block. */
  pieces: { bytes: number; units: number }[];
}

/** Lines of the first block of a record. */
export function headUnitsOf(keyBytes: number, valueBytes: number, chained: boolean): number {
  if (!chained) return unitsOf(valueOffset(keyBytes) + pad8(valueBytes));
  return unitsOf(valueOffset(keyBytes) + LINK_BYTES + inlineBytesOf(keyBytes, valueBytes));
}

/** Value bytes of a chained record that its first block holds. */
function inlineBytesOf(keyBytes: number, valueBytes: number): number {
  const room = HEAD_BYTES_MAX - valueOffset(keyBytes) - LINK_BYTES;
  return Math.min(valueBytes, Math.max(TIMES_BYTES, room));
}

/** How a record that does not fit one block is cut into blocks. */
export function planChain(keyBytes: number, valueBytes: number): ChainPlan {
  const before = valueOffset(keyBytes) + LINK_BYTES;
  const inlineBytes = inlineBytesOf(keyBytes, valueBytes);
  const pieces: ChainPlan['pieces'] = [];
  for (let rest = valueBytes - inlineBytes; rest > 0; ) {
    const bytes = Math.min(rest, CONTINUATION_VALUE_BYTES);
    pieces.push({ bytes, units: sizeClassOf(unitsOf(CONTINUATION_HEADER_BYTES + bytes)) });
    rest -= bytes;
  }
  return { headUnits: unitsOf(before + inlineBytes), inlineBytes, pieces };
}

/** Bytes of the blocks that a record takes. */
export function blockBytesOf(keyBytes: number, valueBytes: number): number {
  if (fitsOneBlock(keyBytes, valueBytes)) {
    return UNIT_BYTES * sizeClassOf(unitsOf(valueOffset(keyBytes) + pad8(valueBytes)));
  }
  const { headUnits, pieces } = planChain(keyBytes, valueBytes);
  const units = pieces.reduce((sum, piece) => sum + piece.units, sizeClassOf(headUnits));
  return UNIT_BYTES * units;
}

/**
 * Block sizes in units: every size up to 8, then four to each doubling (at most a fifth is wasted).
 * Sizes above 256 units occur only for long keys and continuations.
 */
export function sizeClassOf(units: number): number {
  if (units <= 8) return units;
  if (units > 256 && units <= CONTINUATION_UNITS) return CONTINUATION_UNITS;
  const step = 2 ** (Math.floor(Math.log2(units - 1)) - 2);
  return Math.ceil(units / step) * step;
}

/** The class of each length that a slot can express, so that the hot path computes no logarithm. */
export const SLOT_SIZE_CLASS: Readonly<Uint16Array> = Uint16Array.from(
  { length: SLOT_UNITS_MAX + 1 },
  (_, units) => sizeClassOf(units),
);
