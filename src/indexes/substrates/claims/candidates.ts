import {
  FLAG_CHAINED,
  headBytes,
  headUnitsOf,
  KEY_BYTES_AND_KIND,
  SLOT_UNITS_MAX,
  unitsOf,
  VALUE_BYTES,
} from '../../../records/layout.ts';
import { type Batch, UNIT_BYTES } from '../../../verbs/index.ts';
import type { Request } from '../request.ts';

/**
 * Candidates are records whose fingerprints match; one of them may have the key. An index notes
 * their addresses (`Candidates.records`) and the lengths in their slots (`units`). One doorbell
 * reads all of them, so a collision costs a READ, not a round trip.
 *
 * `unitsMax` is the largest length that a slot of the index can express: "this much or more".
 */
export function postRecords(
  request: Request,
  batch: Batch,
  unitsMax: number,
  first = 0,
  end = request.candidates.count,
): Batch {
  const { incoming } = request;
  const { at: candidateAt, records: candidateRecord, units: candidateUnits } = request.candidates;
  request.candidates.mayBeLong = false;
  let bytes = 0;
  for (let i = first; i < end; i++) {
    candidateAt[i] = bytes;
    const units = candidateUnits[i];
    bytes += UNIT_BYTES * (units < unitsMax ? units : roomForLong(request, units, unitsMax));
  }
  if (bytes > incoming.u8.length) incoming.ensure(bytes);
  for (let i = first; i < end; i++) {
    batch.read(candidateRecord[i], candidateUnits[i] * UNIT_BYTES, incoming, candidateAt[i]);
  }
  return batch;
}

function roomForLong(request: Request, units: number, unitsMax: number): number {
  // The first block of a record with the request's key; a long key takes more than a slot can say.
  const longest = Math.max(SLOT_UNITS_MAX, unitsOf(headBytes(request.keyBytes)));
  if (longest <= units) return units;
  if (unitsMax < SLOT_UNITS_MAX || longest > SLOT_UNITS_MAX) request.candidates.mayBeLong = true;
  return longest;
}

/** Adds the READs of records longer than their slots can say; returns whether there are any. */
export function postLongRecords(
  request: Request,
  batch: Batch,
  unitsMax: number,
  first = 0,
  end = request.candidates.count,
): boolean {
  const { incoming } = request;
  const { at: candidateAt, records: candidateRecord, units: candidateUnits } = request.candidates;
  const { i32 } = incoming;
  const roomMax = Math.max(SLOT_UNITS_MAX, unitsOf(headBytes(request.keyBytes)));
  for (let i = first; i < end; i++) {
    const units = candidateUnits[i];
    const kind = i32[(candidateAt[i] + KEY_BYTES_AND_KIND) >> 2];
    const keyBytes = kind & 0xffff;
    if (units !== unitsMax || keyBytes !== request.keyBytes) continue;
    const chained = ((kind >>> 24) & FLAG_CHAINED) !== 0;
    const valueBytes = i32[(candidateAt[i] + VALUE_BYTES) >> 2] >>> 0;
    // The checksum will detect a damaged length, which must not make this READ too long.
    const head = Math.min(roomMax, headUnitsOf(keyBytes, valueBytes, chained));
    if (head > units) batch.read(candidateRecord[i], head * UNIT_BYTES, incoming, candidateAt[i]);
  }
  return batch.length > 0;
}

/** The first candidate that has the key, which becomes the found record, or -1. */
export function firstMatch(request: Request, first = 0, end = request.candidates.count): number {
  for (let i = first; i < end; i++) if (request.matches(request.candidates.at[i])) return i;
  return -1;
}
