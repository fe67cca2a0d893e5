import { hasCode, invariant, StepwellError } from '../../../errors.ts';
import { SLOT_UNITS_MAX } from '../../../records/layout.ts';
import {
  type Address,
  NULL_ADDRESS,
  type Operation,
  swapped,
  writeInteger,
} from '../../../verbs/index.ts';
import {
  ALWAYS,
  type Condition,
  IF_ABSENT,
  IF_PRESENT,
  IF_VERSION,
  INSERTED,
  type Outcome,
  REFUSED,
  REPLACED,
  STORED,
} from '../../contract.ts';
import { backOff } from '../../substrates/backoff.ts';
import { classOfHead } from '../../substrates/record-io.ts';
import type { SpareBlock } from '../hash-server/turn-worker.ts';
import type { Pair } from '../pair.ts';
import { BODY_BYTES } from '../protocol/geometry.ts';
import {
  type Asked,
  encodeRequest,
  type HashReply,
  IF_SLOT,
  OP_CLEAR,
  OP_REMOVE,
  OP_REMOVE_FOUND,
  OP_WRITE,
  OUT_OF_MEMORY,
} from '../protocol/hash-messages.ts';
import type { Ticket } from '../protocol/replies.ts';
import { recordOf, slotWord, unitsOfSlot } from '../protocol/slot.ts';
import { unitsOfRecord } from '../protocol/turn.ts';
import { Waiting } from '../protocol/waiting.ts';
import { wordOf } from '../protocol/word.ts';
import { servingTurns } from '../recovery/serve-turns.ts';
import { catchUp } from '../skiplist-server/skiplist-server.ts';
import { readSlot, search } from './search.ts';
import { BODY_AT, type HStoreRequest, type HStoreTable, NUMBER_AT, SWAP_AT } from './table.ts';

/** PUT and UPDATE (section 4.2): the record by WRITE, then a call to the hash server. */
export function* write(
  table: HStoreTable,
  request: HStoreRequest,
  condition: Condition,
  expected: number,
): Operation<Outcome> {
  const { records } = table;
  if (condition === IF_VERSION && !isVersion(expected)) {
    if (!(yield* search(table, request))) request.found.at = -1;
    return REFUSED;
  }
  try {
    if (!records.take(request)) yield* records.allocate(request);
    const reply = yield* call(table, request, OP_WRITE, condition, expected);
    if (reply.outcome === INSERTED) return INSERTED;
    if (reply.outcome === REPLACED) {
      const outcome = yield* replaced(table, request, reply, condition === ALWAYS);
      // The old record may have expired since the server has decided.
      return condition === IF_PRESENT || condition === IF_VERSION ? REPLACED : outcome;
    }
    request.found.at = -1;
    if (reply.oldHigh !== 0) yield* readOld(request, reply);
    return REFUSED;
  } finally {
    records.discard(request);
  }
}

/** Any other number matches no record's version, and a message would cut it to 32 bits. */
function isVersion(expected: number): boolean {
  return expected === expected >>> 0;
}

/**
 * DELETE: a call that names the key, which is in the pool like that of a record; then a READ of the
 * removed record, for the caller and to free it. If a version is expected, the server compares it:
 * it decides the requests of a bucket one by one.
 */
export function* remove(
  table: HStoreTable,
  request: HStoreRequest,
  expected?: number,
): Operation<boolean> {
  const { records } = table;
  if (expected !== undefined && !isVersion(expected)) return false;
  const condition = expected === undefined ? ALWAYS : IF_VERSION;
  try {
    records.encodeValue(request, '', 0);
    const operation = yield* nameKey(table, request);
    if (operation === undefined) return false;
    const reply = yield* call(table, request, operation, condition, expected ?? 0);
    if (reply.outcome !== REPLACED) return false;
    return (yield* replaced(table, request, reply, false)) === REPLACED;
  } finally {
    records.discard(request);
    request.record.forgetBlock();
  }
}

