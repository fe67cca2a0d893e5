import type { Operation } from '../../../verbs/index.ts';
import { partOf, visitSample } from '../../traversal/sample.ts';
import type { Pair } from '../pair.ts';
import { TableLost } from '../protocol/pair-state.ts';
import { recordOf, unitsOfSlot } from '../protocol/slot.ts';
import { readBuckets } from '../protocol/table-reader.ts';
import { restoreTable } from '../recovery/rebuild-table.ts';
import type { HStoreRequest, HStoreTable } from './table.ts';

/** Buckets of a place at most, in a table with hardly any records: 64 KiB. */
const BUCKETS_MAX = 1024;

/**
 * `Index.sample`: a place is some buckets of a pair with their chains, as many as are likely to
 * hold enough records.
 */
export function* sampleRecords(
  table: HStoreTable,
  request: HStoreRequest,
  places: readonly number[],
  enough: number,
  visit: (request: HStoreRequest, keyBytes: number) => void,
): Operation<void> {
  const { records, shape, pairs, sampledBuckets: count } = table;
  const partsOfPair = shape.buckets / count;
  let before = -1;
  request.candidateCount = 0;
  for (const place of places) {
    const { part } = partOf(place, pairs.length * partsOfPair);
    if (request.candidateCount >= enough || part === before) continue;
    before = part;
    const pair = pairs[Math.floor(part / partsOfPair)];
    yield* noteBuckets(pair, count * (part % partsOfPair), count, request);
  }
  const met = request.candidateCount;
  const most = Math.min(BUCKETS_MAX, shape.buckets);
  if (2 * met < enough) table.sampledBuckets = Math.min(2 * count, most);
  else if (met > 2 * enough) table.sampledBuckets = Math.max(1, count / 2);
  const picked = { place: (places[0] * 2 ** 24) % 1, enough };
  yield* visitSample(records, request, picked, visit);
}

/** Notes the records of buckets and their chains. Of a lost table none: it is restored first. */
function* noteBuckets(
  pair: Pair,
  first: number,
  count: number,
  request: HStoreRequest,
): Operation<void> {
  const before = request.candidateCount;
  try {
    yield* readBuckets(pair.geometry, first, count, request, (_, low, high) => {
      request.noteRecord(recordOf({ low, high }), unitsOfSlot(high));
    });
  } catch (error) {
    if (!(error instanceof TableLost)) throw error;
    request.candidateCount = before;
    yield* restoreTable(pair, error.generation);
  }
}
