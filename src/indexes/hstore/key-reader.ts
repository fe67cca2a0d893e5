import { HEADER_BYTES, KEY_BYTES_AND_KIND, pad8 } from '../../records/layout.ts';
import { Batch, type Operation, Scratch, UNIT_BYTES } from '../../verbs/index.ts';
import { recordOf, unitsOfSlot } from './slot.ts';

/** Lines of a record that are read at first; a longer key costs one more READ. */
const KEY_UNITS = 2;
/** Records that are read in one doorbell. */
const RECORDS_PER_READ = 256;

/** The keys of the records that slots name, as strings of a character for each byte. */
export function* readKeys(slots: readonly { low: number; high: number }[]): Operation<string[]> {
  const keys: string[] = [];
  const heads = new Scratch(RECORDS_PER_READ * KEY_UNITS * UNIT_BYTES);
  const batch = new Batch();
  for (let first = 0; first < slots.length; first += RECORDS_PER_READ) {
    const count = Math.min(RECORDS_PER_READ, slots.length - first);
    batch.clear();
    for (let i = 0; i < count; i++) {
      const { low, high } = slots[first + i];
      const bytes = Math.min(unitsOfSlot(high), KEY_UNITS) * UNIT_BYTES;
      batch.read(recordOf(low, high), bytes, heads, i * KEY_UNITS * UNIT_BYTES);
    }
    yield batch;
    for (let i = 0; i < count; i++) {
      const at = i * KEY_UNITS * UNIT_BYTES;
      const bytes = heads.i32[(at + KEY_BYTES_AND_KIND) >> 2] & 0xffff;
      const isWhole = HEADER_BYTES + bytes <= KEY_UNITS * UNIT_BYTES;
      const { low, high } = slots[first + i];
      if (!isWhole) keys.push(yield* readLongKey(recordOf(low, high), bytes));
      else keys.push(heads.buffer.latin1Slice(at + HEADER_BYTES, at + HEADER_BYTES + bytes));
    }
  }
  return keys;
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
