import { StepwellError } from '../../../errors.ts';
import {
  type Address,
  NULL_ADDRESS,
  type Operation,
  swapped,
  writeInteger,
} from '../../../verbs/index.ts';
import type { SpareBlock } from '../hash-server/turn-worker.ts';
import type { Pair } from '../pair.ts';
import { BODY_BYTES } from '../protocol/geometry.ts';
import { type Asked, encodeRequest, type HashReply } from '../protocol/hash-messages.ts';
import type { Ticket } from '../protocol/replies.ts';
import { unitsOfRecord } from '../protocol/turn.ts';
import { Waiting } from '../protocol/waiting.ts';
import { servingTurns } from '../recovery/serve-turns.ts';
import { BODY_AT, type HStoreRequest, type HStoreTable, NUMBER_AT, SWAP_AT } from './table.ts';

/**
 * A call to the hash server of a pair.
 *
 * 1. One doorbell WRITEs the record, the request and its number, and tries to take the lease.
 * 2. A client that gets the lease is the server for as long as it takes to answer this and all else
 *    that waits: its turns combine the calls of all clients, without a server process.
 * 3. A client that does not waits for the answer. Of one client's calls one polls for all (see
 *    Replies), and none while the client is the server itself. When the server gives up the lease
 *    or is gone, the client takes the lease, and nothing is lost: the request stands in the
 *    mailbox, and what a dead server had begun in the record of its turn.
 */
export function* callHashServer(
  table: HStoreTable,
  pair: Pair,
  request: HStoreRequest,
  asked: Asked,
): Operation<HashReply> {
  const { mailbox } = pair;
  const spareUnits = unitsOfRecord(1);
  const row = yield* mailbox.take(pair.patience.waitsMax);
  const spare: SpareBlock = { address: 0, units: spareUnits, row };
  const ticket = pair.replies.expect(row, mailbox.nextNumber(row));
  let block = NULL_ADDRESS;
  let posted = false;
  let failed = true;
  try {
    block = (yield* pair.allocate(spareUnits)) ?? (yield* pair.ownRecords.take());
    spare.address = block;
    const { batch, words } = request;
    encodeRequest(asked, request, words, BODY_AT);
    writeInteger(words, NUMBER_AT, ticket.number);
    table.records.post(request, batch.clear());
    writeInteger(words, SWAP_AT, 0);
    writeInteger(words, SWAP_AT + 8, pair.hashLease.forTurns);
    batch
      .write(mailbox.geometry.body(row), BODY_BYTES, words, BODY_AT)
      .write(mailbox.geometry.request(row), 8, words, NUMBER_AT)
      .cas(pair.hashLease.address, words, SWAP_AT);
    posted = true;
    // A server that was overtaken may still read it: it comes free by epochs.
    request.blockExposed = true;
    yield batch;
    if (swapped(words, SWAP_AT)) yield* serve(pair, ticket, spare);
    const reply = ticket.reply ?? (yield* wait(table, pair, request, ticket, spare));
    failed = false;
    return reply;
  } finally {
    pair.replies.forget(ticket);
    // A request without its answer may still be answered: its row and record stay as they are.
    if (ticket.reply !== undefined || !posted) mailbox.give(row);
    else mailbox.giveUp(row);
    if (failed && posted) request.forgetBlock();
    giveBack(pair, block, spare);
  }
}

/** The block for a turn, of which a turn has made use, or not. */
function giveBack(pair: Pair, block: Address, { address, units }: SpareBlock): void {
  const { geometry, ownRecords } = pair;
  if (geometry.isOwnRecord(block)) ownRecords.give(block, address === NULL_ADDRESS);
  else if (address !== NULL_ADDRESS) pair.discard(address, units);
}

/**
 * Turns as the hash server until the own request is answered. It may be answered already: by the
 * server that gave up the lease between this client's WRITE and its CAS, or by the completion of
 * what another server had begun. Without an answer it ends when this client was overtaken, or the
 * table was lost and is there again: the lease is given back, and everything as before.
 */
function* serve(pair: Pair, ticket: Ticket, spare: SpareBlock): Operation<void> {
  yield* servingTurns(pair, spare, function* (result) {
    if (ticket.reply) return false;
    // It knows what waits: the own request, or nothing if another server has answered it.
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
        yield* replies.look();
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
      // Of operations that have heard of a free lease one tries for it: the one that has looked.
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
