import { HEADER_BYTES, KEY_BYTES_AND_KIND, pad8 } from '../../records/layout.ts';
import { type Address, Batch, type Operation, Scratch, UNIT_BYTES } from '../../verbs/index.ts';
import { type PaddedKey, paddedBytes, textOfKey } from './key-bytes.ts';
import { headUnitsIn } from './marks.ts';
import { recordOf, unitsOfSlot } from './slot.ts';

/** Lines of a record that are read at first; a longer key costs one more READ. */
const KEY_UNITS = 2;
const HEAD_BYTES = KEY_UNITS * UNIT_BYTES;
/** Records that are read in one doorbell. */
const RECORDS_PER_READ = 1024;

/** Which records' heads are to be read. */
export interface Records {
  readonly count: number;
  address(i: number): Address;
  /** Lines of the record's block, or fewer. */
  units(i: number): number;
}

/** The key is there until the visit returns. `units` are the lines of the record's first block. */
export type HeadVisitor = (i: number, key: PaddedKey, units: number) => void;

type SlotWords = readonly { low: number; high: number }[];

/** Reads the keys of records for one operation, which may have millions of them. */
export class HeadReader {
  readonly #heads = new Scratch(HEAD_BYTES);
  readonly #batch = new Batch();

  /** Visits the keys of records in their order, as many in one doorbell as there can be. */
  *read(records: Records, visit: HeadVisitor): Operation<void> {
    const { count } = records;
    this.#heads.ensure(Math.min(RECORDS_PER_READ, count) * HEAD_BYTES);
    for (let first = 0; first < count; first += RECORDS_PER_READ) {
      const some = Math.min(RECORDS_PER_READ, count - first);
      yield this.#post(records, first, some);
      const { u8, i32 } = this.#heads;
      const head = { u8, i32, at: 0, bytes: 0 };
      for (let i = 0; i < some; i++) {
        const at = i * HEAD_BYTES;
        const units = headUnitsIn(this.#heads, at);
        const isWhole = this.#adopt(head, at);
        const key = isWhole ? head : yield* readLongKey(records.address(first + i), head.bytes);
        visit(first + i, key, units);
      }
    }
  }

  #post(records: Records, first: number, some: number): Batch {
    const batch = this.#batch.clear();
    for (let i = 0; i < some; i++) {
      const units = Math.min(records.units(first + i), KEY_UNITS);
      batch.read(records.address(first + i), units * UNIT_BYTES, this.#heads, i * HEAD_BYTES);
    }
    return batch;
  }

  /** Makes the key of the record that stands at `at` one that can be hashed there, if whole. */
  #adopt(head: { at: number; bytes: number }, at: number): boolean {
    const { u8, i32 } = this.#heads;
    const bytes = i32[(at + KEY_BYTES_AND_KIND) >> 2] & 0xffff;
    head.at = at + HEADER_BYTES;
    head.bytes = bytes;
    const end = head.at + paddedBytes(bytes);
    if (end > at + HEAD_BYTES) return false;
    for (let i = head.at + bytes; i < end; i++) u8[i] = 0;
    return true;
  }
}

function* readLongKey(record: Address, bytes: number): Operation<PaddedKey> {
  const key = new Scratch(paddedBytes(bytes));
  yield new Batch().read(record + HEADER_BYTES, pad8(bytes), key, 0);
  key.u8.fill(0, bytes);
  return { u8: key.u8, i32: key.i32, at: 0, bytes };
}

/** The keys of the records that slots name, each in memory of its own. */
export function* readKeys(slots: SlotWords): Operation<PaddedKey[]> {
  const keys: PaddedKey[] = [];
  yield* new HeadReader().read(recordsOfSlots(slots), (_, { i32, at, bytes }) => {
    const words = i32.slice(at >> 2, (at + paddedBytes(bytes)) >> 2);
    keys.push({ u8: new Uint8Array(words.buffer), i32: words, at: 0, bytes });
  });
  return keys;
}

/** The same as strings of a character for each byte. */
export function* readKeyTexts(slots: SlotWords): Operation<string[]> {
  const texts: string[] = [];
  yield* new HeadReader().read(recordsOfSlots(slots), (_, { u8, at, bytes }) => {
    texts.push(textOfKey(u8.subarray(at, at + bytes)));
  });
  return texts;
}

function recordsOfSlots(slots: SlotWords): Records {
  return {
    count: slots.length,
    address: (i) => recordOf(slots[i].low, slots[i].high),
    units: (i) => unitsOfSlot(slots[i].high),
  };
}
