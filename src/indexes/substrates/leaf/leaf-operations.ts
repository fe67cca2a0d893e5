import { hasCode } from '../../../errors.ts';
import { HEADER_BYTES as RECORD_HEADER_BYTES } from '../../../records/layout.ts';
import type { Operation } from '../../../verbs/index.ts';
import type { SlotProtocol } from '../claims/slot-operations.ts';
import { insertItem, removeItem, touchItem, updateItem } from './change-leaf.ts';
import { combine } from './combine.ts';
import { decide, KEEP, OTHERWISE, REMOVE } from './decide.ts';
import { SUM_AT } from './layout.ts';
import type { LeafClient } from './leaf-client.ts';
import { type LeafRequest, REMOVES, WRITES } from './leaf-request.ts';
import { letGo, lockLeaf, unlock } from './lock-leaf.ts';
import { lookAtCandidates, lookInNeighbourhood, prepare } from './read-leaf.ts';
import { searchLeaf } from './search-leaf.ts';

/** Gives the request's item a block for its record, unless it fits the leaf. */
export function* prepareItem(client: LeafClient, request: LeafRequest): Operation<void> {
  if (takeBlock(client, request)) return;
  yield* client.records.allocate(request);
}

/** False if a block must be claimed first. */
function takeBlock({ geometry, records }: LeafClient, request: LeafRequest): boolean {
  request.inline = geometry.fitsInline(request.keyBytes, request.record.valueBytes);
  return request.inline || request.record.block !== 0 || records.take(request);
}

/** Whether the locked leaf has the key; its item is then the found one. */
function* isInLocked(client: LeafClient, request: LeafRequest): Operation<boolean> {
  if (lookInNeighbourhood(client, request)) return true;
  return request.candidates.count > 0 && (yield* lookAtCandidates(request));
}

/**
 * `Index.write`, `remove` and `modify`, as `request.change` says: 2 round trips if nothing is in
 * the way. False, and nothing was done, if a modification needs blocks, because a record must be
 * written before the lock is tried.
 */
export function* changeItem(client: LeafClient, request: LeafRequest): Operation<boolean> {
  const { change } = request;
  prepare(client, request);
  request.inserts = change !== REMOVES;
  try {
    yield* client.begin(request);
    for (let fulls = 1; ; fulls++) {
      if (change === WRITES) yield* prepareItem(client, request);
      if (yield* lockOrJoin(client, request)) return true;
      if (yield* combine(client, request)) return true;
      const isThere = yield* isInLocked(client, request);
      const decision = decide(client, request, isThere);
      if (decision === OTHERWISE) return false;
      if (decision === KEEP) yield* unlock(request);
      else if (decision === REMOVE) yield* removeItem(client, request);
      else if (isThere) yield* updateItem(client, request);
      else if (!(yield* insertItem(client, request))) {
        if (!(yield* makePlace(client, request, fulls))) continue;
      }
      return true;
    }
  } finally {
    yield* letGo(client, request);
    client.records.discard(request);
  }
}

/** Locks the leaf, or waits until the operation before it has made its change: then true. */
function* lockOrJoin(client: LeafClient, request: LeafRequest): Operation<boolean> {
  request.joins = true;
  try {
    for (let attempt = 1; !(yield* lockLeaf(client, request, attempt)); attempt++) {
      if (request.turnDone) return true;
    }
    return false;
  } finally {
    request.joins = false;
  }
}

/** Locks the leaf. lock-leaf.ts bounds the time for one holder, and the number of holders. */
function* lock(client: LeafClient, request: LeafRequest): Operation<void> {
  for (let attempt = 1; !(yield* lockLeaf(client, request, attempt)); ) attempt++;
}

/**
 * The neighbourhood of the locked leaf is full, and no hop makes room. The operation keeps its
 * turn: others of this client would find the leaf full, too, and only hinder the split. True when
 * the split has put the item into one of the halves.
 */
