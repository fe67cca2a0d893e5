import { invariant } from '../../../errors.ts';
import { type Batch, type Operation, setWord } from '../../../verbs/index.ts';
import { ENDS_AT, MARK_AT, type SepHashRequest } from '../request.ts';
import type { SepHashTable } from '../table.ts';
import { markHigh } from './entry.ts';
import { FPTABLE, MAIN_HEADER_BYTES } from './main-segment.ts';

/**
 * The fingerprint filter of a CurSegment (section 4.4.1): a search reads the CurSegment only if an
 * entry may have the key's fingerprint. The paper sets a bit by a WRITE after the operation has
 * returned: a completed insertion could be missed, and two such WRITEs lose bits.
 *
 * Here a fingerprint has a word of its own, its mark, in front of its entries in the MainSegment
 * below. A search reads it along with them, and follows one rule: **no entry of the CurSegment has
 * the fingerprint if its mark in the current MainSegment is 0.**
 *
 *   - An append writes 1 to the mark in the doorbell of its entry, ahead of the CAS. If the CAS
 *     succeeds, the epoch is still that of the metadata which the append has read, and so is the
 *     MainSegment that these name. So no entry stands without its mark.
 *   - All appends write the same word, so none undoes another. One that fails or dies behind its
 *     WRITE leaves a mark that makes searches read more.
 *   - Nothing clears a mark. The next merge publishes another MainSegment, in a block that no
 *     append has seen. A late WRITE changes the old one, whose block waits for the append's epoch.
 *   - When compaction moves a MainSegment home, the epoch stays (compact.ts). The copy has all
 *     marks set, because appends may still mark the one in the spare place.
 */
export function mayHaveRecent(request: SepHashRequest): boolean {
  return request.range.i32[2 * markInRange(request)] !== 0;
}

/** Where the mark is among the entries that were read of the MainSegment. */
function markInRange({ range, rangeStart, rangeEnd, marked }: SepHashRequest): number {
  const { i32 } = range;
  const high = markHigh(marked);
  for (let i = 0; i < rangeEnd - rangeStart; i++) if (i32[2 * i + 1] === high) return i;
  return invariant(false, `a MainSegment without a mark for fingerprint ${marked}`) as never;
}

/** Notes which mark `postMark` must set, after a READ of the MainSegment's entries. */
export function findMark({ techniques }: SepHashTable, request: SepHashRequest): void {
  request.mark = 0;
  if (!techniques.filter) return;
  const at = markInRange(request);
  if (request.range.i32[2 * at] === 0) noteMark(request, request.rangeStart + at);
}

/**
 * Adds the READ that tells an append where its mark is, unless the client's FPTable does: behind
 * the entries of the fingerprint before.
 */
export function postEnds(
  { techniques }: SepHashTable,
  request: SepHashRequest,
  batch: Batch,
): void {
  if (!techniques.filter || request.markPosition >= 0) return;
  const at = FPTABLE + 2 * (request.marked - 1);
  batch.read(request.main + at - (at % 8), 8, request.words, ENDS_AT);
}

/** Notes which mark `postMark` must set, after a doorbell with `postEnds`. */
export function locateMark({ techniques }: SepHashTable, request: SepHashRequest): void {
  request.mark = 0;
  if (!techniques.filter) return;
  if (request.markPosition < 0) {
    const at = ENDS_AT + ((2 * (request.marked - 1)) % 8);
    request.markPosition = request.words.u8[at] + 256 * request.words.u8[at + 1];
  }
  noteMark(request, request.markPosition);
}

function noteMark(request: SepHashRequest, position: number): void {
  request.mark = request.main + MAIN_HEADER_BYTES + 8 * position;
}

/** Adds the WRITE that sets the mark, unless it is known to be set. */
export function postMark({ mark, marked, words }: SepHashRequest, batch: Batch): Batch {
  if (mark === 0) return batch;
  setWord(words, MARK_AT, 1, markHigh(marked));
  return batch.write(mark, 8, words, MARK_AT);
}

/** Sets the mark in a round trip of its own. */
export function* setMark(request: SepHashRequest): Operation<void> {
  if (request.mark === 0) return;
  yield postMark(request, request.batch.clear());
  request.mark = 0;
}
