import {
  type Batch,
  copyWord,
  highHalf,
  lowHalf,
  type Operation,
  swapped,
} from '../../../verbs/index.ts';
import { FILTER_SWAP_AT, HEADER_AT, type SepHashRequest } from '../request.ts';
import type { SepHashTable } from '../table.ts';
import { addBit, BIT_CLEAR, BIT_SET, BIT_UNKNOWN, bitState, filterWordOf } from './header.ts';

/**
 * The fingerprint filter of a CurSegment (section 4.4.1): one bit for each fingerprint, so that a
 * search reads the CurSegment only if the bit is set. The paper sets it with a WRITE after the
 * operation has returned: a completed insertion could be missed, and two such WRITEs lose bits.
 *
 * Here a CAS sets the bit ahead of the CAS of the entry, in the same doorbell, unless it is set
 * already. When another bit of the word was set in between, the first CAS fails and the second may
 * succeed. Then the entry stands without its bit, and counts only once the bit is set. Its writer
 * sets the bit before it returns, and a client that acts on the entry sets it before that. All
 * entries that wait for the same bit begin to count together, in their order. A merge makes every
 * entry count.
 */
export function postBit(table: SepHashTable, request: SepHashRequest, batch: Batch): boolean {
  if (!wantsBit(table, request)) return false;
  const { words, tag, epoch, view } = request;
  const at = filterAt(request);
  copyWord(words, at, FILTER_SWAP_AT);
  addBit(words, at, FILTER_SWAP_AT + 8, tag >>> 8, epoch);
  batch.cas(view.header + (at - HEADER_AT), words, FILTER_SWAP_AT);
  return true;
}

/** Whether the key's bit must still be set, as far as the filter word that was read tells. */
export function wantsBit(table: SepHashTable, request: SepHashRequest): boolean {
  return table.techniques.filter && stateOf(request) !== BIT_SET;
}

/** Whether the CAS of `postBit` succeeded. Notes the word that is now in the header. */
export function bitWasSet(request: SepHashRequest): boolean {
  const { words } = request;
  const at = filterAt(request);
  const done = swapped(words, FILTER_SWAP_AT);
  copyWord(words, done ? FILTER_SWAP_AT + 8 : FILTER_SWAP_AT + 16, at);
  return done;
}

/** Sets the bit of an entry that stands without it. */
export function* completeBit(table: SepHashTable, request: SepHashRequest): Operation<void> {
  // Each failure means that another operation set one of 37 bits, or merged the segment.
  for (let round = 0; round < 64; round++) {
    // The word is of a later epoch: the entry has been merged.
    if (!canSetBit(request)) return;
    if (!postBit(table, request, request.batch.clear())) return;
    yield request.batch;
    if (bitWasSet(request)) return;
  }
}

/**
 * Whether the filter word that was read can be relied on. A word of a seemingly later epoch was
 * read after a merge, or is so old that the epoch has wrapped. A second read tells: after a merge
 * the metadata have changed.
 */
export function isFilterReliable(table: SepHashTable, request: SepHashRequest): boolean {
  if (!table.techniques.filter) return true;
  if (stateOf(request) !== BIT_UNKNOWN) return true;
  if (isDoubted(request)) {
    request.trusted = true;
    return true;
  }
  doubt(request);
  return false;
}

/** Remembers the filter word: reading it again will tell whether it is old. */
export function doubt(request: SepHashRequest): void {
  const at = filterAt(request);
  request.doubtedEpoch = request.epoch;
  request.doubtedLow = lowHalf(request.words, at);
  request.doubtedHigh = highHalf(request.words, at);
  request.trusted = false;
}

function isDoubted(request: SepHashRequest): boolean {
  const { words, epoch, doubtedEpoch, doubtedLow, doubtedHigh } = request;
  const at = filterAt(request);
  if (doubtedEpoch !== epoch) return false;
  return lowHalf(words, at) === doubtedLow && highHalf(words, at) === doubtedHigh;
}

/**
 * Whether the filter word may be replaced. One of a later epoch must not be: its bits would be
 * lost. A failed CAS may have returned such a word.
 */
export function canSetBit(request: SepHashRequest): boolean {
  return stateOf(request) !== BIT_UNKNOWN || (request.trusted && isDoubted(request));
}

/** Whether a search has to read the CurSegment. */
export function mayHaveRecent(request: SepHashRequest): boolean {
  return stateOf(request) !== BIT_CLEAR;
}

function stateOf(request: SepHashRequest): number {
  const { words, tag, epoch } = request;
  const at = filterAt(request);
  return bitState(lowHalf(words, at), highHalf(words, at), tag >>> 8, epoch);
}

/** Offset in a request of its key's filter word. */
export function filterAt({ tag }: SepHashRequest): number {
  return HEADER_AT + filterWordOf(tag >>> 8);
}
