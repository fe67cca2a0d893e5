import type { SepHashGeometry } from '../../src/indexes/sephash/geometry.ts';
import { FpTable, RecordPoints } from '../../src/indexes/sephash/segments/fp-cache.ts';
import { HEADER_BYTES } from '../../src/indexes/sephash/segments/header.ts';
import { FINGERPRINTS, mainBytes } from '../../src/indexes/sephash/segments/main-segment.ts';
import type { SepHashIndex } from '../../src/indexes/sephash/sephash.ts';
import { eachSegment } from '../../src/indexes/sephash/snapshot.ts';
import { UNIT_BYTES } from '../../src/verbs/index.ts';
import type { LabClient } from './lab-client.ts';

/**
 * Counts of what a SepHash index consists of, from a walk over its segments. Sizes are in bytes.
 */
export interface SepHashCensus {
  depth: number;
  segments: number;
  /** Entries in MainSegments; slots of CurSegments, and how many of those are occupied. */
  mainEntries: number;
  places: number;
  placesFull: number;
  /** Headers and the filters' marks. */
  headers: number;
  fpTables: number;
  currentSegments: number;
  /** MainSegments without FPTables but with dropped entries; and the blocks of all segments. */
  mainSegments: number;
  blocks: number;
  directory: number;
  /**
   * A client's cache of all FPTables, if it stores whole tables, and if it stores record points.
   */
  cacheNaive: number;
  cachePoints: number;
  /** Mean relative deviation of a fingerprint's count from the average, over all segments. */
  skew: number;
}

const ENTRY_BYTES = 8;
const ADDRESS_BYTES = 8;

export function censusOf({ pool, index }: LabClient<SepHashIndex>): SepHashCensus {
  const { geometry, directory } = index.table;
  const census: SepHashCensus = {
    depth: 0,
    segments: 0,
    mainEntries: 0,
    places: 0,
    placesFull: 0,
    headers: 0,
    fpTables: 0,
    currentSegments: 0,
    mainSegments: 0,
    blocks: 0,
    directory: 0,
    cacheNaive: 0,
    cachePoints: 0,
    skew: 0,
  };
  pool.run(
    eachSegment(index.table, function* ({ main, ends, current }) {
      yield* [];
      const entries = main.count + main.dropped;
      census.segments++;
      census.mainEntries += main.count;
      census.places += geometry.slots;
      census.placesFull += current.length / 2;
      census.headers += HEADER_BYTES + ENTRY_BYTES * geometry.marks;
      census.fpTables += mainBytes(0);
      census.currentSegments += geometry.slotsBytes;
      census.mainSegments += ENTRY_BYTES * entries;
      const units = 1 + geometry.slotsUnits + geometry.mainUnits(main.count, main.dropped);
      census.blocks += UNIT_BYTES * units;
      census.cacheNaive += new FpTable(ends).bytes;
      census.cachePoints += new RecordPoints(ends).bytes;
      census.skew += skewOf(ends, geometry);
    }),
  );
  if (census.segments === 0) throw new Error('the walk over the index found no segment');
  census.depth = directory.depth;
  census.directory = ADDRESS_BYTES * 2 ** directory.depth;
  census.skew /= census.segments;
  return census;
}

function skewOf(ends: Uint16Array, geometry: SepHashGeometry): number {
  const average = (ends[FINGERPRINTS - 1] - geometry.marks) / FINGERPRINTS;
  if (average === 0) return 0;
  let distance = 0;
  for (let fp = 0; fp < FINGERPRINTS; fp++) {
    const mark = geometry.hasMark(fp) ? 1 : 0;
    distance += Math.abs(ends[fp] - mark - (fp === 0 ? 0 : ends[fp - 1]) - average);
  }
  return distance / FINGERPRINTS / average;
}
