import { HEADER_BYTES, KEY_BYTES_AND_KIND, pad8 } from '../../records/layout.ts';
import { type Address, Batch, type Operation, Scratch, UNIT_BYTES } from '../../verbs/index.ts';
import { headUnitsIn } from './marks.ts';
import { recordOf, unitsOfSlot } from './slot.ts';

/** Lines of a record that are read at first; a longer key costs one more READ. */
const KEY_UNITS = 2;
/** Records that are read in one doorbell. */
const RECORDS_PER_READ = 256;

/** What the first lines of a record tell. */
export interface RecordHead {
  /** A character for each byte. */
  key: string;
  /** Lines of its first block. */
  units: number;
}

/** The keys of the records that slots name, as strings of a character for each byte. */
export function* readKeys(slots: readonly { low: number; high: number }[]): Operation<string[]> {
  const heads = yield* readHeads(
    slots.length,
    (i) => recordOf(slots[i].low, slots[i].high),
    (i) => unitsOfSlot(slots[i].high),
  );
  return heads.map(({ key }) => key);
}

/** Keys and lengths of the records at these addresses, whose blocks are of `units` lines. */
export function readRecordHeads(
  records: readonly Address[],
  units: number,
): Operation<RecordHead[]> {
  return readHeads(
    records.length,
    (i) => records[i],
    () => units,
  );
}

function* readHeads(
  total: number,
  recordAt: (i: number) => Address,
  unitsAt: (i: number) => number,
): Operation<RecordHead[]> {
  const found: RecordHead[] = [];
  const heads = new Scratch(Math.min(RECORDS_PER_READ, total) * KEY_UNITS * UNIT_BYTES);
  const batch = new Batch();
  for (let first = 0; first < total; first += RECORDS_PER_READ) {
    const count = Math.min(RECORDS_PER_READ, total - first);
    batch.clear();
    for (let i = 0; i < count; i++) {
      const bytes = Math.min(unitsAt(first + i), KEY_UNITS) * UNIT_BYTES;
      batch.read(recordAt(first + i), bytes, heads, i * KEY_UNITS * UNIT_BYTES);
    }
    yield batch;
    for (let i = 0; i < count; i++) {
      const at = i * KEY_UNITS * UNIT_BYTES;
      const bytes = heads.i32[(at + KEY_BYTES_AND_KIND) >> 2] & 0xffff;
      const isWhole = HEADER_BYTES + bytes <= KEY_UNITS * UNIT_BYTES;
      const key = isWhole
        ? heads.buffer.latin1Slice(at + HEADER_BYTES, at + HEADER_BYTES + bytes)
        : yield* readLongKey(recordAt(first + i), bytes);
      found.push({ key, units: headUnitsIn(heads, at) });
    }
  }
  return found;
}

function* readLongKey(record: number, bytes: number): Operation<string> {
  const key = new Scratch(pad8(bytes));
  yield new Batch().read(record + HEADER_BYTES, pad8(bytes), key, 0);
  return key.buffer.latin1Slice(0, bytes);
}

/** A key's bytes as a string of a character for each. */
export function textOfKey(key: Uint8Array): string {
  return Buffer.from(key.buffer, key.byteOffset, key.length).latin1Slice(0, key.length);
}
