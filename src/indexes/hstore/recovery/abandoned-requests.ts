import { clientWord, GoneClients } from '../../../pool/clients/client-word.ts';
import { type Address, Batch, type Operation, Scratch } from '../../../verbs/index.ts';
import { hasTable } from '../hash-server/turn-worker.ts';
import type { Pair } from '../pair.ts';
import { BODY_BYTES, type MailboxGeometry } from '../protocol/geometry.ts';
import { borrowsBlock, decodeRequest, type HashRequest } from '../protocol/hash-messages.ts';
import { postBodies, readBodies, readUnanswered, type Unanswered } from '../protocol/mailbox.ts';
import { decodeScan } from '../protocol/scan-messages.ts';
import { servingTurns } from './serve-turns.ts';

/** Enough to overtake a holder without progress. Bounded, so that a store opens in a full pool. */
const POLLS_MAX = 512;

/** A record that a request names. */
type Named = Pick<HashRequest, 'block' | 'units'>;

/**
 * Records named by requests to the hash server that are unanswered, and whose clients are gone.
 * Includes requests that this client has given up, because it is called between operations.
 */
export function* abandonedRequests(pair: Pair): Operation<Named[]> {
  const rows = yield* abandonedRows(pair);
  return owning(yield* readBodies(pair.mailbox.geometry, rows, decodeRequest));
}

function* abandonedRows(pair: Pair): Operation<Unanswered[]> {
  const { membership } = pair.pool;
  const rows: Unanswered[] = [];
  const gone = new GoneClients(membership);
  for (const one of yield* readUnanswered(pair.mailbox.geometry)) {
    if (one.owner === clientWord(membership) || (yield* gone.has(one.owner))) rows.push(one);
  }
  return rows;
}

/** The same for all clients, because a living one may have given up a request. */
export function* waitingRequests(pair: Pair): Operation<Named[]> {
  return owning(yield* waiting(pair.mailbox.geometry, decodeRequest));
}

/** The blocks of unanswered scans, which a skiplist server would still read and write. */
export function* waitingScans(pair: Pair): Operation<Address[]> {
  const scans = yield* waiting(pair.skiplistMailbox.geometry, decodeScan);
  return scans.map(({ block }) => block);
}

/** Leaves out requests that name a block of the table, which they do not own. */
function owning(requests: readonly HashRequest[]): HashRequest[] {
  return requests.filter(({ operation }) => !borrowsBlock(operation));
}

/** Requests unanswered before and after their bodies were read: so no body is a later one's. */
function* waiting<T>(
  geometry: MailboxGeometry,
  decode: (words: Scratch, at: number) => T,
): Operation<T[]> {
  const rows = yield* readUnanswered(geometry);
  if (rows.length === 0) return [];
  const bodies = new Scratch(0);
  yield postBodies(geometry, rows, bodies, new Batch());
  const still = new Map<number, number>();
  for (const { row, number } of yield* readUnanswered(geometry)) still.set(row, number);
  return rows.flatMap(({ row, number }, i) => {
    return still.get(row) === number ? [decode(bodies, BODY_BYTES * i)] : [];
  });
}

/**
 * Makes sure, when a client opens the store, that the requests of dead clients are answered. So the
 * client sees all that was written before a crash, and none of it happens later. It waits for a
 * server, but not for the election of a primary.
 */
export function* answerAbandoned(pair: Pair): Operation<void> {
  // Only turns need an announced epoch. The mailbox's memory is never reused.
  if (yield* isSettled(pair)) return;
  yield* pair.pool.reclamation.duringEpoch(() => answerAll(pair));
}

function* answerAll(pair: Pair): Operation<void> {
  const { hashLease } = pair;
  const what = 'requests of dead clients are unanswered';
  let polls = 0;
  yield* pair.waitFor('hash', what, function* ({ holder }, waiting) {
    if (holder.token !== 0 || ++polls > POLLS_MAX) return true;
    if (holder.client !== 0 && !waiting.isTime) return undefined;
    const isTaken = yield* hashLease.takeForTurns(waiting.seen(holder));
    if (isTaken && !(yield* serve(pair))) return true;
    return (yield* isSettled(pair)) || undefined;
  });
}

/** Requests that own no block count too: a clearing that comes late removes newer records. */
function* isSettled(pair: Pair): Operation<boolean> {
  return (yield* abandonedRows(pair)).length === 0;
}

/**
 * Runs turns until no dead client's request waits, or memory runs out. False if this client cannot
 * answer any: in a full pool another client may be able to, after a sweep.
 */
function* serve(pair: Pair): Operation<boolean> {
  let answers = 0;
  const last = yield* servingTurns(pair, undefined, function* (result) {
    answers += result.answers.length;
    return result.answers.length > 0 && !result.released && !(yield* isSettled(pair));
  });
  return answers > 0 || last.isOvertaken === true || !hasTable(last);
}
