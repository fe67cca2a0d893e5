import { invariant } from '../../errors.ts';
import type { Pool } from '../../pool/pool.ts';
import type { Bytes } from '../../records/codec.ts';
import {
  type Address,
  Batch,
  type Fabric,
  highHalf,
  lowHalf,
  type Operation,
  Scratch,
  setWord,
} from '../../verbs/index.ts';
import {
  type CheckSink,
  type Condition,
  type IndexKind,
  type IndexManifest,
  type IndexParameters,
  type IndexShape,
  type KeyRange,
  type OrderedIndex,
  type Outcome,
  REFUSED,
} from '../contract.ts';
import { LockTable } from '../delegation.ts';
import { RecordIo } from '../record-io.ts';
import { modifySlot, removeSlot, type SlotProtocol, writeSlot } from '../slot-operations.ts';
import { type PlannedWrite, writeTogether } from '../write-combining.ts';
import { bulkLoad } from './bulk-load.ts';
import { checkTree } from './check.ts';
import { ChimeGeometry, type ChimeShape, chimeShape, unitsBeside } from './geometry.ts';
import { insert } from './insert.ts';
import { addressOfLink } from './link.ts';
import { rootLink } from './mend.ts';
import { place } from './neighbourhood.ts';
import { NewNodes } from './node-io.ts';
import { eachReachable } from './reachable.ts';
import { ChimeScan } from './scan.ts';
import { locate, search, searchMany, searchOnce } from './search.ts';
import { shapeOf } from './shape.ts';
import { recordOf } from './slot.ts';
import { tidy } from './tidy.ts';
import { type ChimeRequest, ChimeTree } from './tree.ts';
import { replace, vacate } from './update.ts';
import { ChimeWalk } from './walk.ts';
import { writeOnce } from './write-once.ts';

export const CHIME_KIND = 4;

export const CHIME_MANIFEST: IndexManifest = {
  name: 'chime',
  ordered: true,
  orderedWalk: true,
  lockFreeReads: true,
  onlineResize: true,
};

/** Sizes of the blocks that internal nodes take, of 1 to 2048 lines. */
const NODE_UNITS = Array.from({ length: 12 }, (_, size) => unitsBeside(2 ** size));

/** CHIME (SOSP'24), a tree whose leaves are hopscotch tables, behind the index contract. */
export class ChimeIndex implements OrderedIndex {
  readonly manifest = CHIME_MANIFEST;
  readonly tree: ChimeTree;

  readonly #protocol: SlotProtocol<ChimeRequest>;
  readonly #locks = new LockTable<ChimeRequest>();

