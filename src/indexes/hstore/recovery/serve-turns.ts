import type { Operation } from '../../../verbs/index.ts';
import { hasTable, type SpareBlock, type TurnResult } from '../hash-server/turn-worker.ts';
import type { Pair } from '../pair.ts';
import { growTable, restoreTable } from './rebuild-table.ts';

/**
 * Turns as the hash server, with a lease that was taken for turns: as long as `goesOn` says, then
 * it is given back. They also end when the table is lost or crowded: then this restores the table,
 * or lets it grow.
 */
export function* servingTurns(
  pair: Pair,
  spare: SpareBlock | undefined,
  goesOn: (result: TurnResult) => Operation<boolean>,
): Operation<TurnResult> {
  const { replies } = pair;
  let released = false;
  let last: TurnResult;
  replies.serving++;
  try {
    last = yield* pair.hashServer.serve({ release: true, spare }, function* (result) {
      // Given back in that turn's doorbell, the lease may be another operation's of this client.
      released = result.released ?? false;
      return hasTable(result) && (yield* goesOn(result));
    });
  } finally {
    replies.serving--;
    if (!released) yield* pair.hashLease.releaseTurns();
  }
  if (last.lost !== undefined) yield* restoreTable(pair, last.lost);
  if (last.crowded !== undefined) yield* growTable(pair, last.crowded);
  return last;
}
