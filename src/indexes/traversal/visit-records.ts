import { bytesToValue, KEY_BYTES_AND_KIND, SLOT_UNITS_MAX, unitsOf } from '../../records/layout.ts';
import { type Operation, UNIT_BYTES } from '../../verbs/index.ts';
import { headUnitsIn, type RecordIo } from '../substrates/record-io.ts';
import type { Request } from '../substrates/request.ts';
import type { Parts } from './parts.ts';

/** Lines of a record to read for its key. Most keys fit; others are read again. */
export const KEY_UNITS = 4;

/** Notes the committed records of the part read last, for `visitRecords`. */
export function noteRecords(parts: Pick<Parts, 'eachSlot'>, request: Request): void {
  parts.eachSlot((record, units, isClaim) => {
    if (!isClaim) request.noteRecord(record, units);
  });
}

/**
 * Reads the records that the request has noted (`Request.noteRecord`) in one doorbell, and visits
 * those that `accepts` accepts: each as the request's found one, complete and checked.
 */
export function* visitRecords<R extends Request>(
  records: RecordIo,
  request: R,
  accepts: (request: R, i: number) => boolean,
  visit: (request: R, keyBytes: number) => void,
  keysOnly = false,
  unitsMax = SLOT_UNITS_MAX,
): Operation<void> {
  const { incoming, batch, candidates } = request;
  const { at, count } = candidates;
  if (count === 0) return;
  let end = 0;
  for (let i = 0; i < count; i++) {
    at[i] = end;
    end += readBytes(request, i, keysOnly);
  }
  incoming.ensure(end);
  batch.clear();
  for (let i = 0; i < count; i++) {
    batch.read(candidates.records[i], readBytes(request, i, keysOnly), incoming, at[i]);
  }
  yield batch;
  for (let i = 0; i < count; i++) {
    const needed = bytesNeeded(request, i, keysOnly, unitsMax);
    const isWhole = needed <= readBytes(request, i, keysOnly);
    const found = isWhole ? at[i] : yield* readAgain(request, i, end, needed);
    const keyBytes = incoming.i32[(found + KEY_BYTES_AND_KIND) >> 2] & 0xffff;
    request.adoptKey(incoming, found, keyBytes, records.seed);
    if (!accepts(request, i)) continue;
    if (!keysOnly) yield* records.complete(request);
    visit(request, keyBytes);
  }
}

function readBytes({ candidates }: Request, i: number, keysOnly: boolean): number {
  const units = candidates.units[i];
  return UNIT_BYTES * (keysOnly ? Math.min(units, KEY_UNITS) : units);
}

/** Bytes of a record that a visit needs; 0 if its slot's length is enough. */
function bytesNeeded(request: Request, i: number, keysOnly: boolean, unitsMax: number): number {
  const { incoming, candidates } = request;
  const at = candidates.at[i];
  if (keysOnly) return bytesToValue(incoming.i32[(at + KEY_BYTES_AND_KIND) >> 2]);
  return candidates.units[i] < unitsMax ? 0 : UNIT_BYTES * headUnitsIn(incoming, at);
}

/**
 * Reads a record that is longer than its slot says again, behind all others. All such records use
 * the same place, because they are visited one by one. Returns its offset.
 */
function* readAgain(
  { incoming, batch, candidates }: Request,
  i: number,
  end: number,
  needed: number,
): Operation<number> {
  const bytes = unitsOf(needed) * UNIT_BYTES;
  if (end + bytes > incoming.u8.length) {
    const read = incoming.u8.slice(0, end);
    incoming.ensure(end + bytes);
    incoming.u8.set(read, 0);
  }
  yield batch.clear().read(candidates.records[i], bytes, incoming, end);
  return end;
}
