import { clientWord, GoneClients } from '../../../pool/clients/client-word.ts';
import { type Address, Batch, type Operation, Scratch } from '../../../verbs/index.ts';
import { hasTable } from '../hash-server/turn-worker.ts';
import type { Pair } from '../pair.ts';
import { BODY_BYTES, type MailboxGeometry } from '../protocol/geometry.ts';
import { decodeRequest, OP_REMOVE_FOUND } from '../protocol/hash-messages.ts';
import { postBodies, readBodies, readUnanswered, type Unanswered } from '../protocol/mailbox.ts';
import { decodeScan } from '../protocol/scan-messages.ts';
import { servingTurns } from './serve-turns.ts';

/** Longer than a client waits for a holder that stands still; a store opens in a full pool, too. */
const POLLS_MAX = 512;

/** A record that a request names. */
interface Named {
  block: Address;
  units: number;
}

/**
 * Records that requests name which wait for the hash server and whose clients are gone. Called
 * between operations, it includes requests that this client has given up.
 */
export function* abandonedRequests(pair: Pair): Operation<Named[]> {
  const { membership } = pair.pool;
  const rows: Unanswered[] = [];
  const gone = new GoneClients(membership);
  for (const one of yield* readUnanswered(pair.mailbox.geometry)) {
    if (one.owner === clientWord(membership) || (yield* gone.has(one.owner))) rows.push(one);
  }
  return owning(yield* readBodies(pair.mailbox.geometry, rows, decodeRequest));
}

/** The same for all clients: a living one may have given up a request that is answered later. */
export function* waitingRequests(pair: Pair): Operation<Named[]> {
  return owning(yield* waiting(pair.mailbox.geometry, decodeRequest));
}

/** The blocks that a skiplist server would still read and write. */
export function* waitingScans(pair: Pair): Operation<Address[]> {
  const scans = yield* waiting(pair.skiplistMailbox.geometry, decodeScan);
  return scans.map(({ block }) => block);
}

/** Leaves out removals that name the key's own record, which they do not own. */
function owning<T extends { operation: number }>(requests: readonly T[]): T[] {
  return requests.filter(({ operation }) => operation !== OP_REMOVE_FOUND);
}

/**
 * Requests unanswered before and after their bodies were read, so that no body is a later one's.
 */
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
  return answers > 0 || last.isOvertaken === true || !hasTable(last);
}
