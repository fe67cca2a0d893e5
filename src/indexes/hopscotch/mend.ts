import type { Operation } from '../../verbs/index.ts';
import type { ChimeRequest } from '../chime/leaf-client.ts';
import { isFrozen, isFull } from '../chime/leaf-state.ts';
import { depthOfLink } from '../chime/link.ts';
import { isInUse, type Link, replacementOf, swing, type Visit, visit } from '../chime/node-io.ts';
import { rebuildLeaf } from '../chime/rebuild-leaf.ts';
import { isFork, readFork } from './fork.ts';
import type { HopscotchTable } from './table.ts';

/**
 * Puts what the directory says of a request's segment in order: completes what others have left
 * half done, and replaces a frozen segment. With `room`, also one in which the key's neighbourhood
 * has no empty slot.
 */
export function* mend(
  table: HopscotchTable,
  { hash, home }: ChimeRequest,
  room = false,
): Operation<void> {
  let wanted = room ? home : -1;
  for (let round = 1; ; round++) {
    table.giveUpAfter(round);
    const entry = yield* table.directory.find(hash.h1);
    if (entry === undefined) continue;
    const segment = yield* visit(table, entry.owner, entry);
    if (!isInUse(table, segment)) {
      yield* linkReplacement(table, segment, replacementOf(segment));
      continue;
    }
    const full = wanted >= 0 && isFull(table, segment, wanted);
    if (!isFrozen(table, segment) && !full) return;
    const to = yield* rebuildLeaf(table, segment, wanted);
    // Once is enough: who goes on finding the neighbourhood full looks what it is full of.
    wanted = -1;
    if (to !== undefined && to.routes === undefined) {
      return table.directory.learn(entry.suffix, to.to);
    }
  }
}

/**
 * Puts what has replaced a segment into the directory. Of a split in this order, each step by
 * whoever comes first: the directory is made deep enough, the upper half gets its entry, the lower
 * one takes the place of the segment. So a link that says that its segment was split is never seen
 * before the other half can be found.
 *
 * Returns whether this client took the last step; it then retires what nobody links to any more.
 */
export function* linkReplacement(
  table: HopscotchTable,
  segment: Visit,
  to: Link,
): Operation<boolean> {
  if (!isFork(to)) return yield* swing(table, segment, to, [segment]);
  const { directory } = table;
  const depth = depthOfLink(segment.high);
  const { lower, upper } = yield* readFork(table, to);
  yield* directory.deepen(depth);
  const suffix = directory.suffixAt(segment.owner);
  yield* directory.fill(suffix + 2 ** depth, upper);
  return yield* swing(table, segment, lower, [segment, to]);
}
