import { invariant } from '../../../errors.ts';
import { HEADER_BYTES as RECORD_HEADER_BYTES } from '../../../records/layout.ts';
import {
  type Batch,
  copyWord,
  highHalf,
  lowHalf,
  type Operation,
  setWord,
  swapped,
} from '../../../verbs/index.ts';
import { mergeFull, mergeOwn } from '../merging/merge.ts';
import { type SepHashRequest, SLOTS_AT, SWAP_AT } from '../request.ts';
import { depthBitsFor, entryHigh, entryLow, signOf, TOMBSTONE } from '../segments/entry.ts';
import {
  bitWasSet,
  canSetBit,
  completeBit,
  filterAt,
  filterIsClear,
  postBit,
  wantsBit,
} from '../segments/filter.ts';
import { versionAt } from '../segments/header.ts';
import type { SepHashTable } from '../table.ts';
import { firstEmpty, postHeader, postSlots } from './lookup.ts';
import { aimForAppend, catchUp } from './refresh.ts';

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
 * full, and no word comes back while a client may expect it (see README). So all writes of a
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
 */
function* findEmpty(table: SepHashTable, request: SepHashRequest): Operation<number> {
  const { view } = request;
  const { window } = table.geometry.shape;
  let whole = window === 0 || !view.knowsOffset;
  for (let offset = whole ? 0 : view.offset; ; offset = request.windowEnd) {
    yield postWindow(table, request, offset, whole);
    const slot = emptyInWindow(table, request);
    if (slot < request.windowEnd) return slot;
    if (slot === table.geometry.slots) return FULL;
    whole = true;
  }
}

/**
 * The record, unless it is written, and the entries from `offset` on. The entry before is read too:
 * it must be full, or the offset is of another epoch.
 */
function postWindow(
  table: SepHashTable,
  request: SepHashRequest,
  offset: number,
  whole: boolean,
): Batch {
  const { slots, shape } = table.geometry;
  const batch = request.batch.clear();
  request.windowStart = Math.max(0, offset - 1);
  request.windowEnd = whole ? slots : Math.min(slots, offset + shape.window);
  if (!request.blockWritten) request.reseal(versionAt(request.epoch, offset));
  table.records.post(request, batch);
  const { windowStart, windowEnd, words } = request;
  const from = request.slots + 8 * windowStart;
  batch.read(from, 8 * (windowEnd - windowStart), words, SLOTS_AT + 8 * windowStart);
  return postHeader(request, batch);
}

/**
 * The first empty entry of what was read, or the window's end, or STALE. There is none in a closed
 * segment.
 */
function emptyInWindow(table: SepHashTable, request: SepHashRequest): number {
  if (!request.metaHolds() || !filterIsClear(table, request)) return STALE;
  if (request.isShutOut) return table.geometry.slots;
  const slot = firstEmpty(request, request.windowStart, request.windowEnd);
  if (slot === request.windowStart && slot > 0) {
    request.view.forgetOffset();
    return STALE;
  }
  noteOffset(request, slot);
  return slot;
}

/** Entries before `slot` are full: true for the epoch that the operation has read. */
function noteOffset({ view, metaLow, metaHigh }: SepHashRequest, slot: number): void {
  if (view.isAt(metaLow, metaHigh)) view.noteOffset(slot);
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
  }
  return false;
}

/** The high half of the entry for the request's own record. */
export function newHigh({ block, headUnits, tag, hash, depth, sign }: SepHashRequest): number {
  // Without a length an entry would be a pad, which deletes nothing and names no record.
  invariant(block > 0 && headUnits > 0, 'an entry is to name no record');
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
  // Without zero-wait writes the filter's change is waited for, as the paper's base version does.
  if (!table.techniques.zeroWait) yield* completeBit(table, request);
  const fate = yield* claimInTurn(table, request, slot, low, high);
  if (fate !== WON) return fate;
  if (!request.bitStands) yield* completeBit(table, request);
  if (!table.techniques.append) yield* reread(table, request);
  if (slot + 1 === table.geometry.slots) yield* mergeOwn(table, request);
  return WON;
}

