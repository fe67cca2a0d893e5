import { HEADER_BYTES as RECORD_HEADER_BYTES } from '../../records/layout.ts';
import {
  type Batch,
  copyWord,
  highHalf,
  type Operation,
  setWord,
  swapped,
} from '../../verbs/index.ts';
import { depthBitsFor, entryHigh, entryLow, signOf, TOMBSTONE } from './entry.ts';
import { bitWasSet, canSetBit, completeBit, filterIsClear, postBit, wantsBit } from './filter.ts';
import { versionAt } from './header.ts';
import { postHeader, postSlots } from './lookup.ts';
import { mergeFull, mergeOwn } from './merge.ts';
import { aimForAppend, catchUp } from './refresh.ts';
import { type SepHashRequest, type SepHashTable, SLOTS_AT, SWAP_AT } from './table.ts';

/** What became of an attempt on an entry. */
const WON = 0;
const TAKEN = 1;
const CHANGED = 2;

/** What the search for the first empty entry may say instead of an entry. */
const STALE = -1;
const FULL = -2;

/**
 * Append write (section 4.3): 2 round trips, without knowing whether the key is there.
 *
 *   D[WRITE record; READ window; READ header] -> D[CAS filter; CAS first empty entry]
 *
 * The CAS succeeds only if the entry is still empty in the same epoch: a merge needs all entries
 * full, and no word comes back while somebody may expect it (see README). So all writes of a
 * segment have one order, that of the entries, and an append that has returned is found by every
 * later search. `tombstone` deletes without telling whether there was anything.
 */
export function* append(
  table: SepHashTable,
  request: SepHashRequest,
  tombstone = false,
): Operation<void> {
  for (let attempt = 1; ; attempt++) {
    if (!aimForAppend(table, request)) {
      yield* catchUp(table, request, attempt);
      continue;
    }
    const slot = yield* findEmpty(table, request);
    if (slot === FULL) {
      yield* table.retry(request, 'segmentFull', attempt);
      yield* mergeFull(table, request);
    } else if (slot === STALE) {
      yield* table.retry(request, 'staleSegment', attempt);
    } else if (yield* claimFrom(table, request, slot, tombstone)) {
      return;
    } else {
      yield* table.retry(request, 'slotTaken', attempt);
    }
  }
}

/**
 * The paper reads one window after the other. Here what is behind the first is read at once, and
 * all of it when the offset is of another epoch: between two visits of a client to a segment each
 * of the others has been there, so that with a hundred clients that is nearly always so.
 *
 * Entries in `words` from the window's first one; the window is [windowStart, windowEnd). */
function* findEmpty(table: SepHashTable, request: SepHashRequest): Operation<number> {
  const { slots: slotCount } = table.geometry;
  const { batch, view } = request;
  const { window } = table.geometry.shape;
  let whole = window === 0 || !view.knowsOffset;
  for (let offset = whole ? 0 : view.offset; ; offset = request.windowEnd) {
    // The entry before is read too: it must be full, or the offset is of another epoch.
    request.windowStart = Math.max(0, offset - 1);
    request.windowEnd = whole ? slotCount : Math.min(slotCount, offset + window);
    batch.clear();
    if (!request.blockWritten) request.reseal(versionAt(request.epoch, offset));
    table.records.post(request, batch);
    yield postHeader(request, postWindow(request, batch));
    if (!request.metaHolds() || !filterIsClear(table, request)) return STALE;
    const slot = firstEmpty(request, request.windowStart, request.windowEnd);
    if (slot === request.windowStart && slot > 0) {
      view.forgetOffset();
      return STALE;
    }
    noteOffset(request, slot);
    if (slot < request.windowEnd) return slot;
    if (slot === slotCount) return FULL;
    whole = true;
  }
}

function postWindow({ slots, windowStart, windowEnd, words }: SepHashRequest, batch: Batch): Batch {
  const bytes = 8 * (windowEnd - windowStart);
  return batch.read(slots + 8 * windowStart, bytes, words, SLOTS_AT + 8 * windowStart);
}

/** The first entry of [from, end) that is empty in the epoch that was read, or `end`. */
export function firstEmpty({ words, sign }: SepHashRequest, from: number, end: number): number {
  let slot = from;
  while (slot < end && signOf(highHalf(words, SLOTS_AT + 8 * slot)) === sign) slot++;
  return slot;
}

