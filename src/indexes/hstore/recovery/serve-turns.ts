import type { Operation } from '../../../verbs/index.ts';
import type { SpareBlock, Turn } from '../hash-server/turn-worker.ts';
import type { Pair } from '../pair.ts';
import { restoreTable } from './rebuild-table.ts';

/**
 * Turns as the hash server, with a lease that was taken for turns: as long as `goesOn` says, then
 * it is given back. They end when the table is lost; it is there again afterwards.
 */
export function* servingTurns(
  pair: Pair,
  spare: SpareBlock | undefined,
  goesOn: (turn: Turn) => Operation<boolean>,
): Operation<Turn> {
  const { replies } = pair;
  let released = false;
  let turn: Turn;
  replies.serving++;
  try {
    turn = yield* pair.hashServer.serve({ release: true, spare }, function* (last) {
      // Given back in that turn's doorbell, the lease may be another operation's of this client.
      released = last.released;
      return last.lost === undefined && (yield* goesOn(last));
    });
  } finally {
    replies.serving--;
    if (!released) yield* pair.hashLease.releaseTurns();
  }
  if (turn.lost !== undefined) yield* restoreTable(pair, turn.lost);
  return turn;
}
