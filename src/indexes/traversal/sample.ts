import { mix32 } from '../../random/prng.ts';
import type { Operation } from '../../verbs/index.ts';
import type { Index } from '../contract.ts';
import type { RecordIo } from '../substrates/record-io.ts';
import type { Request } from '../substrates/request.ts';
import { noteRecords, visitRecords } from './visit-records.ts';

/**
 * Which of `parts` equal parts of [0, 1) a place is in, and its fraction within the part. Clamps,
 * because a caller's `chance` may return other numbers.
 */
export function partOf(place: number, parts: number): { part: number; rest: number } {
  const at = place * parts;
  const part = Math.min(parts - 1, Math.max(0, Math.floor(at) || 0));
  return { part, rest: Math.min(Math.max(0, at - part) || 0, 1 - Number.EPSILON) };
}

/** `Index.sample` for any index: if it lacks one, reads the part at each place. */
export function* sampleOf(
  index: Index,
  request: Request,
  places: readonly number[],
  enough: number,
  visit: (request: Request, keyBytes: number) => void,
): Operation<void> {
  if (index.sample) return yield* index.sample(request, places, enough, visit);
  const parts = index.parts();
  request.candidates.count = 0;
  for (const place of places) {
    parts.order.seek?.(place);
    yield* parts.read();
    noteRecords(parts, request);
  }
  yield* visitSample(index.records, request, { place: places[0], enough }, visit);
}

/**
 * Visits `enough` of the records that the request has noted at random places: they are read in one
 * doorbell, for their keys and times. If there are more, it picks some at random, with `place` as
 * the seed, since neighbours may have been written one after the other.
 */
export function* visitSample<R extends Request>(
  records: RecordIo,
  request: R,
  { place, enough }: { place: number; enough: number },
  visit: (request: R, keyBytes: number) => void,
): Operation<void> {
  if (request.candidates.count > enough) keepSome(request, enough, place);
  const all = () => true;
  yield* visitRecords(records, request, all, visit, true);
}

/** The first steps of a Fisher-Yates shuffle. */
function keepSome({ candidates }: Request, count: number, place: number): void {
  const { records, units } = candidates;
  for (let i = 0; i < count; i++) {
    const chance = mix32(place * 2 ** 32 + i) / 2 ** 32;
    const other = i + Math.floor(chance * (candidates.count - i));
    const [record, lines] = [records[other], units[other]];
    records[other] = records[i];
    units[other] = units[i];
    records[i] = record;
    units[i] = lines;
  }
  candidates.count = count;
}