/**
 * Puts the key in the pool for the server to read. Returns the operation that says where it is;
 * undefined if there is no such key. In a full pool there may be no block for it: then the request
 * names the key's own record, which is not reused while this client is in its epoch.
 */
function* nameKey(table: HStoreTable, request: HStoreRequest): Operation<number | undefined> {
  const { records } = table;
  // A short key takes a block of the size that turns take. A full pool has a chunk of those, but
  // may have none of smaller ones, and each deletion would look for one.
  request.record.headUnits = Math.max(request.record.headUnits, unitsOfRecord(1));
  try {
    if (!records.take(request)) yield* records.allocate(request);
    return OP_REMOVE;
  } catch (error) {
    if (!hasCode(error, 'SW_POOL_FULL')) throw error;
  }
  if (!(yield* search(table, request))) return undefined;
  // There is nothing to write.
  request.record.isPosted = true;
  return OP_REMOVE_FOUND;
}

/** A bucket of the table of this generation, and the codec of records that stay. */
export interface BucketToClear {
  bucket: Address;
  generation: number;
  keptCodec: number;
}

/**
 * Removes the records of a bucket together, in one turn, and returns how many; see OP_CLEAR. The
 * server frees them. If the table is another one by now, this does nothing.
 */
export function* clearBucket(
  table: HStoreTable,
  pair: Pair,
  request: HStoreRequest,
  { bucket, generation, keptCodec }: BucketToClear,
): Operation<number> {
  const { hash, record } = request;
  const { low, high } = wordOf(generation);
  const named = slotWord(bucket, 1, 0);
  request.keyBytes = 0;
  request.slotLow = named.low;
  request.slotHigh = named.high;
  hash.h1 = low;
  hash.h2 = high;
  hash.h3 = pair.geometry.number;
  record.isPosted = true;
  const { outcome, version } = yield* call(table, request, OP_CLEAR, ALWAYS, keptCodec);
  return outcome === REPLACED ? version : 0;
}

/** Reads, computes, and writes if the slot is still the one that was read. */
export function* modify(
  table: HStoreTable,
  request: HStoreRequest,
  compute: (present: boolean) => void,
): Operation<Outcome> {
  const { records } = table;
  try {
    for (let attempt = 1; ; attempt++) {
      const isThere = yield* search(table, request);
      const present = isThere && !records.isExpired(request);
      if (present) yield* records.complete(request);
      records.discard(request);
      compute(present);
      if (!records.take(request)) yield* records.allocate(request);
      const condition = isThere ? IF_SLOT : IF_ABSENT;
      const reply = yield* call(table, request, OP_WRITE, condition, request.found.version);
      if (reply.outcome === INSERTED) return INSERTED;
      if (reply.outcome === REPLACED) {
        // The server has found an expired record where this client found none.
        if (!isThere) yield* readOld(request, reply);
        yield* retireFound(table, request);
        return present ? REPLACED : INSERTED;
      }
      yield* backOff(table.retries, request, 'slotChanged', attempt);
    }
  } finally {
    records.discard(request);
  }
}

/** Calls the hash server. A record that it has stored then belongs to the index. */
function* call(
  table: HStoreTable,
  request: HStoreRequest,
  operation: number,
  condition: Asked['condition'],
  expectedVersion: number,
): Operation<HashReply> {
  const pair = table.pairOf(request);
  const asked = { operation, condition, expectedVersion };
  const reply = yield* callHashServer(table, pair, request, asked);
  if (reply.sequence > 0) {
    // Before the wait below, which may fail. The block of a removal only has the key.
    if (operation === OP_WRITE) {
      request.reseal(reply.version);
      request.record.forgetBlock();
    }
    yield* applyAfter(table, pair, reply.sequence);
  }
  if (reply.outcome !== OUT_OF_MEMORY) return reply;
  throw new StepwellError('SW_POOL_FULL', 'the pool is full: no memory for a bucket');
}

