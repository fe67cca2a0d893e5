import { invariant, StepwellError } from '../../../errors.ts';
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
import {
  ALWAYS,
  type Condition,
  INSERTED,
  type Outcome,
  REFUSED,
  REPLACED,
  STORED,
} from '../../contract.ts';
import { isSpared, refuses } from '../../substrates/claims/slot-operations.ts';
import { mergeFull, mergeOwn } from '../merging/merge.ts';
import { type SepHashRequest, SLOTS_AT, SWAP_AT } from '../request.ts';
import {
  depthBitsFor,
  entryHigh,
  entryLow,
  isPad,
  isTombstone,
  signOf,
  TOMBSTONE,
  tagOf,
  tombstoneHigh,
} from '../segments/entry.ts';
import { findMark, locateMark, postEnds, postMark, setMark } from '../segments/filter.ts';
import { versionAt } from '../segments/header.ts';
import type { SepHashTable } from '../table.ts';
import { firstEmpty, gather, postHeader, postRange, postSlots, readCandidates } from './lookup.ts';
import { aim, aimForAppend, aimForSearch, catchUp } from './refresh.ts';

/**
 * Stores the outgoing record under a condition. ALWAYS is a blind append of 2 round trips. Any
 * other condition searches first: 2 round trips if no entry has the key's fingerprints, else 3.
 */
export function* write(
  table: SepHashTable,
  request: SepHashRequest,
  condition: Condition,
  expected: number,
): Operation<Outcome> {
  request.begin();
  try {
    if (!table.records.take(request)) yield* table.records.allocate(request);
    if (condition === ALWAYS && !(yield* mustNotGrow(table, request))) {
      yield* append(table, request);
      return STORED;
    }
    for (let attempt = 1; ; attempt++) {
      const isThere = yield* survey(table, request);
      const present = isThere && !table.records.isExpired(request);
      if (refuses(condition, expected, present, request.found.version)) {
        if (!present) request.found.at = -1;
        return REFUSED;
      }
      if (yield* storeSurveyed(table, request, isThere, attempt)) {
        request.displaced = isThere;
        return present ? REPLACED : INSERTED;
      }
    }
  } finally {
    release(table, request);
  }
}

/** Deletes without telling whether the key was there: 2 round trips, as the paper's deletion. */
export function* erase(table: SepHashTable, request: SepHashRequest): Operation<void> {
  request.begin();
  request.forDeletion = true;
  try {
    if (!table.records.take(request)) yield* table.records.allocate(request);
    yield* append(table, request, true);
  } finally {
    release(table, request);
  }
}

/**
 * Removes the key, or its record of the expected version, and tells whether it was there: 3 round
 * trips, or 1 when it was not. The tombstone points to the record that it deletes, so that no
 * memory is needed for it. It takes the first empty entry that the survey has seen, so no write of
 * the key comes between the record that was compared and the tombstone.
 */
export function* remove(
  table: SepHashTable,
  request: SepHashRequest,
  expected?: number,
): Operation<boolean> {
  request.begin();
  request.forDeletion = true;
  for (let attempt = 1; ; attempt++) {
    if (!(yield* survey(table, request))) return false;
    if (isSpared(request, expected)) return false;
    const { match, candidateLow, candidateHigh, emptySlot, sign } = request;
    if (emptySlot === table.geometry.slots) {
      yield* table.retry(request, 'segmentFull', attempt);
      yield* mergeFull(table, request);
      continue;
    }
    const found = candidateHigh[match];
    invariant(!isPad(found) && !isTombstone(found), 'a deletion deletes no record');
    const high = tombstoneHigh(found, sign);
    const present = !table.records.isExpired(request);
    const won = yield* claimSurveyed(table, request, candidateLow[match], high);
    request.displaced = won;
    if (won) return present;
    yield* table.retry(request, 'slotTaken', attempt);
  }
}

