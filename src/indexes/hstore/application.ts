import { StepwellError } from '../../errors.ts';
import { control } from '../../pool/control.ts';
import type { Operation } from '../../verbs/index.ts';
import { PAIR } from './geometry.ts';
import { type Pair, POLLS_WITHOUT_PAUSE } from './pair.ts';
import type { HStoreTable } from './table.ts';

/**
 * What a write does for the skiplist after it was committed. Asynchronous: nothing, except that a
 * client with a skiplist of its own applies the log before it comes round. HStore (sync): it waits
 * until the skiplist has the write.
 */
export function* applyAfter(table: HStoreTable, pair: Pair, sequence: number): Operation<void> {
  const { skiplistServer, geometry } = pair;
  if (table.shape.sync === 1) return yield* waitUntilApplied(pair, sequence);
  const { applied } = skiplistServer;
  if (applied >= 0 && sequence - applied > geometry.logEntries / 2) yield* skiplistServer.catchUp();
}

function* waitUntilApplied(pair: Pair, sequence: number): Operation<void> {
  const { skiplistLease, skiplistServer, patience, geometry } = pair;
  for (let poll = 1; poll <= patience.pollsMax; poll++) {
    const holder = yield* skiplistLease.holder();
    if (holder === 0 || holder === skiplistLease.own) return yield* skiplistServer.catchUp();
    const applied = yield* control.load(geometry.base + PAIR.applied);
    if (applied >= sequence) return;
    if (poll % patience.polls === 0 && (yield* skiplistLease.take(holder))) {
      // The server is gone: the write is in its log, and in what the next one builds.
      return yield* skiplistLease.release();
    }
    yield* control.pause(poll < POLLS_WITHOUT_PAUSE ? 0 : patience.microseconds);
  }
  throw new StepwellError('SW_TIMEOUT', 'the skiplist server does not apply the log');
}
