import { invariant } from '../../errors.ts';
import {
  type Batch,
  highHalf,
  lowHalf,
  NULL_ADDRESS,
  type Operation,
  UNIT_BYTES,
} from '../../verbs/index.ts';
import type {
  CheckSink,
  Condition,
  Counters,
  Index,
  IndexKind,
  IndexManifest,
  IndexShape,
  KeyRange,
  OrderedIndex,
  Outcome,
} from '../contract.ts';
import type { IndexPicture } from '../picture.ts';
import { ClientIndex } from '../substrates/client-index.ts';
import type { Proof } from '../substrates/proof.ts';
import { checkTable } from './check.ts';
import { HStoreScan } from './client/scan.ts';
import { search, searchMany } from './client/search.ts';
import { BUCKET_AT, type HStoreRequest, HStoreTable } from './client/table.ts';
import { modify, remove, write } from './client/write.ts';
import { PairServers, type ServerSettings } from './index-server.ts';
import { HStoreClearing, HStoreParts, paint, sampleRecords } from './parts.ts';
import { pairGeometries } from './protocol/geometry.ts';
import { PairAccess } from './protocol/pair-access.ts';
import { loadSegments } from './protocol/pair-state.ts';
import { HSTORE_PARAMETER_NAMES, type HStoreShape, hstoreShape } from './protocol/parameters.ts';
import { NEXT, SLOTS } from './protocol/slot.ts';
import { answerAbandoned } from './recovery/abandoned-requests.ts';
import { TableImage } from './recovery/table-image.ts';

const HSTORE_MANIFEST: IndexManifest = {
  name: 'hstore',
  ordered: true,
  orderedWalk: false,
  onlineResize: false,
  resizes: ['chained', 'grown'],
  marksCurrent: true,
  proves: true,
};

/** The HStore hybrid index (SYSTOR 2023) behind the index contract. */
export class HStoreIndex extends ClientIndex<HStoreRequest, HStoreTable> implements OrderedIndex {
  readonly manifest = HSTORE_MANIFEST;
  readonly table: HStoreTable;

  constructor(table: HStoreTable) {
    // None: chained buckets have a block size of records, and the table is a span.
    super(table, () => []);
    this.table = table;
  }

  get counters(): Counters {
    const { pairs, retries } = this.table;
    const chained = pairs.reduce((sum, pair) => sum + pair.chained, 0);
    const grown = pairs.reduce((sum, pair) => sum + pair.grown, 0);
    return { ...retries, chained, grown };
  }

  search(request: HStoreRequest): Operation<boolean> {
    return search(this.table, request);
  }

  searchMany(
    requests: readonly HStoreRequest[],
    count: number,
    batch: Batch,
    found: boolean[],
  ): Operation<void> {
    return searchMany(this.table, requests, count, batch, found);
  }

  /**
   * The slot, and then the mark of its bucket, which a bucket loses before another table becomes
   * the current one. A record that the skiplist server named has no bucket, and so no proof.
   */
  prove(request: HStoreRequest, proof: Proof): boolean {
    const { bucket, slotIn, slotLow, slotHigh, words } = request;
    if (bucket === NULL_ADDRESS) return false;
    proof.begin(bucket + 8 * slotIn, slotLow, slotHigh);
    const mark = BUCKET_AT + NEXT;
    proof.addMark(bucket + NEXT, lowHalf(words, mark), highHalf(words, mark));
    proof.addRecord(request);
    return true;
  }

  write(request: HStoreRequest, condition: Condition, expected = 0): Operation<Outcome> {
    return write(this.table, request, condition, expected);
  }

  remove(request: HStoreRequest, expected?: number): Operation<boolean> {
    return remove(this.table, request, expected);
  }

  modify(request: HStoreRequest, compute: (present: boolean) => void): Operation<Outcome> {
    return modify(this.table, request, compute);
  }

  *shape(): Operation<IndexShape> {
    const parts = new HStoreParts(this.table);
    let records = 0;
    let chained = 0;
    for (; !parts.order.done; parts.order.pass()) {
      yield* parts.read();
      records += parts.slots.length;
      chained += parts.chained.length;
    }
    const buckets = this.table.pairs.reduce((sum, { geometry }) => sum + geometry.buckets, chained);
    return { globalDepth: 0, subtables: buckets, slots: SLOTS * buckets, records };
  }

  picture(): Operation<IndexPicture> {
    return paint(this.table);
  }

  parts(cursor = 0, whole = false): HStoreParts {
    return new HStoreParts(this.table, cursor, whole);
  }

  clearing(keptCodec: number): HStoreClearing {
    return new HStoreClearing(this.table, keptCodec);
  }

  sample(
    request: HStoreRequest,
    places: readonly number[],
    enough: number,
    visit: (request: HStoreRequest, keyBytes: number) => void,
  ): Operation<void> {
    return sampleRecords(this.table, request, places, enough, visit);
  }

  /** Without server processes the clients are the servers. */
  server(settings: ServerSettings): PairServers {
    return new PairServers(this.table, settings);
  }

  scan(range: KeyRange = {}): HStoreScan {
    return new HStoreScan(this.table, range);
  }

  check(sink: CheckSink): Operation<number> {
    return checkTable(this.table, sink);
  }
}

/** By name, because the build has two classes of this index. */
export function isHStore(index: Index): index is HStoreIndex {
  return index.manifest.name === HSTORE_MANIFEST.name;
}

/** HStore as a store's index. */
export const HSTORE: IndexKind = {
  manifest: HSTORE_MANIFEST,
  parameterNames: HSTORE_PARAMETER_NAMES,
  flags: ['sync'],
  parameters: hstoreShape,

  /** Allocates an empty index: zeros, except the tables. */
  *create(pool, parameters, catalog) {
    const shape = parameters as HStoreShape;
    const { clientsMax } = pool.layout.parameters;
    const bytes = pairGeometries(shape, 0, clientsMax)[shape.pairs - 1].end;
    const units = Math.ceil(bytes / UNIT_BYTES);
    const root = yield* pool.allocator.spans.allocate(catalog, units);
    for (const geometry of pairGeometries(shape, root, clientsMax)) {
      const table = new TableImage(new PairAccess(geometry, catalog, pool), 0);
      yield* table.allocate();
      yield* table.write();
      yield* table.publish();
    }
    return root;
  },

  *open(pool, parameters, catalog, root) {
    invariant(root > 0, 'a store without a root');
    const table = new HStoreTable(pool, parameters as HStoreShape, catalog, root);
    for (const pair of table.pairs) {
      yield* loadSegments(pair.geometry);
      yield* answerAbandoned(pair);
    }
    return new HStoreIndex(table);
  },
};
