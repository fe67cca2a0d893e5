import { control } from '../../../pool/control.ts';
import type { Allocator } from '../../../pool/memory/allocator.ts';
import { isCurrentState } from '../../../pool/memory/block-state.ts';
import { HASH_PADDING } from '../../../records/hash.ts';
import {
  FLAG_CHAINED,
  HEADER_BYTES,
  headUnitsOf,
  KEY_BYTES_AND_KIND,
  pad8,
  SLOT_UNITS_MAX,
  VALUE_BYTES,
} from '../../../records/layout.ts';
import {
  type Address,
  Batch,
  NULL_ADDRESS,
  type Operation,
  Scratch,
  UNIT_BYTES,
} from '../../../verbs/index.ts';
import { classOfHead } from '../../substrates/record-io.ts';
import { recordOf, unitsOfSlot } from './slot.ts';
import type { Word } from './word.ts';

/** Lines of a record that are read at first; a longer key costs one more READ. */
const KEY_UNITS = 2;
const HEAD_BYTES = KEY_UNITS * UNIT_BYTES;
/** Records that are read in one doorbell. */
const RECORDS_PER_READ = 1024;

/** A key in memory: `bytes` bytes from offset `at` on. */
export interface KeyBytes {
  readonly u8: Uint8Array;
  readonly at: number;
  readonly bytes: number;
}

/** A key that is padded with zeros to a multiple of 16 bytes, so that it can be hashed in place. */
export interface PaddedKey extends KeyBytes {
  /** The same memory; `at` is a multiple of 4. */
  readonly i32: Int32Array;
}

/** Bytes of a key and of the zeros behind it. */
export function paddedBytes(bytes: number): number {
  return Math.ceil(bytes / HASH_PADDING) * HASH_PADDING;
}

/** A key as a string with a character for each byte: such strings compare as the bytes do. */
export function textOfKey(key: Uint8Array): string {
  return Buffer.from(key.buffer, key.byteOffset, key.length).latin1Slice(0, key.length);
}

/** The key is there until the visit returns. `units` are the lines of the record's first block. */
type HeadVisitor = (i: number, key: PaddedKey, units: number) => void;

/** Visits the keys of the records that slots name, in their order, 1024 in a doorbell. */
export function* readHeads(slots: readonly Word[], visit: HeadVisitor): Operation<void> {
  const heads = new Scratch(Math.min(RECORDS_PER_READ, slots.length) * HEAD_BYTES);
  const batch = new Batch();
  for (let first = 0; first < slots.length; first += RECORDS_PER_READ) {
    const end = Math.min(slots.length, first + RECORDS_PER_READ);
    batch.clear();
    for (let i = first; i < end; i++) {
      const units = Math.min(unitsOfSlot(slots[i].high), KEY_UNITS);
      batch.read(recordOf(slots[i]), units * UNIT_BYTES, heads, (i - first) * HEAD_BYTES);
    }
    yield batch;
    for (let i = first; i < end; i++) {
      const at = (i - first) * HEAD_BYTES;
      const units = headUnitsIn(heads, at);
      visit(i, yield* keyOf(heads, at, slots[i]), units);
    }
  }
}

/** The key of the record at `at`, padded with zeros. Reads the key again if it was cut off. */
function* keyOf(heads: Scratch, at: number, slot: Word): Operation<PaddedKey> {
  const bytes = heads.i32[(at + KEY_BYTES_AND_KIND) >> 2] & 0xffff;
  const padded = paddedBytes(bytes);
  const isCut = HEADER_BYTES + padded > HEAD_BYTES;
  const [words, start] = isCut ? [new Scratch(padded), 0] : [heads, at + HEADER_BYTES];
  if (isCut) yield new Batch().read(recordOf(slot) + HEADER_BYTES, pad8(bytes), words, 0);
  words.u8.fill(0, start + bytes, start + padded);
  return { u8: words.u8, i32: words.i32, at: start, bytes };
}

/** The keys of the records that slots name, each in memory of its own. */
export function* readKeys(slots: readonly Word[]): Operation<PaddedKey[]> {
  const keys: PaddedKey[] = [];
  yield* readHeads(slots, (_, { i32, at, bytes }) => {
    const words = i32.slice(at >> 2, (at + paddedBytes(bytes)) >> 2);
    keys.push({ u8: new Uint8Array(words.buffer), i32: words, at: 0, bytes });
  });
  return keys;
}

/**
 * Address of the state byte of the record that a slot names; 0 for an empty slot. The size of a
 * long record's block is not in the slot, but in the record's header.
 */
export function* stateByteOf(allocator: Allocator, slot: Word): Operation<Address> {
  const record = recordOf(slot);
  const units = unitsOfSlot(slot.high);
  if (units === 0) return NULL_ADDRESS;
  const head = units < SLOT_UNITS_MAX ? units : yield* headUnitsAt(record);
  return allocator.stateByteOf(record, classOfHead(head));
}

function* headUnitsAt(record: Address): Operation<number> {
  const header = new Scratch(HEADER_BYTES);
  yield new Batch().read(record, HEADER_BYTES, header, 0);
  return headUnitsIn(header, 0);
}

/** Lines of the first block of a record whose header was READ. */
function headUnitsIn({ i32 }: Scratch, at: number): number {
  const kind = i32[(at + KEY_BYTES_AND_KIND) >> 2];
  const isChained = ((kind >>> 24) & FLAG_CHAINED) !== 0;
  return headUnitsOf(kind & 0xffff, i32[(at + VALUE_BYTES) >> 2] >>> 0, isChained);
}

/** Whether the record that a slot names is marked as current. */
export function* isMarked(allocator: Allocator, slot: Word): Operation<boolean> {
  const at = yield* stateByteOf(allocator, slot);
  const word = yield* control.readBytes(Math.floor(at / 8) * 8, 8);
  return isCurrentState(word[at % 8]);
}
