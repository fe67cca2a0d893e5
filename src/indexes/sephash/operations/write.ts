import { invariant, StepwellError } from '../../../errors.ts';
import { highHalf, type Operation } from '../../../verbs/index.ts';
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
import { mergeFull } from '../merging/merge.ts';
import { type SepHashRequest, SLOTS_AT } from '../request.ts';
import { entryLow, isPad, isTombstone, signOf, tagOf, tombstoneHigh } from '../segments/entry.ts';
import type { SepHashTable } from '../table.ts';
import { append, claim, hasWon, newHigh } from './append.ts';
import { aim, catchUp } from './refresh.ts';
import { survey } from './survey.ts';

/**
 * Stores the outgoing record under a condition. ALWAYS is a blind append of 2 round trips. A
 * condition that needs the old record searches first: 2 round trips for a key whose fingerprints
 * no other key has, else 3.
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
      if (refuses(condition, expected, present, request.foundVersion)) {
        if (!present) request.foundAt = -1;
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

/** Deletes without telling whether there was anything: 2 round trips, as the paper's deletion. */
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

/** Replaces the value by what `compute` makes of the old one: 3 round trips. */
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

/** What was not linked is given back; what may have been linked belongs to a sweep. */
function release(table: SepHashTable, request: SepHashRequest): void {
  if (request.inDoubt) request.forgetBlock();
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
  const { block } = request;
  const won = yield* claimSurveyed(table, request, entryLow(block), newHigh(request));
  if (!won) yield* table.retry(request, 'slotTaken', attempt);
  return won;
}

/**
 * Puts the word into the first empty entry after a survey; false when the survey must be made
 * again. An entry that was taken meanwhile by a key with other fingerprints changes nothing of what
 * the survey has found: the failed CAS has read it, so the next entry is the first one about which
 * nothing is known. Many operations of one client on one segment would survey it once for each
 * other.
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
    // One that the survey has read as full, behind an empty one, was filled after that.
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
 * A segment at the maximum depth cannot be split. When it holds as much as it should, only writes
 * that add no key are let in, so that it stays possible to delete; then even ALWAYS searches first.
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
