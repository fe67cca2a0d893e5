import {
  bytesToValue,
  FLAG_CHAINED,
  headBytes,
  headUnitsOf,
  KEY_BYTES_AND_KIND,
  unitsOf,
  VALUE_BYTES,
} from '../../records/layout.ts';
import { type Address, Batch, type Operation, UNIT_BYTES } from '../../verbs/index.ts';
import type { RecordIo } from './record-io.ts';
import type { Request } from './request.ts';

/** A record as its slot names it: `units` lines, or more for a long key. */
export interface SlotRecord {
  address: Address;
  units: number;
}

/**
 * Lines of a record that are read for its key alone. Most keys end there; others are read again.
 */
export const KEY_UNITS = 4;

/**
 * Reads the records of a walk's step together, and visits those that `accepts` takes one after the
 * other: each as the request's found one, complete and checked.
 */
export function* visitRecords<R extends Request>(
  records: RecordIo,
  request: R,
  whole: readonly SlotRecord[],
  seed: number,
  accepts: (request: R) => boolean,
  visit: (request: R, keyBytes: number) => void,
  keysOnly = false,
): Operation<void> {
  if (whole.length === 0) return;
  const slots = keysOnly ? whole.map(keyPart) : whole;
  const { incoming } = request;
  const total = slots.reduce((sum, { units }) => sum + units * UNIT_BYTES, 0);
  incoming.ensure(total);
  const batch = new Batch();
  let at = 0;
  for (const { address, units } of slots) {
    batch.read(address, units * UNIT_BYTES, incoming, at);
    at += units * UNIT_BYTES;
  }
  yield batch;
  at = 0;
  for (const slot of slots) {
    const { found, keyBytes } = yield* wholeKey(request, slot, at, total, keysOnly);
    at += slot.units * UNIT_BYTES;
    request.adoptKey(incoming, found, keyBytes, seed);
    if (!accepts(request)) continue;
    if (!keysOnly) yield* records.complete(request);
    visit(request, keyBytes);
  }
}

/** Bytes of a chained record that its first block has, up to those that any slot tells of. */
function firstBytes(keyBytes: number, valueBytes: number): number {
  return Math.min(headBytes(keyBytes), UNIT_BYTES * headUnitsOf(keyBytes, valueBytes, true));
}

function keyPart({ address, units }: SlotRecord): SlotRecord {
  return { address, units: Math.min(units, KEY_UNITS) };
}

/**
 * Where the record is whose head stands at `at`. A key so long that a slot's length does not cover
 * it is read again behind all records, in one place, because they are visited one by one.
 */
function* wholeKey(
  { incoming }: Request,
  { address, units }: SlotRecord,
  at: number,
  end: number,
  keysOnly: boolean,
): Operation<{ found: number; keyBytes: number }> {
  const kind = incoming.i32[(at + KEY_BYTES_AND_KIND) >> 2];
  const keyBytes = kind & 0xffff;
  const longer = keysOnly || ((kind >>> 24) & FLAG_CHAINED) !== 0;
  const valueBytes = incoming.i32[(at + VALUE_BYTES) >> 2] >>> 0;
  const needed = keysOnly ? bytesToValue(kind) : firstBytes(keyBytes, valueBytes);
  if (!longer || needed <= units * UNIT_BYTES) return { found: at, keyBytes };
  const bytes = unitsOf(needed) * UNIT_BYTES;
  if (end + bytes > incoming.u8.length) {
    const read = incoming.u8.slice(0, end);
    incoming.ensure(end + bytes);
    incoming.u8.set(read, 0);
  }
  yield new Batch().read(address, bytes, incoming, end);
  return { found: end, keyBytes };
}