/**
 * Operations of one client take turns at the next entry of a segment. Over a network dozens are in
 * flight: each would try the same entry, one would win, and all others would try the next one. What
 * one fills while others wait, they learn here without a round trip: no full entry changes before
 * the next merge. A learnt filter word may be out of date. Then its CAS fails, as if another client
 * had set a bit.
 */
function* claimInTurn(
  table: SepHashTable,
  request: SepHashRequest,
  slot: number,
  low: number,
  high: number,
): Operation<number> {
  const { view } = request;
  if (view.isFilling) yield* awaitTurn(request);
  if (view.hasLearnt) {
    if (adoptLearnt(request, SLOTS_AT + 8 * slot)) return TAKEN;
    adoptLearnt(request, filterAt(request));
  }
  if (!maySwap(table, request)) return CHANGED;
  view.isFilling = true;
  try {
    yield postClaim(table, request, slot, low, high);
  } finally {
    view.isFilling = false;
  }
  const fate = noteClaim(request, slot);
  if (fate === TAKEN) table.retries.slotTaken++;
  return fate;
}

function* awaitTurn({ view, batch, words }: SepHashRequest): Operation<void> {
  view.waiting++;
  try {
    while (view.isFilling) yield batch.clear().pause(0, words);
  } finally {
    view.waiting--;
  }
}

/** Whether another operation of this client has learnt, in the same epoch, what stands there. */
function adoptLearnt({ view, words, metaLow, metaHigh }: SepHashRequest, at: number): boolean {
  const word = view.isAt(metaLow, metaHigh) ? view.learntWord(at) : undefined;
  if (word !== undefined) setWord(words, at, word.low, word.high);
  return word !== undefined;
}

/** For the others that wait. */
function learn({ view, words, metaLow, metaHigh }: SepHashRequest, at: number): void {
  if (view.isAt(metaLow, metaHigh)) view.learnWord(at, lowHalf(words, at), highHalf(words, at));
}

/** Whether the filter's bit is set, or will be set by the doorbell of the entry. */
function maySwap(table: SepHashTable, request: SepHashRequest): boolean {
  if (!wantsBit(table, request)) return true;
  return table.techniques.zeroWait && canSetBit(request);
}

function postClaim(
  table: SepHashTable,
  request: SepHashRequest,
  slot: number,
  low: number,
  high: number,
): Batch {
  const { words } = request;
  const batch = request.batch.clear();
  postRecord(table, request, batch, versionAt(request.epoch, slot));
  request.setsBit = postBit(table, request, batch);
  copyWord(words, SLOTS_AT + 8 * slot, SWAP_AT);
  const isEmpty = signOf(highHalf(words, SWAP_AT)) !== request.sign;
  invariant(
    isEmpty && signOf(high) === request.sign,
    'a full entry is claimed, or by an empty one',
  );
  setWord(words, SWAP_AT + 8, low, high);
  request.inDoubt = true;
  return batch.cas(request.slots + 8 * slot, words, SWAP_AT);
}

/** What became of the claim that was posted; `bitStands` tells whether its filter bit is set. */
function noteClaim(request: SepHashRequest, slot: number): number {
  const { words } = request;
  const at = SLOTS_AT + 8 * slot;
  request.inDoubt = false;
  request.bitStands = !request.setsBit || bitWasSet(request);
  const won = swapped(words, SWAP_AT);
  copyWord(words, SWAP_AT + (won ? 8 : 16), at);
  const full = signOf(highHalf(words, at)) === request.sign;
  if (full) noteOffset(request, slot + 1);
  if (full) learn(request, at);
  if (request.setsBit) learn(request, filterAt(request));
  if (!won) return full ? TAKEN : CHANGED;
  request.forgetBlock();
  return WON;
}

/**
 * What a write costs that has to look for rivals with the same key after it has taken effect
 * (Figure 9b, reread-based). Entries in order need none of it, so nothing is done with the answer.
 */
function* reread(table: SepHashTable, request: SepHashRequest): Operation<void> {
  yield postHeader(request, postSlots(table, request, request.batch.clear()));
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
