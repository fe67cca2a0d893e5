import { invariant } from '../../errors.ts';
import type { Pool } from '../../pool/pool.ts';
import { type Address, Batch, type Operation, Scratch, setWord } from '../../verbs/index.ts';
import type {
  CheckSink,
  Condition,
  Counters,
  Index,
  IndexKind,
  IndexManifest,
  IndexParameters,
  IndexShape,
  Outcome,
} from '../contract.ts';
import type { IndexPicture } from '../picture.ts';
import { ClientIndex } from '../substrates/client-index.ts';
import { Directory } from '../substrates/directory.ts';
import { RecordIo } from '../substrates/record-io.ts';
import { checkTable } from './check.ts';
import { Compaction } from './compact.ts';
import { SepHashGeometry, type SepHashShape, SHAPE_NAMES, sepHashShape } from './geometry.ts';
import { search, searchMany } from './operations/search.ts';
import { erase, modify, remove, write } from './operations/write.ts';
import { paint, SepHashParts, sampleRecords, shapeOf } from './parts.ts';
import type { SepHashRequest } from './request.ts';
import { FIRST_EPOCH, HEADER_BYTES, HEADER_UNITS, metaHigh, metaLow } from './segments/header.ts';
import { marksAlone, writeMain } from './segments/main-segment.ts';
import { SepHashTable } from './table.ts';

const SEPHASH_MANIFEST: IndexManifest = {
  name: 'sephash',
  ordered: false,
  orderedWalk: false,
  onlineResize: true,
  resizes: ['merges', 'splits', 'doublings'],
  retiresLate: true,
};

/** The SepHash index (PVLDB 17(5), 2024) behind the index contract. */
export class SepHashIndex extends ClientIndex<SepHashRequest, SepHashTable> implements Index {
  readonly manifest = SEPHASH_MANIFEST;
  readonly table: SepHashTable;
  /** Suffix of the segment where the next `compact` begins. */
  #compactFrom = 0;
  readonly #idleSamplers: SepHashParts[] = [];

  constructor(table: SepHashTable) {
    super(table, () => table.geometry.tableUnits);
    this.table = table;
  }

  get counters(): Counters {
    const { retries, merges, splits, doublings } = this.table;
    return { ...retries, merges, splits, doublings };
  }

  search(request: SepHashRequest): Operation<boolean> {
    return search(this.table, request);
  }

  searchMany(
    requests: readonly SepHashRequest[],
    count: number,
    batch: Batch,
    found: boolean[],
  ): Operation<void> {
    return searchMany(this.table, requests, count, batch, found);
  }

  write(request: SepHashRequest, condition: Condition, expected = 0): Operation<Outcome> {
    return write(this.table, request, condition, expected);
  }

  remove(request: SepHashRequest, expected?: number): Operation<boolean> {
    return remove(this.table, request, expected);
  }

  /**
   * Deletes the key without telling whether it was there: the paper's deletion of 2 round trips.
   * The request holds an outgoing record of the key with an empty value.
   */
  erase(request: SepHashRequest): Operation<void> {
    return erase(this.table, request);
  }

  modify(request: SepHashRequest, compute: (present: boolean) => void): Operation<Outcome> {
    return modify(this.table, request, compute);
  }

  shape(): Operation<IndexShape> {
    return shapeOf(this.table);
  }

  picture(partsMax: number): Operation<IndexPicture> {
    return paint(this.table, partsMax);
  }

  parts(cursor = 0, whole = false): SepHashParts {
    return new SepHashParts(this.table, cursor, whole);
  }

  sample(
    request: SepHashRequest,
    places: readonly number[],
    enough: number,
    visit: (request: SepHashRequest, keyBytes: number) => void,
  ): Operation<void> {
    return sampleRecords(this.table, this.#idleSamplers, request, places, enough, visit);
  }

  check(sink: CheckSink): Operation<number> {
    return checkTable(this.table, sink);
  }

  *compact(grace?: () => Operation<boolean>, forDeletion = false): Operation<number> {
    const compaction = new Compaction(this.table, grace, forDeletion);
    if (grace !== undefined) return yield* compaction.run();
    const { next, merged } = yield* compaction.some(this.#compactFrom);
    this.#compactFrom = next;
    return merged ? 1 : 0;
  }
}

function* openSepHash(
  pool: Pool,
  shape: SepHashShape,
  catalog: number,
  root: Address,
): Operation<SepHashIndex> {
  invariant(root > 0, 'a store without a root');
  const directory = yield* Directory.open(root, shape, pool.chunks);
  const records = new RecordIo(pool, catalog, shape.seed);
  const geometry = new SepHashGeometry(shape);
  return new SepHashIndex(new SepHashTable(geometry, directory, records, pool, catalog));
}

/** SepHash as a store's index. */
export const SEPHASH: IndexKind = {
  manifest: SEPHASH_MANIFEST,
  parameterNames: SHAPE_NAMES,
  flags: [],
  parameters: (wishes, poolBytes, seed) => ({ ...sepHashShape(wishes, poolBytes, seed) }),
  create: (pool, parameters, catalog) => buildSepHash(pool, shapeFrom(parameters), catalog),
  open: (pool, parameters, catalog, root) =>
    openSepHash(pool, shapeFrom(parameters), catalog, root),
};

function shapeFrom(parameters: IndexParameters): SepHashShape {
  const shape = {} as Record<(typeof SHAPE_NAMES)[number], number>;
  for (const name of SHAPE_NAMES) shape[name] = parameters[name];
  return shape;
}

/** Allocates and fills an empty index; returns its root for the catalog. */
function* buildSepHash(pool: Pool, shape: SepHashShape, catalog: number): Operation<Address> {
  const geometry = new SepHashGeometry(shape);
  const headers: Address[] = [];
  for (let suffix = 0; suffix < 2 ** shape.initialDepth; suffix++) {
    headers.push(yield* buildSegment(pool, geometry, catalog, suffix));
  }
  return yield* Directory.build(pool, catalog, shape, headers, { spareBytes: geometry.spareBytes });
}

/** Writes a segment with an empty CurSegment and MainSegment; returns its header's address. */
function* buildSegment(
  { allocator }: Pool,
  geometry: SepHashGeometry,
  catalog: number,
  suffix: number,
): Operation<Address> {
  const { shape, slotsBytes, slotsUnits, marks } = geometry;
  const header = yield* allocator.allocate(catalog, HEADER_UNITS);
  const slots = yield* allocator.allocate(catalog, slotsUnits);
  const units = geometry.mainUnits(0, 0);
  const main = yield* allocator.allocate(catalog, units);
  const mainImage = new Scratch(4096);
  const fields = { suffix, depth: shape.initialDepth, slots, sibling: 0, units, home: 0 };
  const bytes = writeMain(mainImage, fields, marksAlone(marks), new Int32Array(0), marks);
  const headerImage = new Scratch(HEADER_BYTES);
  setWord(headerImage, 0, metaLow(main), metaHigh(main, shape.initialDepth, FIRST_EPOCH));
  yield new Batch()
    .write(main, bytes, mainImage, 0)
    .write(slots, slotsBytes, new Scratch(slotsBytes), 0)
    .write(header, HEADER_BYTES, headerImage, 0);
  return header;
}
