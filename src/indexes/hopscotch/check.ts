import type { Operation } from '../../verbs/index.ts';
import type { CheckSink } from '../contract.ts';
import { suffixOf } from '../substrates/directory.ts';
import { LeafCheck } from '../substrates/leaf/check-leaf.ts';
import { IMAGE_AT } from '../substrates/leaf/leaf-request.ts';
import { depthIn, suffixIn } from './bounds.ts';
import { SegmentWalk } from './segments.ts';
import type { HopscotchTable } from './table.ts';

/**
 * Verifies every invariant of a table, after putting the children of splits into the directory that
 * clients which died have not: no segment is deeper than the directory, every item is intact, in
 * the segment of its key, in its neighbourhood, and there only once.
 */
export function* checkTable(table: HopscotchTable, sink: CheckSink): Operation<number> {
  const check = new LeafCheck(table, sink);
  const walk = new SegmentWalk(table);
  while (walk.position !== undefined) {
    const { words, leaf } = yield* walk.next();
    const suffix = suffixIn(words, IMAGE_AT);
    const depth = depthIn(words, IMAGE_AT);
    sink.reachable(leaf, table.geometry.leafUnits);
    if (depth > table.directory.depth)
      sink.problem(`segment at ${leaf}: deeper than the directory`);
    const belongs = (_: Uint8Array, h1: number) => suffixOf(h1, depth) === suffix;
    yield* check.leaf(walk.picture, belongs);
  }
  return check.records;
}