function* makePlace(client: LeafClient, request: LeafRequest, attempt: number): Operation<boolean> {
  client.count('leafFull', attempt, request);
  try {
    if (yield* client.makeRoom(request)) return true;
  } catch (error) {
    if (hasCode(error, 'SW_POOL_FULL')) client.turns.refuseInsertions(request, error);
    throw error;
  }
  yield* client.begin(request);
  return false;
}

/**
 * `RecordIo.touch` for an inline item. It takes the lock, because the access word could be another
 * item's by now. It does nothing if the item was changed since, has expired (which others may have
 * seen), or the lock is stuck. The read that called it is valid all the same.
 */
export function* touchInline(client: LeafClient, found: LeafRequest): Operation<void> {
  const { outgoing, keyBytes } = found;
  const { version: foundVersion } = found.found;
  const sum = sumOf(found);
  // The caller still needs the words of `found`, so this uses another request.
  const request = client.newRequest();
  const key = RECORD_HEADER_BYTES;
  request.setKey(outgoing.u8.subarray(key, key + keyBytes), client.geometry.shape.seed);
  prepare(client, request);
  try {
    yield* client.begin(request);
    yield* lock(client, request);
    const isThere = yield* isInLocked(client, request);
    const isSame = isThere && request.found.version === foundVersion && sumOf(request) === sum;
    if (isSame && !client.records.isExpired(request)) yield* touchItem(client, request);
    else yield* unlock(request);
  } catch (error) {
    if (!hasCode(error, 'SW_CONTENTION')) throw error;
  } finally {
    yield* letGo(client, request);
  }
}

/**
 * The steps of `modify` for items with records: first a search, on whose result the new value
 * depends, then a change under the lock if the item is still the same.
 */
export function leafProtocol(client: LeafClient): SlotProtocol<LeafRequest> {
  const { records } = client;
  return {
    records: {
      take: (request) => takeBlock(client, request as LeafRequest),
      allocate: (request) => records.allocate(request),
      discard: (request) => records.discard(request),
      isExpired: (request) => records.isExpired(request),
      isPast: (request) => records.isPast(request),
      complete: (request) => records.complete(request),
    },
    locate: (request) => searchLeaf(client, request),
    insert: (request, attempt) => insertIfAbsent(client, request, attempt),
    replace: (request, attempt) => replaceIfSame(client, request, attempt),
    vacate: (request, attempt) => vacateIfSame(client, request, attempt),
  };
}

function* insertIfAbsent(
  client: LeafClient,
  request: LeafRequest,
  attempt: number,
): Operation<boolean> {
  request.inserts = true;
  try {
    yield* lock(client, request);
    if (yield* isInLocked(client, request)) {
      client.count('itemChanged', attempt, request);
      return false;
    }
    if (yield* insertItem(client, request)) return true;
    return yield* makePlace(client, request, attempt);
  } finally {
    yield* letGo(client, request);
  }
}

function replaceIfSame(
  client: LeafClient,
  request: LeafRequest,
  attempt: number,
): Operation<boolean> {
  return changeIfSame(client, request, attempt, false);
}

function vacateIfSame(
  client: LeafClient,
  request: LeafRequest,
  attempt: number,
): Operation<boolean> {
  return changeIfSame(client, request, attempt, true);
}

/** Changes the item if it is still the one that the search has found, by version and checksum. */
function* changeIfSame(
  client: LeafClient,
  request: LeafRequest,
  attempt: number,
  removes: boolean,
): Operation<boolean> {
  const seen = request.found.version;
  const sum = sumOf(request);
  try {
    yield* lock(client, request);
    const isThere = yield* isInLocked(client, request);
    if (!isThere || request.found.version !== seen || sumOf(request) !== sum) {
      client.count('itemChanged', attempt, request);
      return false;
    }
    if (removes) yield* removeItem(client, request);
    else yield* updateItem(client, request);
    return true;
  } finally {
    yield* letGo(client, request);
  }
}

function sumOf({ words, entry }: LeafRequest): number {
  return words.i32[(entry + SUM_AT) >> 2];
}
