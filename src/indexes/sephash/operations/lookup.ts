import { type Batch, highHalf, type Operation } from '../../../verbs/index.ts';
import { firstMatch, postLongRecords, postRecords } from '../../substrates/claims/candidates.ts';
import { HEADER_AT, type SepHashRequest, SLOTS_AT } from '../request.ts';
import {
  ENTRY_UNITS_MAX,
  isPad,
  isTombstone,
  recordOf,
  signOf,
  tagOf,
  unitsOfEntry,
} from '../segments/entry.ts';
import { HEADER_BYTES } from '../segments/header.ts';
import { MAIN_HEADER_BYTES } from '../segments/main-segment.ts';
import type { SepHashTable } from '../table.ts';

/** Adds the READ of the MainSegment's entries that may have the key's fingerprint. */
export function postRange(request: SepHashRequest, batch: Batch): Batch {
  const { rangeStart, rangeEnd, range, main } = request;
  const bytes = 8 * (rangeEnd - rangeStart);
  if (bytes === 0) return batch;
  if (bytes > range.u8.length) range.ensure(bytes);
  return batch.read(main + MAIN_HEADER_BYTES + 8 * rangeStart, bytes, range, 0);
}

/**
 * Adds the READ of the CurSegment. The header's READ follows it: an unchanged header then proves
 * that no merge came before.
 */
export function postSlots(table: SepHashTable, request: SepHashRequest, batch: Batch): Batch {
  return batch.read(request.slots, table.geometry.slotsBytes, request.words, SLOTS_AT);
}

export function postHeader(request: SepHashRequest, batch: Batch): Batch {
  return batch.read(request.view.header, HEADER_BYTES, request.words, HEADER_AT);
}

/** The first entry of [from, end) that is empty in the epoch that was read, or `end`. */
export function firstEmpty({ words, sign }: SepHashRequest, from: number, end: number): number {
  let slot = from;
  while (slot < end && signOf(highHalf(words, SLOTS_AT + 8 * slot)) === sign) slot++;
  return slot;
}

/**
 * Collects the entries with the key's fingerprints, newest first: those of the CurSegment's first
 * `slots` entries from the end, then those of the MainSegment.
 */
export function gather(request: SepHashRequest, slots: number): number {
  request.ensureCandidates(slots + request.rangeEnd - request.rangeStart);
  request.candidates.count = 0;
  request.recent = 0;
  if (slots > 0) gatherRecent(request, slots);
  const { tag, range, rangeStart, rangeEnd } = request;
  const { i32 } = range;
  const end = 2 * (rangeEnd - rangeStart);
  for (let word = 0; word < end; word += 2) {
    const high = i32[word + 1];
    if (tagOf(high) === tag && !isPad(high)) add(request, i32[word], high);
  }
  return request.candidates.count;
}

/**
 * Collects entries up to the first that was read as empty. Entries are filled in order, so a full
 * one behind it was filled later, and those before it have not changed since.
 */
function gatherRecent(request: SepHashRequest, slots: number): void {
  const { tag, sign } = request;
  const { i32 } = request.words;
  const first = SLOTS_AT >> 2;
  let end = first;
  while (end < first + 2 * slots && signOf(i32[end + 1]) === sign) end += 2;
  for (let word = end - 2; word >= first; word -= 2) {
    const high = i32[word + 1];
    if (tagOf(high) === tag && !isPad(high)) add(request, i32[word], high);
  }
  request.recent = request.candidates.count;
}

function add(request: SepHashRequest, low: number, high: number): void {
  const i = request.candidates.count++;
  request.candidateLow[i] = low;
  request.candidateHigh[i] = high;
  request.candidates.records[i] = recordOf(low, high);
  request.candidates.units[i] = unitsOfEntry(high);
}

/**
 * How many candidates are read first. If the CurSegment has any, only its newest: the others are
 * nearly always older records of the same key.
 */
export function firstCandidates({ recent, candidates }: SepHashRequest): number {
  return recent > 0 ? 1 : candidates.count;
}

/**
 * Reads the candidates' records and finds the newest entry of the key: 1 round trip, or 2 when keys
 * share fingerprints in the CurSegment. Returns whether the key is present; `match` is its entry.
 */
export function* readCandidates(request: SepHashRequest): Operation<boolean> {
  const { batch } = request;
  const { count: candidateCount } = request.candidates;
  request.match = -1;
  for (let first = 0; first < candidateCount && request.match < 0; ) {
    const end = first === 0 ? firstCandidates(request) : candidateCount;
    yield postRecords(request, batch.clear(), ENTRY_UNITS_MAX, first, end);
    if (request.candidates.mayBeLong) {
      if (postLongRecords(request, batch.clear(), ENTRY_UNITS_MAX, first, end)) yield batch;
    }
    request.match = firstMatch(request, first, end);
    first = end;
  }
  return isPresent(request);
}

/** Whether the newest entry of the key holds a record. */
export function isPresent({ match, candidateHigh }: SepHashRequest): boolean {
  return match >= 0 && !isTombstone(candidateHigh[match]);
}
