import type { Operation } from '../../verbs/index.ts';
import type { Turn } from './hash-server.ts';
import type { Pair } from './pair.ts';
import { abandonedRequests } from './reachable.ts';
import { restoreTable } from './rebuild.ts';
import { readState } from './state.ts';
import { Waiting } from './waiting.ts';

/** Longer than who stands still is waited for; in a full pool, too, the store has to open. */
const POLLS_MAX = 512;

/**
 * What clients have asked for that are gone is answered by the next turn, whoever does it. A client
 * that opens the store sees to that at once: so it sees all that was written before the crash that
 * it comes after, and nothing of it happens under its hands. If there are servers, they are waited
 * for; if a primary has to be elected first, it is not.
 */
export function* answerTheDead(pair: Pair): Operation<void> {
  // The mailbox is never re-used: only for turns has an epoch to be announced.
  if (!(yield* isAnythingAsked(pair))) return;
  yield* pair.reclamation.duringEpoch(() => answerAll(pair));
}

function* answerAll(pair: Pair): Operation<void> {
  const { hashLease, patience } = pair;
  const waiting = new Waiting(hashLease, patience, 'what dead clients have asked for');
  for (let poll = 0; poll < POLLS_MAX; poll++) {
    const { holder, progress } = yield* readState(pair);
    if (holder.token !== 0) return;
    yield* waiting.poll(holder, progress);
    if (holder.client === 0 || waiting.isTime) {
      const isTaken = yield* hashLease.takeForTurns(waiting.seen(holder));
      if (isTaken && !(yield* serve(pair))) return;
      if (!(yield* isAnythingAsked(pair))) return;
    }
    yield* waiting.rest();
  }
}

function* isAnythingAsked(pair: Pair): Operation<boolean> {
  return (yield* abandonedRequests(pair)).length > 0;
}

/**
 * Turns until nothing waits, or there is no memory for them. False if this client can do nothing
 * for what waits: in a full pool somebody else may, after a sweep.
 */
function* serve(pair: Pair): Operation<boolean> {
  const { hashServer, hashLease } = pair;
  let turn: Turn | undefined;
  let answers = 0;
  try {
    do {
      turn = yield* hashServer.turn({ release: true, ...(turn && { after: turn }) });
      answers += turn.answers.length;
    } while (!turn.released && turn.answers.length > 0);
  } finally {
    if (!turn?.released) yield* hashLease.releaseTurns();
  }
  if (turn.lost !== undefined) yield* restoreTable(pair, turn.lost);
  return answers > 0 || turn.isOvertaken || turn.lost !== undefined;
}