/** Entries before `slot` are full: true for the epoch that the operation has read. */
function noteOffset({ view, metaLow, metaHigh }: SepHashRequest, slot: number): void {
  if (view.metaLow !== metaLow || view.metaHigh !== metaHigh) return;
  view.noteOffset(slot);
}

/**
 * Tries the empty entry, and the next one whenever another client was first: the word that stands
 * there now says that it is full, and the next one must be as it was read for the CAS to succeed.
 */
function* claimFrom(
  table: SepHashTable,
  request: SepHashRequest,
  first: number,
  tombstone: boolean,
): Operation<boolean> {
  for (let slot = first; firstEmpty(request, slot, request.windowEnd) === slot; slot++) {
    if (slot === request.windowEnd) return false;
    const low = entryLow(request.block);
    const high = newHigh(request) | (tombstone ? TOMBSTONE : 0);
    const fate = yield* claim(table, request, slot, low, high);
    if (fate === WON) return true;
    if (fate === CHANGED) return false;
    table.retries.slotTaken++;
  }
  return false;
}

/** The high half of the entry for the request's own record. */
export function newHigh({ block, headUnits, tag, hash, depth, sign }: SepHashRequest): number {
  return entryHigh(block, headUnits, { tag, depthBits: depthBitsFor(hash.h1, depth), sign });
}

/**
 * One attempt to put the word into an entry that was read as empty: 1 round trip. When it took the
 * last entry, the segment is merged by this client, after the write has taken effect.
 */
export function* claim(
  table: SepHashTable,
  request: SepHashRequest,
  slot: number,
  low: number,
  high: number,
): Operation<number> {
  const { batch, words } = request;
  const waited = yield* completeBitFirst(table, request);
  if (wantsBit(table, request) && (waited || !canSetBit(request))) return CHANGED;
  postRecord(table, request, batch.clear(), versionAt(request.epoch, slot));
  const setsBit = !waited && postBit(table, request, batch);
  const at = SLOTS_AT + 8 * slot;
  copyWord(words, at, SWAP_AT);
  setWord(words, SWAP_AT + 8, low, high);
  request.inDoubt = true;
  yield batch.cas(request.slots + 8 * slot, words, SWAP_AT);
  request.inDoubt = false;
  const bitStands = !setsBit || bitWasSet(request);
  copyWord(words, SWAP_AT + (swapped(words, SWAP_AT) ? 8 : 16), at);
  if (!swapped(words, SWAP_AT)) {
    const full = signOf(highHalf(words, at)) === request.sign;
    if (full) noteOffset(request, slot + 1);
    return full ? TAKEN : CHANGED;
  }
  request.forgetBlock();
  noteOffset(request, slot + 1);
  if (!bitStands) yield* completeBit(table, request);
  if (table.geometry.shape.append === 0) yield* reread(table, request);
  if (slot + 1 === table.geometry.slots) yield* mergeOwn(table, request);
  return WON;
}

/**
 * What a write costs that has to look for rivals with the same key after it has taken effect
 * (Figure 9b, reread-based). Entries in order need none of it, so nothing is done with the answer.
 */
function* reread(table: SepHashTable, request: SepHashRequest): Operation<void> {
  yield postHeader(request, postSlots(table, request, request.batch.clear()));
}

/** Without zero-wait writes the filter's change is waited for, as the paper's base version does. */
function* completeBitFirst(table: SepHashTable, request: SepHashRequest): Operation<boolean> {
  if (table.geometry.shape.zeroWait === 1) return false;
  yield* completeBit(table, request);
  return true;
}

/** The record, or its header again when it was written for another entry. */
function postRecord(
  table: SepHashTable,
  request: SepHashRequest,
  batch: Batch,
  version: number,
): void {
  // A tombstone of a record that was found has none of its own.
  if (request.block === 0) return;
  if (request.outgoingVersion !== version >>> 0) {
    request.reseal(version);
    if (request.blockWritten) batch.write(request.block, RECORD_HEADER_BYTES, request.outgoing, 0);
  }
  table.records.post(request, batch);
}

/** Whether `claim` put the word there. */
export function hasWon(fate: number): boolean {
  return fate === WON;
}
