import { control } from '../../../pool/control.ts';
import type { Operation } from '../../../verbs/index.ts';
import type { Pair } from '../pair.ts';
import { PAIR } from '../protocol/geometry.ts';
import { readLease } from '../protocol/pair-state.ts';
import { Waiting } from '../protocol/waiting.ts';
import { catchUp } from '../skiplist-server/catch-up.ts';
import type { HStoreTable } from './table.ts';

/**
 * What a write does for the skiplist after it was committed. Asynchronous: nothing, except that a
 * client with a skiplist of its own applies the log before it comes round. When it has come round,
 * the next scan builds the skiplist: a write that did would stand still for it, and hold up others.
 * HStore (sync): it waits until the skiplist has the write.
 */
export function* applyAfter(table: HStoreTable, pair: Pair, sequence: number): Operation<void> {
  const { skiplist, geometry } = pair;
  if (table.shape.sync === 1) return yield* waitUntilApplied(pair, sequence);
  const { applied } = skiplist;
  const behind = applied < 0 ? 0 : sequence - applied;
  const kept = geometry.entriesKept;
  if (behind > kept / 2 && behind <= kept) yield* skiplist.keepUp();
}

function* waitUntilApplied(pair: Pair, sequence: number): Operation<void> {
  const { skiplistLease, patience, geometry } = pair;
  const waiting = new Waiting(skiplistLease, patience, 'the write is done, and not applied');
  for (;;) {
    const { holder, progress } = yield* readLease(skiplistLease);
    const { client } = holder;
    if (client === 0 || client === skiplistLease.own) return yield* catchUp(pair);
    const applied = yield* control.load(geometry.base + PAIR.applied);
    if (applied >= sequence) return;
    yield* waiting.poll(holder, progress);
    if (waiting.isTime && (yield* skiplistLease.take(holder))) {
      // The server is gone: the write is in its log, and in what the next one builds.
      return yield* skiplistLease.release();
    }
    yield* control.pause(waiting.pause);
  }
}