/**
 * What a write does for the skiplist after it was committed. Asynchronous: nothing, except that a
 * client with a skiplist of its own applies the log before the ring overwrites it. Once the ring
 * has, the next scan rebuilds the skiplist, because in a write that would delay other clients.
 * HStore (sync): the write waits until the skiplist has it.
 */
function* applyAfter(table: HStoreTable, pair: Pair, sequence: number): Operation<void> {
  const { skiplist, geometry } = pair;
  if (table.shape.sync === 1) return yield* waitUntilApplied(pair, sequence);
  const { applied } = skiplist;
  const behind = applied < 0 ? 0 : sequence - applied;
  const kept = geometry.entriesKept;
  if (behind > kept / 2 && behind <= kept) yield* skiplist.keepUp();
}

function* waitUntilApplied(pair: Pair, sequence: number): Operation<void> {
  const { skiplistLease } = pair;
  const what = 'the write is stored, but the skiplist server has not applied it';
  yield* pair.waitFor('skiplist', what, function* ({ skiplist }, waiting) {
    const { holder, applied } = skiplist;
    const isServed = skiplistLease.isTaken(holder);
    if (!isServed) yield* catchUp(pair);
    if (!isServed || applied >= sequence) return true;
    if (!waiting.isTime || !(yield* skiplistLease.take(holder))) return undefined;
    // The server is gone: the write is in its log, and in what the next one builds.
    yield* skiplistLease.release();
    return true;
  });
}

/**
 * This client frees the old record, through epochs (section 3.2). A blind write reads it only if
 * its slot does not tell its length. A record that has expired counts as absent.
 */
function* replaced(
  table: HStoreTable,
  request: HStoreRequest,
  reply: HashReply,
  isBlind: boolean,
): Operation<Outcome> {
  const units = unitsOfSlot(reply.oldHigh);
  if (isBlind && units < SLOT_UNITS_MAX) {
    const address = recordOf({ low: reply.oldLow, high: reply.oldHigh });
    table.pool.reclamation.retire(address, classOfHead(units), table.catalog);
    return STORED;
  }
  yield* readOld(request, reply);
  yield* retireFound(table, request);
  return table.records.isExpired(request) ? INSERTED : REPLACED;
}

function* readOld(request: HStoreRequest, { oldLow, oldHigh }: HashReply): Operation<void> {
  const isKeys = yield* readSlot(request, { low: oldLow, high: oldHigh });
  invariant(isKeys, 'the hash server answers with the record of another key');
}

function* retireFound(table: HStoreTable, request: HStoreRequest): Operation<void> {
  const address = request.foundAddress;
  request.displaced = true;
  if (request.found.isChained) yield* table.records.retireChain(request, address);
  else table.records.retireFound(request, address, unitsOfSlot(request.slotHigh));
}

/**
 * A call to the hash server of a pair.
 *
 * 1. One doorbell WRITEs the record, the request and its number, and tries to take the lease.
 * 2. A client that gets the lease is the server for as long as it takes to answer this and all else
 *    that waits: its turns combine the calls of all clients, without a server process.
 * 3. Any other client waits for the answer. One call of a client polls for all of them (see
 *    Replies), and none does while the client is the server itself. When the server releases the
 *    lease or is gone, the client takes the lease. Nothing is lost: the request is in the mailbox,
 *    and what a dead server had begun is in the record of its turn.
 */