/** Replaces the value by what `compute` makes of it: 3 round trips. */
export function* modify(
  table: SepHashTable,
  request: SepHashRequest,
  compute: (present: boolean) => void,
): Operation<Outcome> {
  request.begin();
  try {
    for (let attempt = 1; ; attempt++) {
      const isThere = yield* survey(table, request);
      const present = isThere && !table.records.isExpired(request);
      if (present) yield* table.records.complete(request);
      table.records.discard(request);
      compute(present);
      if (!table.records.take(request)) yield* table.records.allocate(request);
      if (yield* storeSurveyed(table, request, isThere, attempt)) {
        request.displaced = isThere;
        return present ? REPLACED : INSERTED;
      }
    }
  } finally {
    release(table, request);
  }
}

/** Gives back a block that was not linked. One that may have been linked is left to a sweep. */
function release(table: SepHashTable, request: SepHashRequest): void {
  if (request.inDoubt) request.record.forgetBlock();
  else table.records.discard(request);
}

/** The last round trip after a survey; false when the operation must begin again. */
function* storeSurveyed(
  table: SepHashTable,
  request: SepHashRequest,
  isThere: boolean,
  attempt: number,
): Operation<boolean> {
  if (!isThere && isCrowded(table, request)) throw indexFull(table);
  if (request.emptySlot === table.geometry.slots || request.isShutOut) {
    yield* table.retry(request, 'segmentFull', attempt);
    yield* mergeFull(table, request);
    return false;
  }
  const { block } = request.record;
  const won = yield* claimSurveyed(table, request, entryLow(block), newHigh(request));
  if (!won) yield* table.retry(request, 'slotTaken', attempt);
  return won;
}

/**
 * Puts the word into the first empty entry after a survey; false when the survey must be repeated.
 * If a key with other fingerprints has taken the entry meanwhile, the survey still holds. The
 * failed CAS has returned that entry, so the next CAS expects the entry behind it to be empty.
 * Without this, each of many operations of one client would survey a segment again after every
 * write of the others.
 */
function* claimSurveyed(
  table: SepHashTable,
  request: SepHashRequest,
  low: number,
  high: number,
): Operation<boolean> {
  const { words, sign, tag } = request;
  for (let slot = request.emptySlot; slot < table.geometry.slots; slot++) {
    const at = SLOTS_AT + 8 * slot;
    // An entry that the survey read as full behind an empty one was filled after that one was read.
    if (signOf(highHalf(words, at)) !== sign) {
      const fate = yield* claim(table, request, slot, low, high);
      if (hasWon(fate)) return true;
      if (signOf(highHalf(words, at)) !== sign) return false;
    }
    if (tagOf(highHalf(words, at)) === tag) return false;
  }
  return false;
}

/**
 * Whether the key's segment is full at the maximum depth, so that it cannot be split. It then
 * accepts only writes that add no key, so that deletions stay possible. Even ALWAYS must then
 * search first.
 */
function* mustNotGrow(table: SepHashTable, request: SepHashRequest): Operation<boolean> {
  for (let attempt = 1; ; attempt++) {
    aim(table, request);
    const { view } = request;
    if (view.knowsSlots && view.depth < table.directory.maxDepth) return false;
    if (view.knowsMain && view.owns(request.hash.h1)) return isCrowded(table, request);
    yield* catchUp(table, request, attempt);
  }
}

function isCrowded({ directory, geometry }: SepHashTable, { view }: SepHashRequest): boolean {
  return view.depth === directory.maxDepth && view.count >= geometry.mainLimit;
}

function indexFull({ directory }: SepHashTable): StepwellError {
  return new StepwellError(
    'SW_INDEX_FULL',
    `the index has reached its maximum depth of ${directory.maxDepth}: ` +
      'stepwell copy makes a larger one',
  );
}

/** Results of an attempt to fill an entry. */
const WON = 0;
const TAKEN = 1;
const CHANGED = 2;

/** Results of `findEmpty` other than an entry. */
const STALE = -1;
const FULL = -2;

/**
 * Append write (section 4.3): 2 round trips, without knowing whether the key is there.
 *
 *   D[WRITE record; READ window; READ header] -> D[WRITE mark; CAS first empty entry]
 *
 * The CAS succeeds only if the entry is still empty in the same epoch: a merge needs all entries
 * full, and no word comes back while a client may expect it (see docs/protocols/sephash.md). So all
 * writes of a segment have one order, that of the entries, and an append that has returned is found
 * by every later search. `tombstone` makes it a deletion.
 */
