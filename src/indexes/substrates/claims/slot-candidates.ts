import { SLOT_UNITS_MAX } from '../../../records/layout.ts';
import { type Batch, highHalf, lowHalf, type Operation } from '../../../verbs/index.ts';
import { firstMatch, postLongRecords, postRecords } from './candidates.ts';
import { lengthOf, pointerIn } from './slot-format.ts';
import type { SlotRequest } from './slot-request.ts';

/** Adds the READs of the records that the candidates' slots name. */
export function postCandidates(request: SlotRequest, batch: Batch): Batch {
  const { candidateSlots, format, words } = request;
  const {
    count: candidateCount,
    records: candidateRecord,
    units: candidateUnits,
  } = request.candidates;
  for (let i = 0; i < candidateCount; i++) {
    const high = highHalf(words, candidateSlots[i]);
    candidateRecord[i] = pointerIn(format, lowHalf(words, candidateSlots[i]), high);
    candidateUnits[i] = lengthOf(high);
  }
  return postRecords(request, batch, SLOT_UNITS_MAX);
}

/**
 * Adds the READs of records longer than their slots can say, with keys over 16 KB; returns whether
 * there are any.
 */
export function postLongKeys(request: SlotRequest, batch: Batch): boolean {
  return postLongRecords(request, batch, SLOT_UNITS_MAX);
}

/** Reads the candidates' records, if there are any: one round trip, two for keys over 16 KB. */
export function* readCandidates(request: SlotRequest): Operation<void> {
  if (request.candidates.count === 0) return;
  yield postCandidates(request, request.batch.clear());
  if (!request.candidates.mayBeLong) return;
  if (postLongKeys(request, request.batch.clear())) yield request.batch;
}

/** Finds the candidate that has the key; it becomes the found record. */
export function matchCandidate(request: SlotRequest): boolean {
  const match = firstMatch(request);
  if (match >= 0) request.slotAt = request.candidateSlots[match];
  return match >= 0;
}
