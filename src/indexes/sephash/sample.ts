import type { Operation } from '../../verbs/index.ts';
import { partOf } from '../substrates/sample.ts';
import type { SepHashRequest } from './request.ts';
import { FINGERPRINTS } from './segments/main-segment.ts';
import type { SepHashTable } from './table.ts';
import { SepHashWalk, WALK_START } from './walk.ts';

/**
 * `Index.sample`: a place is some fingerprints of a segment, one step of a walk. Only the newest
 * record of a key is met, so CurSegment and the entries of Main are read together, and whole. What
 * a step needs for that is large: `idle` ones are used again.
 */
export function* sampleRecords(
  table: SepHashTable,
  idle: SepHashWalk[],
  request: SepHashRequest,
  places: readonly number[],
  enough: number,
  visit: (request: SepHashRequest, keyBytes: number) => void,
): Operation<void> {
  const walk = idle.pop() ?? new SepHashWalk(table, { ...WALK_START }, request);
  let met = 0;
  const count = (one: SepHashRequest, keyBytes: number) => {
    met++;
    visit(one, keyBytes);
  };
  for (let i = 0; i < places.length && met < enough; i++) {
    const { part: suffix, rest } = partOf(places[i], 2 ** table.directory.depth);
    const { part: fingerprint } = partOf(rest, FINGERPRINTS);
    yield* walk.sample({ suffix, fingerprint }, request, count);
  }
  // Not of an operation that failed: what it has asked for may still arrive.
  idle.push(walk);
}