function* append(table: SepHashTable, request: SepHashRequest, tombstone = false): Operation<void> {
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
 * The paper reads window after window. Here the second READ takes all the rest; and if the cached
 * offset is of another epoch, the first READ takes the whole CurSegment. With a hundred clients it
 * nearly always is: between two visits of one client, each of the others has been there.
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
 * Posts the record, unless it is written, and the READ of the entries from `offset` on. It reads
 * the entry before, too: if that is not full, the offset is of another epoch.
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
  if (!request.record.isPosted) request.reseal(versionAt(request.epoch, offset));
  table.records.post(request, batch);
  const { windowStart, windowEnd, words } = request;
  const from = request.slots + 8 * windowStart;
  batch.read(from, 8 * (windowEnd - windowStart), words, SLOTS_AT + 8 * windowStart);
  postEnds(table, request, batch);
  return postHeader(request, batch);
}

/**
 * The first empty entry that was read, or the window's end, or STALE. A closed segment has none.
 */
function emptyInWindow(table: SepHashTable, request: SepHashRequest): number {
  if (!request.metaHolds()) return STALE;
  if (request.isShutOut) return table.geometry.slots;
  const slot = firstEmpty(request, request.windowStart, request.windowEnd);
  if (slot === request.windowStart && slot > 0) {
    request.view.forgetOffset();
    return STALE;
  }
  noteOffset(request, slot);
  locateMark(table, request);
  return slot;
}

/** Notes that the entries before `slot` are full, in the epoch that the operation has read. */
function noteOffset({ view, metaLow, metaHigh }: SepHashRequest, slot: number): void {
  if (view.isAt(metaLow, metaHigh)) view.noteOffset(slot);
}

/** Tries the empty entry, and the next one whenever another client was first. */
function* claimFrom(
  table: SepHashTable,
  request: SepHashRequest,
  first: number,
  tombstone: boolean,
): Operation<boolean> {
  for (let slot = first; firstEmpty(request, slot, request.windowEnd) === slot; slot++) {
    if (slot === request.windowEnd) return false;
    const low = entryLow(request.record.block);
    const high = newHigh(request) | (tombstone ? TOMBSTONE : 0);
    const fate = yield* claim(table, request, slot, low, high);
    if (fate === WON) return true;
    if (fate === CHANGED) return false;
  }
  return false;
}

/** The high half of the entry for the request's own record. */
export function newHigh({ record, tag, hash, depth, sign }: SepHashRequest): number {
  const { block, headUnits } = record;
  // Without a length an entry would be a pad, which deletes nothing and names no record.
  invariant(block > 0 && headUnits > 0, 'an entry is to name no record');
  return entryHigh(block, headUnits, { tag, depthBits: depthBitsFor(hash.h1, depth), sign });
}

/**
 * Tries to put the word into an entry that was read as empty: 1 round trip. If it takes the last
 * entry, this client then merges the segment.
 */
export function* claim(
  table: SepHashTable,
  request: SepHashRequest,
  slot: number,
  low: number,
  high: number,
): Operation<number> {
  // Without zero-wait writes the mark is set first, as in the paper's base version.
  if (!table.techniques.zeroWait) yield* setMark(request);
  const fate = yield* claimInTurn(table, request, slot, low, high);
  if (fate !== WON) return fate;
  if (!table.techniques.append) yield* reread(table, request);
  if (slot + 1 === table.geometry.slots) yield* mergeOwn(table, request);
  return WON;
}

/**
 * Operations of one client take turns at the next entry of a segment. Over a network dozens are in
 * flight: each would try the same entry, one would win, and all others would try the next one.
 * Waiting operations learn without a round trip which entries the others fill: no full entry
 * changes before the next merge.
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
  if (view.hasLearnt && adoptLearnt(request, SLOTS_AT + 8 * slot)) return TAKEN;
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

/**
 * Takes over the word that another operation of this client has read there in the same epoch, if
 * any.
 */
