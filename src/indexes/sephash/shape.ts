import type { Operation } from '../../verbs/index.ts';
import type { IndexShape } from '../contract.ts';
import { eachSegment } from './each-segment.ts';
import { MergePlanner } from './merging/merge-plan.ts';
import { RecordKeys } from './merging/record-keys.ts';
import type { SepHashTable } from './table.ts';

/**
 * Counts the keys: the entries that a merge of every segment would leave. Records are read only
 * where entries of a CurSegment may have the same key as others.
 */
export function* shapeOf(table: SepHashTable): Operation<IndexShape> {
  const planner = new MergePlanner(new RecordKeys(table.geometry.shape.seed));
  let records = 0;
  let segments = 0;
  yield* eachSegment(table, function* (snapshot) {
    const entries = yield* snapshot.range(0, snapshot.main.count);
    records += (yield* planner.plan(entries, snapshot.current)).kept.length / 2;
    segments++;
  });
  return {
    globalDepth: table.directory.depth,
    subtables: segments,
    slots: segments * (table.geometry.mainLimit + table.geometry.slots),
    records,
  };
}
