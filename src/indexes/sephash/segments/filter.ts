import { type Batch, highHalf, lowHalf } from '../../../verbs/index.ts';
import { FILTER_AT, type SepHashRequest, ZERO_AT } from '../request.ts';
import type { SepHashTable } from '../table.ts';
import { META_BYTES } from './header.ts';

/**
 * The fingerprint filter of a CurSegment (section 4.4.1): a search reads the CurSegment only if an
 * entry may have the key's fingerprint. The paper sets a bit by a WRITE after the operation has
 * returned: a completed insertion could be missed, and two such WRITEs lose bits.
 *
 * Here a fingerprint has a word of its own, and the rule for readers is: **no entry has the
 * fingerprint if the word equals the metadata; any other word says nothing.**
 *
 *   - An append clears the word to 0 in the doorbell of its entry, ahead of the CAS. All appends
 *     write the same, so none undoes another, and a late one only makes searches read more.
 *   - A merge fills all words with the metadata that it publishes, ahead of the CAS that does so.
 *     No other merger has the same metadata, because they name its own MainSegment. So one that
 *     loses leaves words that equal no metadata.
 *   - Hence a word never becomes equal to metadata that are already published. And when the next
 *     metadata are, no word equals the old ones: an equal word also tells that nothing was merged,
 *     and a search needs no READ of the metadata.
 */
export function postFilter(table: SepHashTable, request: SepHashRequest, batch: Batch): Batch {
  return batch.read(wordOf(table, request), 8, request.words, FILTER_AT);
}

/** Whether the filter word that was read says that no entry has the key's fingerprint. */
export function filterIsClear(request: SepHashRequest): boolean {
  const { words, metaLow, metaHigh } = request;
  return lowHalf(words, FILTER_AT) === metaLow && highHalf(words, FILTER_AT) === metaHigh;
}

/** Whether the word names other metadata: of a later merge, or of a merger that has lost. */
export function filterNamesOther(request: SepHashRequest): boolean {
  return highHalf(request.words, FILTER_AT) !== 0 && !filterIsClear(request);
}

/**
 * Adds the WRITE that tells searches of an entry with the key's fingerprint, unless this client
 * knows that the word already differs from the metadata. The operation must have read the metadata
 * before: the merge that published them could overwrite an earlier WRITE.
 */
export function postMark(table: SepHashTable, request: SepHashRequest, batch: Batch): boolean {
  if (!table.techniques.filter || isMarked(table, request)) return false;
  batch.write(wordOf(table, request), 8, request.words, ZERO_AT);
  return true;
}

/** Whether this client knows that the word differs from the metadata. It then does so for good. */
export function isMarked(table: SepHashTable, request: SepHashRequest): boolean {
  const { view, metaLow, metaHigh } = request;
  return view.isAt(metaLow, metaHigh) && view.isMarked(numberOf(table, request));
}

/** Notes that the word differs from the metadata that the request has read. */
export function noteMark(table: SepHashTable, request: SepHashRequest): void {
  const { view, metaLow, metaHigh } = request;
  if (view.isAt(metaLow, metaHigh)) view.mark(numberOf(table, request));
}

function wordOf(table: SepHashTable, request: SepHashRequest): number {
  return request.view.header + META_BYTES + 8 * numberOf(table, request);
}

function numberOf({ geometry }: SepHashTable, { tag }: SepHashRequest): number {
  return (tag >>> 8) % geometry.filterWords;
}
