import { StepwellError } from '../../errors.ts';
import { type Operation, readInteger, swapped, writeInteger } from '../../verbs/index.ts';
import type { Answer } from './commit.ts';
import { BODY_BYTES, PAIR, PAIR_STATE_BYTES, REPLY_BYTES } from './geometry.ts';
import type { SpareBlock } from './hash-server.ts';
import { decodeReply, encodeRequest, type HashReply, type HashRequest } from './messages.ts';
import type { Pair } from './pair.ts';
import { restoreTable } from './rebuild.ts';
import { stateIn } from './state.ts';
import {
  ANSWERED_AT,
  BODY_AT,
  type HStoreRequest,
  type HStoreTable,
  NUMBER_AT,
  PAIR_AT,
  REPLY_AT,
  SWAP_AT,
} from './table.ts';
import { unitsOfRecord } from './turn-record.ts';
import { Waiting } from './waiting.ts';

/**
 * A call to the hash server of a pair.
 *
 * 1. One doorbell WRITEs the record, the request and its number, and tries to take the lease.
 * 2. Who gets the lease is the server for as long as it takes to answer this and whatever else
 *    waits: the calls of all clients are combined in its turns, without a server process.
 * 3. Who does not, because somebody else is the server, polls for the answer. When the server gives
 *    up the lease or is gone, it takes the lease itself, and nothing is lost: the request stands in
 *    the mailbox, and what a dead server had begun is in the log.
 */
export function* callHashServer(
  table: HStoreTable,
  pair: Pair,
  request: HStoreRequest,
  message: HashRequest,
): Operation<HashReply> {
  const { mailbox, allocator, catalog } = pair;
  const spareUnits = unitsOfRecord(1);
  const address = yield* allocator.allocate(catalog, spareUnits);
  const row = yield* mailbox.take();
  const spare = { address, row };
  const number = mailbox.nextNumber(row);
  let reply: HashReply | undefined;
  let posted = false;
  try {
    const { batch, words } = request;
    encodeRequest(message, words, BODY_AT);
    writeInteger(words, NUMBER_AT, number);
    table.records.post(request, batch.clear());
    batch
      .write(mailbox.geometry.body(row), BODY_BYTES, words, BODY_AT)
      .write(mailbox.geometry.request(row), 8, words, NUMBER_AT);
    posted = true;
    yield postTake(pair, request);
    if (swapped(words, SWAP_AT)) reply = yield* serve(pair, request, spare, number);
    reply ??= yield* wait(table, pair, request, spare, number);
    return reply;
  } finally {
    // A request without its answer may still be answered: its row and record stay as they are.
    if (reply !== undefined || !posted) mailbox.give(row);
    else request.forgetBlock();
    if (spare.address !== 0) allocator.discard(catalog, spareUnits, spare.address);
  }
}

/** Adds the attempt to take a lease that nobody holds. */
function postTake(pair: Pair, request: HStoreRequest) {
  const { batch, words } = request;
  writeInteger(words, SWAP_AT, 0);
  writeInteger(words, SWAP_AT + 8, pair.hashLease.forTurns);
  return batch.cas(pair.hashLease.address, words, SWAP_AT);
}

/**
 * Turns as the hash server until the own request is answered. It may be answered already: by the
 * server that gave up the lease between this client's WRITE and its CAS, or by the completion of
 * what another server had begun. Undefined when this client was overtaken, or the table was lost
 * and is there again: the lease is given back, and everything as before.
 */
function* serve(
  pair: Pair,
  request: HStoreRequest,
  spare: SpareBlock,
  number: number,
): Operation<HashReply | undefined> {
  const { row } = spare;
  let released = false;
  let wasLost = false;
  const isOwn = ({ posted }: Answer) => posted.row === row && posted.number === number;
  try {
    for (;;) {
      const turn = yield* pair.hashServer.turn({ release: true, spare });
      released = turn.released;
      wasLost = turn.isLost;
      if (wasLost) break;
      const own = turn.answers.find(isOwn);
      if (own) return own.reply;
      const reply = yield* readReply(pair, request, row, number);
      if (reply) return reply;
      if (turn.isOvertaken) break;
      if (released || turn.answers.length === 0) throw lost();
    }
  } finally {
    if (!released) yield* pair.hashLease.releaseTurns();
  }
  if (wasLost) yield* restoreTable(pair);
  return undefined;
}

/** The reply to the request, if there is one; leaves the pair's state in the words. */
function* readReply(
  pair: Pair,
  { batch, words }: HStoreRequest,
  row: number,
  number: number,
): Operation<HashReply | undefined> {
  const { geometry } = pair.mailbox;
  yield batch
    .clear()
    .read(pair.geometry.base, PAIR_STATE_BYTES, words, PAIR_AT)
    .read(geometry.answered(row), 8, words, ANSWERED_AT)
    .read(geometry.reply(row), REPLY_BYTES, words, REPLY_AT);
  if (readInteger(words, ANSWERED_AT) !== number) return undefined;
  return decodeReply(words, REPLY_AT, readInteger(words, PAIR_AT + PAIR.committed));
}

function* wait(
  table: HStoreTable,
  pair: Pair,
  request: HStoreRequest,
  spare: SpareBlock,
  number: number,
): Operation<HashReply> {
  const { batch, words } = request;
  const { row } = spare;
  const { retries } = table;
  const { hashLease } = pair;
  const what = 'the write may still take effect';
  const waiting = new Waiting(hashLease, pair.patience, what);
  try {
    for (;;) {
      retries.waits++;
      const reply = yield* readReply(pair, request, row, number);
      if (reply) return reply;
      const { holder, progress } = stateIn(pair, words, PAIR_AT);
      const isOwn = holder.client === hashLease.own;
      yield* waiting.poll(holder, progress);
      if (holder.word === 0n) {
        batch.clear();
        yield postTake(pair, request);
        if (!swapped(words, SWAP_AT)) continue;
        const own = yield* serve(pair, request, spare, number);
        if (own) return own;
      } else if (
        !isOwn &&
        waiting.isTime &&
        (yield* hashLease.takeForTurns(waiting.seen(holder)))
      ) {
        retries.takeovers++;
        const own = yield* serve(pair, request, spare, number);
        if (own) return own;
      }
      yield batch.clear().pause(isOwn ? 0 : waiting.pause, words);
    }
  } finally {
    retries.fences += waiting.fences;
  }
}

function lost(): StepwellError {
  return new StepwellError('SW_POOL_CORRUPT', 'the hash server has lost a request');
}
