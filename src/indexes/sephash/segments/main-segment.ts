import { invariant } from '../../../errors.ts';
import { BLOCK_UNITS_MAX } from '../../../pool/layout.ts';
import {
  type Address,
  readInteger,
  type Scratch,
  UNIT_BYTES,
  writeInteger,
} from '../../../verbs/index.ts';
import { fingerprintOf, isPad, markHigh } from './entry.ts';

/**
 * Every merge writes a new MainSegment.
 *
 *    0  entries 32 | dropped 32
 *    8  suffix 32 | local depth 32
 *   16  address of the CurSegment's entries
 *   24  header's address of the sibling that this merge split off, else 0
 *   32  size class of its block, which may be larger than necessary
 *   40  its block, while compact.ts keeps the MainSegment in the index's spare place; else 0
 *   64  FPTable: for each fingerprint where its entries end, 256 x 16 bits
 *  576  entries, sorted by fingerprint, and marks among them (filter.ts): a mark precedes the
 *       entries of its fingerprints
 *       entries that this merge dropped: the next merge retires their records
 *
 * Only marks change. The FPTable's positions count them; the number of entries does not.
 */
const COUNT = 0;
const DROPPED = 4;
const SUFFIX = 8;
const DEPTH = 12;
const SLOTS = 16;
const SIBLING = 24;
const UNITS = 32;
const HOME = 40;
export const FPTABLE = 64;
export const FINGERPRINTS = 256;
export const MAIN_HEADER_BYTES = FPTABLE + 2 * FINGERPRINTS;
/** What a client reads of a MainSegment if it caches no FPTables. */
export const MAIN_LINE_BYTES = FPTABLE;

export interface MainHeader {
  /** Entries, without the marks among them. */
  count: number;
  dropped: number;
  suffix: number;
  depth: number;
  slots: Address;
  sibling: Address;
  /** Size class of its block. */
  units: number;
  /** Its block, while the MainSegment is in the spare place; else 0. */
  home: Address;
}

/** The block that belongs to the MainSegment at address `main`. */
export function blockOfMain(main: Address, { home }: MainHeader): Address {
  return home === 0 ? main : home;
}

export function parseMainHeader(scratch: Scratch, at: number): MainHeader {
  const { i32 } = scratch;
  return {
    count: i32[(at + COUNT) >> 2],
    dropped: i32[(at + DROPPED) >> 2],
    suffix: i32[(at + SUFFIX) >> 2],
    depth: i32[(at + DEPTH) >> 2],
    slots: readInteger(scratch, at + SLOTS),
    sibling: readInteger(scratch, at + SIBLING),
    units: i32[(at + UNITS) >> 2],
    home: readInteger(scratch, at + HOME),
  };
}

/** Where the entries of each fingerprint end. */
export function parseFpTable({ u8 }: Scratch, at: number): Uint16Array {
  return new Uint16Array(u8.slice(at + FPTABLE, at + MAIN_HEADER_BYTES).buffer);
}

/** As `parseFpTable`, without a copy: valid until the scratch changes. */
export function fpTableIn({ u8 }: Scratch, at: number): Uint16Array {
  return new Uint16Array(u8.buffer, u8.byteOffset + at + FPTABLE, FINGERPRINTS);
}

/**
 * Fills a scratch with the image of a MainSegment; returns its size in bytes. Entries are pairs of
 * 32-bit halves (low, high, low, high …), sorted by fingerprint, with so many marks among them.
 */
export function writeMain(
  image: Scratch,
  header: Omit<MainHeader, 'count' | 'dropped'>,
  entries: Int32Array,
  dropped: Int32Array,
  marks: number,
): number {
  const bytes = mainBytes((entries.length + dropped.length) / 2);
  image.ensure(bytes);
  image.u8.fill(0, 0, MAIN_HEADER_BYTES);
  const { i32 } = image;
  i32[COUNT >> 2] = entries.length / 2 - marks;
  i32[DROPPED >> 2] = dropped.length / 2;
  i32[SUFFIX >> 2] = header.suffix;
  i32[DEPTH >> 2] = header.depth;
  writeInteger(image, SLOTS, header.slots);
  writeInteger(image, SIBLING, header.sibling);
  i32[UNITS >> 2] = header.units;
  writeInteger(image, HOME, header.home);
  const ends = fpTableIn(image, 0);
  const average = Math.ceil(entries.length / 2 / FINGERPRINTS);
  for (let fp = 0, end = 0; fp < FINGERPRINTS; fp++) {
    end = endOf(entries, fp, end + average);
    ends[fp] = end;
  }
  i32.set(entries, MAIN_HEADER_BYTES >> 2);
  i32.set(dropped, (MAIN_HEADER_BYTES >> 2) + entries.length);
  setMarks(image, marks, 0);
  return bytes;
}

/** Gives all marks in the image of a MainSegment this value. */
export function setMarks(image: Scratch, marks: number, value: number): void {
  const ends = fpTableIn(image, 0);
  for (let mark = 0; mark < marks; mark++) {
    const fingerprint = (FINGERPRINTS / marks) * mark;
    const position = fingerprint === 0 ? 0 : ends[fingerprint - 1];
    invariant(
      image.i32[(MAIN_HEADER_BYTES >> 2) + 2 * position + 1] === markHigh(fingerprint),
      'a MainSegment lacks a mark',
    );
    image.i32[(MAIN_HEADER_BYTES >> 2) + 2 * position] = value;
  }
}

/** Removes the marks among entries by moving the entries up. */
export function withoutMarks(entries: Int32Array): Int32Array {
  let to = 0;
  for (let at = 0; at < entries.length; at += 2) {
    if (isPad(entries[at + 1])) continue;
    entries[to++] = entries[at];
    entries[to++] = entries[at + 1];
  }
  return entries.subarray(0, to);
}

/** The entries of an empty MainSegment: its marks. */
export function marksAlone(marks: number): Int32Array {
  const words = new Int32Array(2 * marks);
  for (let mark = 0; mark < marks; mark++) {
    words[2 * mark + 1] = markHigh((FINGERPRINTS / marks) * mark);
  }
  return words;
}

/** Where the entries up to this fingerprint end, searched for from a guess. */
function endOf(entries: Int32Array, fp: number, guess: number): number {
  let end = Math.min(guess, entries.length / 2);
  while (end > 0 && fingerprintOf(entries[2 * end - 1]) > fp) end--;
  while (2 * end < entries.length && fingerprintOf(entries[2 * end + 1]) <= fp) end++;
  return end;
}

/** Writes the address of the MainSegment's block into its image. */
export function writeHome(image: Scratch, home: Address): void {
  writeInteger(image, HOME, home);
}

/** Bytes of a MainSegment of so many entries and marks. */
export function mainBytes(entries: number): number {
  return MAIN_HEADER_BYTES + 8 * entries;
}

/** How many entries and marks fit in a MainSegment of this size. */
export function mainEntries(bytes: number): number {
  return Math.floor((bytes - MAIN_HEADER_BYTES) / 8);
}

/** The most entries that the largest block can hold. Hashing keeps segments far below it. */
export const MAIN_ENTRIES_MAX = mainEntries(BLOCK_UNITS_MAX * UNIT_BYTES);
