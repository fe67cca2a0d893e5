import type { Operation } from '../../verbs/index.ts';
import { partOf } from '../traversal/sample.ts';
import { noteRecords, visitRecords } from '../traversal/visit-records.ts';
import { SepHashParts } from './parts.ts';
import type { SepHashRequest } from './request.ts';
import { FINGERPRINTS } from './segments/main-segment.ts';
import type { SepHashTable } from './table.ts';

/**
 * `Index.sample`: a place is some fingerprints of a segment, as a walk reads them. Only the newest
 * record of a key is met, so CurSegment and the entries of Main are read together, and whole. What
 * that needs is large: `idle` ones are used again.
 */
export function* sampleRecords(
  table: SepHashTable,
  idle: SepHashParts[],
  request: SepHashRequest,
  places: readonly number[],
  enough: number,
  visit: (request: SepHashRequest, keyBytes: number) => void,
): Operation<void> {
  const parts = idle.pop() ?? new SepHashParts(table);
  let met = 0;
  const count = (one: SepHashRequest, keyBytes: number) => {
    met++;
    visit(one, keyBytes);
  };
  const isHere = ({ hash }: SepHashRequest) => parts.isOfSegment(hash.h1);
  for (let i = 0; i < places.length && met < enough; i++) {
    const { part: suffix, rest } = partOf(places[i], 2 ** table.directory.depth);
    yield* parts.readFrom(suffix, partOf(rest, FINGERPRINTS).part);
    request.candidateCount = 0;
    noteRecords(parts, request);
    yield* visitRecords(table.records, request, isHere, count, true);
  }
  // Not of an operation that failed: what it has asked for may still arrive.
  idle.push(parts);
}
