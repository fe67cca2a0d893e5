import { invariant } from '../../errors.ts';
import { BLOCK_UNITS_MAX } from '../../pool/layout.ts';
import type { Pool } from '../../pool/pool.ts';
import {
  type Address,
  type Batch,
  type Fabric,
  highHalf,
  lowHalf,
  type Operation,
  UNIT_BYTES,
} from '../../verbs/index.ts';
import {
  type CheckSink,
  type Condition,
  INSERTED,
  type Index,
  type IndexKind,
  type IndexManifest,
  type IndexParameters,
  type IndexShape,
  type Outcome,
} from '../contract.ts';
import { LockTable } from '../delegation.ts';
import type { RecordIo } from '../record-io.ts';
import { modifySlot, removeSlot, type SlotProtocol, writeSlot } from '../slot-operations.ts';
import { type PlannedWrite, writeTogether } from '../write-combining.ts';
import { checkTable } from './check.ts';
import { ShardGeometry } from './geometry.ts';
import { insert } from './insert.ts';
import { SHARD_PARAMETER_NAMES, type ShardShape, shardShape } from './parameters.ts';
import { eachReachable } from './reachable.ts';
import { makeSegment } from './resize.ts';
import { locate, search, searchMany, searchOnce } from './search.ts';
import { ROOT_BYTES, Segments } from './segments.ts';
import { shapeOf } from './shape.ts';
import { pointerOf } from './slot.ts';
import { recordsChanged } from './sync.ts';
import { type ShardRequest, ShardTable } from './table.ts';
import { replace, vacate } from './update.ts';
import { decodeCursor, ShardWalk } from './walk.ts';

export const SHARD_KIND = 3;

export const SHARD_MANIFEST: IndexManifest = {
  name: 'shard',
  ordered: false,
  orderedWalk: false,
  lockFreeReads: true,
  onlineResize: true,
};

/** The SHARD hash index (PVLDB 19(4), 2025) behind the index contract. */
export class ShardIndex implements Index {
  readonly manifest = SHARD_MANIFEST;
  readonly table: ShardTable;
  readonly #protocol: SlotProtocol<ShardRequest>;
  readonly #locks = new LockTable<ShardRequest>();