function adoptLearnt({ view, words, metaLow, metaHigh }: SepHashRequest, at: number): boolean {
  const word = view.isAt(metaLow, metaHigh) ? view.learntWord(at) : undefined;
  if (word !== undefined) setWord(words, at, word.low, word.high);
  return word !== undefined;
}

/** Passes a word on to this client's waiting operations. */
function learn({ view, words, metaLow, metaHigh }: SepHashRequest, at: number): void {
  if (view.isAt(metaLow, metaHigh)) view.learnWord(at, lowHalf(words, at), highHalf(words, at));
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
  postMark(request, batch);
  copyWord(words, SLOTS_AT + 8 * slot, SWAP_AT);
  const isEmpty = signOf(highHalf(words, SWAP_AT)) !== request.sign;
  invariant(
    isEmpty && signOf(high) === request.sign,
    'a CAS on a full entry, or to a word of another sign',
  );
  setWord(words, SWAP_AT + 8, low, high);
  request.inDoubt = true;
  return batch.cas(request.slots + 8 * slot, words, SWAP_AT);
}

/** Evaluates the claim's answer. */
function noteClaim(request: SepHashRequest, slot: number): number {
  const { words } = request;
  const at = SLOTS_AT + 8 * slot;
  request.inDoubt = false;
  request.mark = 0;
  const won = swapped(words, SWAP_AT);
  copyWord(words, SWAP_AT + (won ? 8 : 16), at);
  const full = signOf(highHalf(words, at)) === request.sign;
  if (full) noteOffset(request, slot + 1);
  if (full) learn(request, at);
  if (!won) return full ? TAKEN : CHANGED;
  request.record.forgetBlock();
  return WON;
}

/**
 * Reads the CurSegment again, as a write must if the order of entries does not reveal rivals
 * (Figure 9b, reread-based). Ours does, so the answer is ignored: only the cost is reproduced.
 */
function* reread(table: SepHashTable, request: SepHashRequest): Operation<void> {
  yield postHeader(request, postSlots(table, request, request.batch.clear()));
}

/** Posts the record; if it is written, only its header again when its version has changed. */
function postRecord(
  table: SepHashTable,
  request: SepHashRequest,
  batch: Batch,
  version: number,
): void {
  // A tombstone points to the record that it deletes and has none of its own.
  if (request.record.block === 0) return;
  if (request.record.version !== version >>> 0) {
    request.reseal(version);
    if (request.record.isPosted)
      batch.write(request.record.block, RECORD_HEADER_BYTES, request.outgoing, 0);
  }
  table.records.post(request, batch);
}

/** Whether `claim` put the word there. */
export function hasWon(fate: number): boolean {
  return fate === WON;
}

/**
 * The first round trips of an operation that depends on the old record: a search that reads the
 * whole CurSegment and writes the operation's own record in the same doorbell.
 *
 *   D[WRITE record; READ entries of the fingerprint in Main; READ CurSegment; READ header]
 *     -> READ record
 *
 * It learns the newest record of the key before the first empty entry. When the CAS on that very
 * entry then succeeds, no other client has written to the segment in between: it would have taken
 * the entry. So a conditional write is atomic without any lock; of two insertions of a
 * key the one whose entry comes first wins, and the other begins again and finds it.
 */
export function* survey(table: SepHashTable, request: SepHashRequest): Operation<boolean> {
  const { batch } = request;
  for (let attempt = 1; ; attempt++) {
    if (!aimForSearch(table, request)) {
      yield* catchUp(table, request, attempt);
      continue;
    }
    batch.clear();
    if (request.record.block !== 0) {
      if (!request.record.isPosted) request.reseal(versionAt(request.epoch, request.view.offset));
      table.records.post(request, batch);
    }
    yield postHeader(request, postSlots(table, request, postRange(request, batch)));
    if (!request.metaHolds()) {
      yield* table.retry(request, 'staleSegment', attempt);
      continue;
    }
    findMark(table, request);
    request.emptySlot = firstEmpty(request, 0, table.geometry.slots);
    gather(request, request.emptySlot);
    return yield* readCandidates(request);
  }
}
