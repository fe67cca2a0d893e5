import type { Operation } from '../../verbs/index.ts';
import { nextSuffix } from '../substrates/directory.ts';
import { Snapshot } from './snapshot.ts';
import type { SepHashTable } from './table.ts';

/**
 * Visits a snapshot of every segment, in the order of reversed suffixes: a key that is there during
 * the whole visit is in one of them, whatever is split meanwhile.
 */
export function* eachSegment(
  table: SepHashTable,
  visit: (snapshot: Snapshot) => Operation<void>,
): Operation<void> {
  const snapshot = new Snapshot(table);
  for (let suffix: number | undefined = 0; suffix !== undefined; ) {
    yield* snapshot.take(suffix);
    const { depth, suffix: own } = snapshot.main;
    yield* visit(snapshot);
    suffix = nextSuffix(own, depth);
  }
}
