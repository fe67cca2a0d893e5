import type { Operation } from '../../verbs/index.ts';
import { partOf } from '../substrates/sample.ts';
import type { SepHashRequest } from './request.ts';
import { FINGERPRINTS } from './segments/main-segment.ts';
import type { SepHashTable } from './table.ts';
import { SepHashWalk } from './walk.ts';

/**
 * `Index.sample`: a place is some fingerprints of a segment, one step of a walk. Only the newest
 * record of a key is met, so CurSegment and the entries of Main are read together, and whole.
 */
export function* sampleRecords(
  table: SepHashTable,
  request: SepHashRequest,
  places: readonly number[],
  enough: number,
  visit: (request: SepHashRequest, keyBytes: number) => void,
): Operation<void> {
  let met = 0;
  for (const place of places) {
    const { depth } = table.directory;
    const { part: suffix, rest } = partOf(place, 2 ** depth);
    const { part: fingerprint } = partOf(rest, FINGERPRINTS);
    const walk = new SepHashWalk(table, { suffix, depth, fingerprint }, request);
    yield* walk.sample((one, keyBytes) => {
      met++;
      visit(one, keyBytes);
    });
    if (met >= enough) return;
  }
}
