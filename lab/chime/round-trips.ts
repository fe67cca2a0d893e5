import type { ChimeIndex } from '../../src/indexes/chime/chime.ts';
import { IF_ABSENT, IF_PRESENT } from '../../src/indexes/contract.ts';
import { shapeOf } from '../../src/indexes/traversal/count.ts';
import type { Operation } from '../../src/verbs/index.ts';
import type { OwnIndex } from '../support/own-index.ts';
import { table } from '../support/text.ts';
import { keyOf, loaded, valueFor } from './loaded.ts';

/** Table 1, with `h` levels of internal nodes. */
const CACHED = { search: '1-2', insert: '3', update: '3-4', delete: '3-4', scan: '1' };
const UNCACHED = { search: 'h+1-2', insert: 'h+3', update: 'h+3-4', delete: 'h+3-4', scan: 'h+1' };
type Kind = keyof typeof CACHED;
const KINDS = Object.keys(CACHED) as Kind[];

/** Fan-outs with which 4,000 records make trees of 1 to 4 internal levels. */
const SHAPES = [1024, 40, 10, 6].map((fanout) => ({ span: 16, neighbourhood: 8, fanout }));
const RECORDS = 4000;
const OPERATIONS = 200;
/** Scans start at records that still exist: an empty range takes a round trip less. */
const FIRST = { search: 0, insert: RECORDS, update: 0, delete: 0, scan: 2 * OPERATIONS };

interface TripsRow {
  height: number;
  kind: Kind;
  cached: Trips;
  uncached: Trips;
}

/** Over all operations, including those that hop, split or merge. */
interface Trips {
  fewest: number;
  mean: number;
  most: number;
}

export function measureTrips(seed: number): TripsRow[] {
  return SHAPES.flatMap((shape) => {
    const own = loaded(RECORDS, shape, seed);
    const { globalDepth: height } = own.pool.run(shapeOf(own.index));
    return KINDS.map((kind) => ({
      height,
      kind,
      cached: tripsOf(own, kind, false),
      uncached: tripsOf(own, kind, true),
    }));
  });
}

function tripsOf({ pool, index }: OwnIndex, kind: Kind, forgetful: boolean): Trips {
  const { tree } = index as ChimeIndex;
  const { rows } = pool.fabric.traffic;
  const trips: number[] = [];
  for (let i = 0; i < OPERATIONS; i++) {
    // The second measurement inserts and deletes other keys.
    const first = FIRST[kind];
    const record = first + i + (forgetful ? OPERATIONS : 0);
    // Fill the caches, in this epoch.
    pool.enter();
    pool.run(operationOn(index as ChimeIndex, 'search', record));
    if (forgetful) tree.cache.forget();
    const before = rows[0];
    pool.run(operationOn(index as ChimeIndex, kind, record));
    trips.push(rows[0] - before);
    pool.exit();
  }
  const sum = trips.reduce((all, one) => all + one, 0);
  return { fewest: Math.min(...trips), mean: sum / trips.length, most: Math.max(...trips) };
}

function operationOn(index: ChimeIndex, kind: Kind, record: number): Operation<unknown> {
  const request = index.newRequest();
  const key = keyOf(record);
  if (kind === 'scan') {
    return index.scan({ lower: { key: key.slice(), inclusive: true }, width: 1 }).next(() => {});
  }
  if (kind === 'insert' || kind === 'update') {
    const value = valueFor(record);
    index.records.encode(request, key, value, 1);
    return index.write(request, kind === 'insert' ? IF_ABSENT : IF_PRESENT);
  }
  request.setKey(key, index.records.seed);
  return kind === 'search' ? index.search(request) : index.remove(request);
}

export function describeTrips(rows: readonly TripsRow[]): string {
  const place = ['mean', 'most', 'published'];
  const head = ['h', 'operation', 'cached', ...place, 'uncached', ...place];
  const cells = rows.map(({ height, kind, cached, uncached }) => [
    String(height),
    kind,
    String(cached.fewest),
    cached.mean.toFixed(2),
    String(cached.most),
    CACHED[kind],
    String(uncached.fewest),
    uncached.mean.toFixed(2),
    String(uncached.most),
    UNCACHED[kind],
  ]);
  return `Round trips (CHIME, Table 1), with hops, splits and merges\n${table(head, cells, 2)}`;
}

/** By number of round trips: how many insertions took it, and how many of those split a leaf. */
export interface Insertions {
  records: number;
  counts: Record<number, number>;
  splits: Record<number, number>;
}

/** One client inserts new keys into a tree like the paper's, with all internal nodes cached. */
export function measureInsertions(records: number, seed: number): Insertions {
  const { pool, index } = loaded(records, { span: 64, neighbourhood: 8 }, seed);
  const { rows } = pool.fabric.traffic;
  const counts: Record<number, number> = {};
  const splits: Record<number, number> = {};
  for (let i = 0; i < records; i++) {
    pool.enter();
    const begun = rows[0];
    const { splits: before } = (index as ChimeIndex).counters;
    pool.run(operationOn(index as ChimeIndex, 'insert', records + i));
    const trips = rows[0] - begun;
    counts[trips] = (counts[trips] ?? 0) + 1;
    if ((index as ChimeIndex).counters.splits > before) splits[trips] = (splits[trips] ?? 0) + 1;
    pool.exit();
  }
  return { records, counts, splits };
}

export function describeInsertions({ records, counts, splits }: Insertions): string {
  const cells = Object.entries(counts).map(([trips, count]) => [
    trips,
    `${((100 * count) / records).toFixed(2)} %`,
    `${((100 * (splits[Number(trips)] ?? 0)) / records).toFixed(2)} %`,
  ]);
  const sum = Object.entries(counts).reduce((all, [trips, n]) => all + Number(trips) * n, 0);
  return (
    `${records} insertions, mean ${(sum / records).toFixed(3)} (Table 1: 3 without splits)\n` +
    table(['round trips', 'insertions', 'that split'], cells, 0)
  );
}