export function* callHashServer(
  table: HStoreTable,
  pair: Pair,
  request: HStoreRequest,
  asked: Asked,
): Operation<HashReply> {
  const { mailbox, replies } = pair;
  const row = yield* mailbox.take(pair.patience.waitsMax);
  const spare: SpareBlock = { address: NULL_ADDRESS, units: unitsOfRecord(1), row };
  const ticket = replies.expect(row, mailbox.nextNumber(row));
  let block = NULL_ADDRESS;
  let posted = false;
  let failed = true;
  try {
    block = (yield* pair.allocate(spare.units)) ?? (yield* pair.ownRecords.take());
    spare.address = block;
    const { batch, words } = request;
    encodeRequest(asked, request, words, BODY_AT);
    writeInteger(words, NUMBER_AT, ticket.number);
    table.records.post(request, batch.clear());
    batch
      .write(mailbox.geometry.body(row), BODY_BYTES, words, BODY_AT)
      .write(mailbox.geometry.request(row), 8, words, NUMBER_AT);
    const { isServed } = replies;
    writeInteger(words, SWAP_AT, 0);
    writeInteger(words, SWAP_AT + 8, pair.hashLease.forTurns);
    if (!isServed) batch.cas(pair.hashLease.address, words, SWAP_AT);
    posted = true;
    // A server that was overtaken may still read it, so it is freed through epochs.
    request.record.isExposed = true;
    if (isServed && replies.mayLook(ticket)) yield* replies.look(ticket, batch);
    else yield batch;
    if (!isServed && swapped(words, SWAP_AT)) yield* serve(pair, ticket, spare);
    const reply = ticket.reply ?? (yield* wait(table, pair, request, ticket, spare));
    failed = false;
    return reply;
  } finally {
    replies.forget(ticket);
    // A request without its answer may still be answered: its row and record stay as they are.
    if (ticket.reply !== undefined || !posted) mailbox.give(row);
    else mailbox.giveUp(row);
    if (failed && posted) request.record.forgetBlock();
    giveBack(pair, block, spare);
  }
}

/** Gives back the block for a turn, unless a turn has used it. */
function giveBack(pair: Pair, block: Address, { address, units }: SpareBlock): void {
  const { geometry, ownRecords } = pair;
  if (geometry.isOwnRecord(block)) ownRecords.give(block, address === NULL_ADDRESS);
  else if (address !== NULL_ADDRESS) pair.discard(address, units);
}

/**
 * Runs turns as the hash server until this request is answered. It may be answered already: by the
 * server that released the lease between this client's WRITE and CAS, or by completing another
 * server's turn. It ends without an answer if this client was overtaken, or had to restore or grow
 * the table. In any case it releases the lease.
 */
function* serve(pair: Pair, ticket: Ticket, spare: SpareBlock): Operation<void> {
  yield* servingTurns(pair, spare, function* (result) {
    if (ticket.reply) return false;
    // The turn has read ahead: the next one answers this request, unless it is answered already.
    if (result.next) return true;
    yield* pair.replies.look();
    if (ticket.reply || result.isOvertaken) return false;
    if (!result.released && result.answers.length > 0) return true;
    throw new StepwellError('SW_POOL_CORRUPT', 'the hash server has lost a request');
  });
}

function* wait(
  table: HStoreTable,
  pair: Pair,
  request: HStoreRequest,
  ticket: Ticket,
  spare: SpareBlock,
): Operation<HashReply> {
  const { batch, words } = request;
  const { retries } = table;
  const { hashLease, replies } = pair;
  const what = 'the write may still take effect';
  const waiting = new Waiting(hashLease, pair.patience, what);
  try {
    for (;;) {
      const looks = replies.mayLook(ticket);
      if (looks) {
        retries.waits++;
        yield* replies.look(ticket);
      }
      if (ticket.reply) return ticket.reply;
      const state = replies.newState(ticket);
      if (state === undefined) {
        yield batch.clear().pause(waiting.localPause, words);
        continue;
      }
      const { holder, progress } = state;
      yield* waiting.poll(holder, progress);
      const isOwn = holder.client === hashLease.own;
      // Several operations may have seen a free lease. Only the one that looked tries to take it.
      const tries = holder.client === 0 ? looks : !isOwn && waiting.isTime;
      if (tries && (yield* hashLease.takeForTurns(waiting.seen(holder)))) {
        if (holder.client !== 0) retries.takeovers++;
        yield* serve(pair, ticket, spare);
      }
      if (ticket.reply) return ticket.reply;
      yield batch.clear().pause(isOwn ? 0 : waiting.pause, words);
    }
  } finally {
    retries.fences += waiting.fences;
  }
}
