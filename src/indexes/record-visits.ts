import {
  FLAG_CHAINED,
  KEY_BYTES_AND_KIND,
  LINK_BYTES,
  unitsOf,
  valueOffset,
} from '../records/layout.ts';
import { type Address, Batch, type Operation, UNIT_BYTES } from '../verbs/index.ts';
import type { RecordIo } from './record-io.ts';
import type { Request } from './request.ts';

/** A record as its slot names it: `units` lines, or more for a long key. */
export interface SlotRecord {
  address: Address;
  units: number;
}

/**
 * Reads the records of a walk's step together, and visits those that `accepts` takes one after the
 * other: each as the request's found one, complete and checked.
 */
export function* visitRecords<R extends Request>(
  records: RecordIo,
  request: R,
  slots: readonly SlotRecord[],
  seed: number,
  accepts: (request: R) => boolean,
  visit: (request: R, keyBytes: number) => void,
): Operation<void> {
  if (slots.length === 0) return;
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
    const { found, keyBytes } = yield* wholeKey(request, slot, at, total);
    at += slot.units * UNIT_BYTES;
    request.adoptKey(incoming, found, keyBytes, seed);
    if (!accepts(request)) continue;
    yield* records.complete(request);
    visit(request, keyBytes);
  }
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
): Operation<{ found: number; keyBytes: number }> {
  const kind = incoming.i32[(at + KEY_BYTES_AND_KIND) >> 2];
  const keyBytes = kind & 0xffff;
  const headBytes = valueOffset(keyBytes) + LINK_BYTES;
  const chained = ((kind >>> 24) & FLAG_CHAINED) !== 0;
  if (!chained || headBytes <= units * UNIT_BYTES) return { found: at, keyBytes };
  const bytes = unitsOf(headBytes) * UNIT_BYTES;
  if (end + bytes > incoming.u8.length) {
    const read = incoming.u8.slice(0, end);
    incoming.ensure(end + bytes);
    incoming.u8.set(read, 0);
  }
  yield new Batch().read(address, bytes, incoming, end);
  return { found: end, keyBytes };
}
