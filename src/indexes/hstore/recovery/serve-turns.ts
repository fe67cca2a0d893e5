import type { Operation } from '../../../verbs/index.ts';
import { hasTable, type SpareBlock, type TurnResult } from '../hash-server/turn-worker.ts';
import type { Pair } from '../pair.ts';
import { growTable, restoreTable } from './rebuild-table.ts';

/**
 * Runs turns as the hash server, while `goesOn` says so, with a lease that was taken for turns;
 * then releases the lease. Turns also end if the table is lost or crowded: then this restores the
 * table, or doubles it.
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
      // After a release in that turn's doorbell, another operation of this client may have it.
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