  constructor(tree: ChimeTree) {
    this.tree = tree;
    this.#protocol = {
      records: tree.records,
      locate: (request) => locate(tree, request),
      insert: (request, attempt) => insert(tree, request, attempt),
      replace: (request, attempt) => replace(tree, request, attempt),
      vacate: (request, attempt) => vacate(tree, request, attempt),
    };
  }

  get parameters(): IndexParameters {
    return { ...this.tree.geometry.shape };
  }

  get catalog(): number {
    return this.tree.catalog;
  }

  get records(): RecordIo {
    return this.tree.records;
  }

  get retries(): Readonly<Record<string, number>> {
    return this.tree.retries;
  }

  get resizes(): Readonly<Record<string, number>> {
    const { splits, hops, rebuilds, merges } = this.tree;
    return { splits, hops, rebuilds, merges };
  }

  get tableUnits(): readonly number[] {
    return [this.tree.geometry.leafUnits, ...NODE_UNITS];
  }

  get hashSeed(): number {
    return this.tree.geometry.shape.seed;
  }

  newRequest(): ChimeRequest {
    return this.tree.newRequest();
  }

  search(request: ChimeRequest): Operation<boolean> {
    const { tree } = this;
    tree.cache.begin();
    if (!tree.techniques.delegation) return search(tree, request);
    return this.#locks.search(request, (one) => search(tree, one));
  }

  searchOnce(request: ChimeRequest, fabric: Fabric): boolean | undefined {
    this.tree.cache.begin();
    return searchOnce(this.tree, request, fabric);
  }

  searchMany(
    requests: readonly ChimeRequest[],
    count: number,
    batch: Batch,
    found: boolean[],
  ): Operation<void> {
    this.tree.cache.begin();
    return searchMany(this.tree, requests, count, batch, found);
  }

  foundAddress({ words, slotAt }: ChimeRequest): Address {
    return recordOf(lowHalf(words, slotAt), highHalf(words, slotAt));
  }

  shape(): Operation<IndexShape> {
    return shapeOf(this.tree);
  }

  walk(cursor = 0, range: KeyRange = {}): ChimeWalk {
    return new ChimeWalk(this.tree, cursor, range);
  }

  scan(range: KeyRange = {}): ChimeScan {
    return new ChimeScan(this.tree, range);
  }

  /** Fills an empty tree with records in ascending order of their keys: see `bulkLoad`. */
  load(entries: Iterable<readonly [Bytes, Bytes]>, version = 1): Operation<number> {
    return bulkLoad(this.tree, entries, version);
  }

  check(sink: CheckSink): Operation<number> {
    return checkTree(this.tree, sink);
  }

  eachReachable(visit: (address: Address) => void): Operation<void> {
    return eachReachable(this.tree, visit);
  }

  writeOnce(
    request: ChimeRequest,
    condition: Condition,
    expected: number,
    fabric: Fabric,
  ): Outcome | undefined {
    const { tree } = this;
    if (tree.techniques.delegation || !tree.records.take(request)) return undefined;
    tree.cache.begin();
    let outcome: Outcome | undefined = REFUSED;
    try {
      outcome = writeOnce(tree, request, condition, expected, fabric);
      return outcome;
    } finally {
      // Also when the fabric has raised; a write that goes on keeps its record.
      if (outcome !== undefined) tree.records.discard(request);
    }
  }

  *write(request: ChimeRequest, condition: Condition, expected = 0): Operation<Outcome> {
    this.#begin(request);
    if (!this.tree.techniques.delegation) {
      return yield* writeSlot(this.#protocol, request, condition, expected);
    }
    const write: PlannedWrite<ChimeRequest> = { request, condition, expected };
    return yield* this.#locks.write(write, (group) => this.#writeTogether(group));
  }

  #writeTogether(group: readonly PlannedWrite<ChimeRequest>[]): Operation<void> {
    const { tree } = this;
    return writeTogether(this.#protocol, group, (request, attempt) =>
      tree.retry(request, 'otherCarrier', attempt),
    );
  }

  *remove(request: ChimeRequest): Operation<boolean> {
    this.#begin(request);
    const removed = yield* this.#inTurn(request, () => removeSlot(this.#protocol, request));
    if (removed) yield* tidy(this.tree, request);
    return removed;
  }

  *modify(request: ChimeRequest, compute: (present: boolean) => void): Operation<Outcome> {
    this.#begin(request);
    return yield* this.#inTurn(request, () => modifySlot(this.#protocol, request, compute));
  }

  #inTurn<T>(request: ChimeRequest, change: () => Operation<T>): Operation<T> {
    return this.tree.techniques.delegation ? this.#locks.inTurn(request, change) : change();
  }

  #begin(request: ChimeRequest): void {
    this.tree.cache.begin();
    place(this.tree, request);
  }
}

/** Makes a tree of one empty leaf; returns where its root link stands, for the catalog. */
export function* buildChime(pool: Pool, shape: ChimeShape, catalog: number): Operation<Address> {
  const root = yield* pool.allocator.allocate(catalog, 1);
  const tree = treeOf(pool, shape, catalog, root);
  const nodes = new NewNodes(tree);
  const leaf = yield* nodes.allocateLeaf();
  const { low, high } = nodes.leafAt(leaf, new Int32Array(2 * shape.span));
  const word = new Scratch(8);
  setWord(word, 0, low, high);
  yield nodes.post(new Batch()).write(root, 8, word, 0);
  return root;
}

export function* openChime(
  pool: Pool,
  shape: ChimeShape,
  catalog: number,
  root: Address,
): Operation<ChimeIndex> {
  invariant(root > 0, 'a store without a root');
  const tree = treeOf(pool, shape, catalog, root);
  const { low, high } = yield* rootLink(tree);
  invariant(addressOfLink(low, high) > 0, 'a tree without a root');
  return new ChimeIndex(tree);
}

function treeOf(pool: Pool, shape: ChimeShape, catalog: number, root: Address): ChimeTree {
  const { allocator, reclamation } = pool;
  const records = new RecordIo(allocator, reclamation, catalog);
  const geometry = new ChimeGeometry(shape);
  return new ChimeTree(geometry, root, records, allocator, reclamation, catalog);
}

/** CHIME as a store's index. */
export const CHIME: IndexKind = {
  number: CHIME_KIND,
  manifest: CHIME_MANIFEST,
  parameterNames: ['span', 'neighbourhood', 'fanout', 'cacheKiB', 'hotspots', 'seed', 'splitAt'],
  parameters: (wishes, _poolBytes, seed) => ({ ...chimeShape(wishes, seed) }),
  create: (pool, parameters, catalog) => buildChime(pool, shapeFrom(parameters), catalog),
  open: (pool, parameters, catalog, root) => openChime(pool, shapeFrom(parameters), catalog, root),
};

export function shapeFrom(parameters: IndexParameters): ChimeShape {
  const { span, neighbourhood, fanout, cacheKiB, hotspots, seed, splitAt } = parameters;
  return { span, neighbourhood, fanout, cacheKiB, hotspots, seed, splitAt };
}
