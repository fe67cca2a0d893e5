import { clientWord, GoneClients } from '../../../pool/clients/client-word.ts';
import type { Address, Operation, Scratch } from '../../../verbs/index.ts';
import type { Pair } from '../pair.ts';
import type { MailboxGeometry } from '../protocol/geometry.ts';
import { decodeRequest, OP_REMOVE_FOUND } from '../protocol/hash-messages.ts';
import { readBodies, readUnanswered, type Unanswered } from '../protocol/mailbox.ts';
import { decodeScan } from '../protocol/scan-messages.ts';
import { servingTurns } from './serve-turns.ts';

/** Longer than a client waits for a holder that stands still; a store opens in a full pool, too. */
const POLLS_MAX = 512;

/**
 * What the requests name that wait for the hash server and whose clients are gone; so do those that
 * this client has given up, between whose operations a sweep runs.
 */
export function* abandonedRequests(pair: Pair): Operation<{ block: Address; units: number }[]> {
  const requests = yield* abandoned(pair, pair.mailbox.geometry, decodeRequest);
  // A removal by the key's record does not own that.
  return requests.filter(({ operation }) => operation !== OP_REMOVE_FOUND);
}

/** The blocks that a skiplist server would still read and write. */
export function* abandonedScans(pair: Pair): Operation<Address[]> {
  const scans = yield* abandoned(pair, pair.skiplistMailbox.geometry, decodeScan);
  return scans.map(({ block }) => block);
}

function* abandoned<T>(
  { pool: { membership } }: Pair,
  geometry: MailboxGeometry,
  decode: (words: Scratch, at: number) => T,
): Operation<T[]> {
  const rows: Unanswered[] = [];
  const gone = new GoneClients(membership);
  for (const one of yield* readUnanswered(geometry)) {
    if (one.owner === clientWord(membership) || (yield* gone.has(one.owner))) rows.push(one);
  }
  return yield* readBodies(geometry, rows, decode);
}

/**
 * The next turn answers the requests of clients that are gone. A client that opens the store makes
 * sure of it at once: so it sees all that was written before a crash, and none of that happens
 * later. It waits for a server, but not for the election of a primary.
 */
export function* answerAbandoned(pair: Pair): Operation<void> {
  // The mailbox is never re-used: only for turns has an epoch to be announced.
  if (yield* isSettled(pair)) return;
  yield* pair.pool.reclamation.duringEpoch(() => answerAll(pair));
}

function* answerAll(pair: Pair): Operation<void> {
  const { hashLease } = pair;
  const what = 'what dead clients have asked for';
  let polls = 0;
  yield* pair.waitFor('hash', what, function* ({ holder }, waiting) {
    if (holder.token !== 0 || ++polls > POLLS_MAX) return true;
    if (holder.client !== 0 && !waiting.isTime) return undefined;
    const isTaken = yield* hashLease.takeForTurns(waiting.seen(holder));
    if (isTaken && !(yield* serve(pair))) return true;
    return (yield* isSettled(pair)) || undefined;
  });
}

function* isSettled(pair: Pair): Operation<boolean> {
  return (yield* abandonedRequests(pair)).length === 0;
}

/**
 * Turns until no dead client's request waits, or there is no memory for them. False if this client
 * can do nothing for what waits: in a full pool another one may, after a sweep.
 */
function* serve(pair: Pair): Operation<boolean> {
  let answers = 0;
  const last = yield* servingTurns(pair, undefined, function* (result) {
    answers += result.answers.length;
    return result.answers.length > 0 && !result.released && !(yield* isSettled(pair));
  });
  return answers > 0 || last.isOvertaken === true || last.lost !== undefined;
}