  constructor(table: ShardTable) {
    this.table = table;
    this.#protocol = {
      records: table.records,
      locate: (request) => locate(table, request),
      insert: (request, attempt) => insert(table, request, attempt),
      replace: (request, attempt) => replace(table, request, attempt),
      vacate: (request, attempt) => vacate(table, request, attempt),
    };
  }

  get parameters(): IndexParameters {
    return { ...this.table.geometry.shape };
  }

  get catalog(): number {
    return this.table.catalog;
  }

  get records(): RecordIo {
    return this.table.records;
  }

  get retries(): Readonly<Record<string, number>> {
    return this.table.retries;
  }

  get resizes(): Readonly<Record<string, number>> {
    const { resizes, bucketsMoved } = this.table;
    return { resizes, bucketsMoved };
  }

  get tableUnits(): readonly number[] {
    const { geometry, segments } = this.table;
    const units = segments.addresses.map((_, segment) => geometry.segmentUnits(segment));
    return units.filter((each) => each <= BLOCK_UNITS_MAX);
  }

  get hashSeed(): number {
    return this.table.geometry.shape.seed;
  }

  newRequest(): ShardRequest {
    return this.table.newRequest();
  }

  search(request: ShardRequest): Operation<boolean> {
    request.begin();
    const { table } = this;
    if (!table.techniques.delegation) return search(table, request);
    return this.#locks.search(request, (one) => search(table, one));
  }

  searchOnce(request: ShardRequest, fabric: Fabric): boolean | undefined {
    request.begin();
    return searchOnce(this.table, request, fabric);
  }

  searchMany(
    requests: readonly ShardRequest[],
    count: number,
    batch: Batch,
    found: boolean[],
  ): Operation<void> {
    for (let i = 0; i < count; i++) requests[i].begin();
    return searchMany(this.table, requests, count, batch, found);
  }

  write(request: ShardRequest, condition: Condition, expected = 0): Operation<Outcome> {
    request.begin();
    if (!this.table.techniques.delegation) return this.#write(request, condition, expected);
    const write: PlannedWrite<ShardRequest> = { request, condition, expected };
    return this.#locks.write(write, (group) => this.#writeTogether(group));
  }

  *#write(request: ShardRequest, condition: Condition, expected: number): Operation<Outcome> {
    const outcome = yield* writeSlot(this.#protocol, request, condition, expected);
    if (outcome === INSERTED) yield* recordsChanged(this.table, 1);
    return outcome;
  }

  *#writeTogether(group: readonly PlannedWrite<ShardRequest>[]): Operation<void> {
    const { table } = this;
    yield* writeTogether(this.#protocol, group, (request, attempt) =>
      table.retry(request, 'otherCarrier', attempt),
    );
    const inserted = group.some(({ outcome }) => outcome === INSERTED);
    if (inserted) yield* recordsChanged(this.table, 1);
  }

  remove(request: ShardRequest): Operation<boolean> {
    request.begin();
    return this.#inTurn(request, () => this.#remove(request));
  }

  *#remove(request: ShardRequest): Operation<boolean> {
    const removed = yield* removeSlot(this.#protocol, request);
    if (removed) yield* recordsChanged(this.table, -1);
    return removed;
  }

  modify(request: ShardRequest, compute: (present: boolean) => void): Operation<Outcome> {
    request.begin();
    return this.#inTurn(request, () => this.#modify(request, compute));
  }

  *#modify(request: ShardRequest, compute: (present: boolean) => void): Operation<Outcome> {
    const outcome = yield* modifySlot(this.#protocol, request, compute);
    if (outcome === INSERTED) yield* recordsChanged(this.table, 1);
    return outcome;
  }

  #inTurn<T>(request: ShardRequest, write: () => Operation<T>): Operation<T> {
    return this.table.techniques.delegation ? this.#locks.inTurn(request, write) : write();
  }

  foundAddress({ words, slotAt }: ShardRequest): Address {
    return pointerOf(lowHalf(words, slotAt), highHalf(words, slotAt));
  }

  shape(): Operation<IndexShape> {
    return shapeOf(this.table);
  }

  walk(cursor = 0): ShardWalk {
    const { table } = this;
    return new ShardWalk(table, table.newRequest(), decodeCursor(cursor, table.geometry));
  }

  check(sink: CheckSink): Operation<number> {
    return checkTable(this.table, sink);
  }

  eachReachable(visit: (address: Address) => void): Operation<void> {
    return eachReachable(this.table, visit);
  }
}

/** Allocates and fills an empty table; returns its root for the catalog. */
export function* buildShard(pool: Pool, shape: ShardShape, catalog: number): Operation<Address> {
  const geometry = new ShardGeometry(shape);
  const root = yield* pool.allocator.allocateSpan(catalog, Math.ceil(ROOT_BYTES / UNIT_BYTES));
  pool.chunks.reserve(root, ROOT_BYTES);
  const first = yield* makeSegment(pool.allocator, catalog, geometry, 0);
  yield* Segments.format(root, first);
  return root;
}

export function* openShard(
  pool: Pool,
  shape: ShardShape,
  catalog: number,
  root: Address,
): Operation<ShardIndex> {
  invariant(root > 0, 'a store without a root');
  const geometry = new ShardGeometry(shape);
  const segments = new Segments(root, geometry);
  const table = new ShardTable(pool, catalog, geometry, segments);
  table.reported = yield* segments.load();
  return new ShardIndex(table);
}

/** SHARD as a store's index. */
export const SHARD: IndexKind = {
  number: SHARD_KIND,
  manifest: SHARD_MANIFEST,
  parameterNames: SHARD_PARAMETER_NAMES,
  parameters: (wishes, poolBytes, seed) => ({ ...shardShape(wishes, poolBytes, seed) }),
  create: (pool, parameters, catalog) => buildShard(pool, shapeFrom(parameters), catalog),
  open: (pool, parameters, catalog, root) => openShard(pool, shapeFrom(parameters), catalog, root),
};

export function shapeFrom(parameters: IndexParameters): ShardShape {
  const { buckets, level1, level2, threshold, alpha, resizes, ordered, seed } = parameters;
  return { buckets, level1, level2, threshold, alpha, resizes, ordered, seed };
}
