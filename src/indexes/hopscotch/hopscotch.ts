import { invariant } from '../../errors.ts';
import type { Pool } from '../../pool/pool.ts';
import {
  type Address,
  Batch,
  type Fabric,
  highHalf,
  lowHalf,
  type Operation,
} from '../../verbs/index.ts';
import { unitsBeside } from '../chime/geometry.ts';
import { insert } from '../chime/insert.ts';
import type { ChimeRequest } from '../chime/leaf-client.ts';
import { depthFlags } from '../chime/link.ts';
import { place } from '../chime/neighbourhood.ts';
import { type Link, NewNodes } from '../chime/node-io.ts';
import { recordOf } from '../chime/slot.ts';
import { replace, vacate } from '../chime/update.ts';
import type {
  CheckSink,
  Condition,
  Index,
  IndexKind,
  IndexManifest,
  IndexParameters,
  IndexShape,
  Outcome,
} from '../contract.ts';
import { LockTable } from '../delegation.ts';
import { DirectoryParts } from '../directory-parts.ts';
import type { RecordIo } from '../record-io.ts';
import { modifySlot, removeSlot, type SlotProtocol, writeSlot } from '../slot-operations.ts';
import { type PlannedWrite, writeTogether } from '../write-combining.ts';
import { checkTable } from './check.ts';
import { HopscotchGeometry, type HopscotchShape, hopscotchShape } from './geometry.ts';
import { eachReachable } from './reachable.ts';
import { locate, search, searchMany, searchOnce } from './search.ts';
import { shapeOf } from './shape.ts';
import { HopscotchTable } from './table.ts';
import { HopscotchWalk } from './walk.ts';

export const HOPSCOTCH_KIND = 6;

export const HOPSCOTCH_MANIFEST: IndexManifest = {
  name: 'hopscotch',
  ordered: false,
  orderedWalk: false,
  lockFreeReads: true,
  onlineResize: true,
};

/** Lines of the node over the two segments of a split. */
const FORK_UNITS = unitsBeside(1);

/** The stand-alone one-sided hopscotch hash table (CHIME section 4.5) behind the index contract. */
export class HopscotchIndex implements Index {
  readonly manifest = HOPSCOTCH_MANIFEST;
  readonly table: HopscotchTable;
  readonly #protocol: SlotProtocol<ChimeRequest>;
  readonly #locks = new LockTable<ChimeRequest>();

  constructor(table: HopscotchTable) {
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
    const { splits, hops } = this.table;
    return { splits, hops };
  }

  get tableUnits(): readonly number[] {
    return [this.table.geometry.leafUnits, FORK_UNITS];
  }

  get hashSeed(): number {
    return this.table.geometry.shape.seed;
  }

  newRequest(): ChimeRequest {
    return this.table.newRequest();
  }

  search(request: ChimeRequest): Operation<boolean> {
    const { table } = this;
    table.directory.begin();
    if (!table.techniques.delegation) return search(table, request);
    return this.#locks.search(request, (one) => search(table, one));
  }

  searchOnce(request: ChimeRequest, fabric: Fabric): boolean | undefined {
    this.table.directory.begin();
    return searchOnce(this.table, request, fabric);
  }

  searchMany(
    requests: readonly ChimeRequest[],
    count: number,
    batch: Batch,
    found: boolean[],
  ): Operation<void> {
    this.table.directory.begin();
    return searchMany(this.table, requests, count, batch, found);
  }

  foundAddress({ words, slotAt }: ChimeRequest): Address {
    return recordOf(lowHalf(words, slotAt), highHalf(words, slotAt));
  }

  shape(): Operation<IndexShape> {
    return shapeOf(this.table);
  }

  walk(cursor = 0): HopscotchWalk {
    return new HopscotchWalk(this.table, cursor);
  }

  check(sink: CheckSink): Operation<number> {
    return checkTable(this.table, sink);
  }

  eachReachable(visit: (address: Address) => void): Operation<void> {
    return eachReachable(this.table, visit);
  }

  *write(request: ChimeRequest, condition: Condition, expected = 0): Operation<Outcome> {
    this.#begin(request);
    if (!this.table.techniques.delegation) {
      return yield* writeSlot(this.#protocol, request, condition, expected);
    }
    const write: PlannedWrite<ChimeRequest> = { request, condition, expected };
    return yield* this.#locks.write(write, (group) => this.#writeTogether(group));
  }

  #writeTogether(group: readonly PlannedWrite<ChimeRequest>[]): Operation<void> {
    const { table } = this;
    return writeTogether(this.#protocol, group, (request, attempt) =>
      table.retry(request, 'otherCarrier', attempt),
    );
  }

  *remove(request: ChimeRequest): Operation<boolean> {
    this.#begin(request);
    return yield* this.#inTurn(request, () => removeSlot(this.#protocol, request));
  }

  *modify(request: ChimeRequest, compute: (present: boolean) => void): Operation<Outcome> {
    this.#begin(request);
    return yield* this.#inTurn(request, () => modifySlot(this.#protocol, request, compute));
  }

  #inTurn<T>(request: ChimeRequest, change: () => Operation<T>): Operation<T> {
    return this.table.techniques.delegation ? this.#locks.inTurn(request, change) : change();
  }

  #begin(request: ChimeRequest): void {
    this.table.directory.begin();
    place(this.table, request);
  }
}

/** Makes a table of empty segments; returns where its directory stands, for the catalog. */
export function* buildHopscotch(
  pool: Pool,
  shape: HopscotchShape,
  catalog: number,
): Operation<Address> {
  const parts = yield* DirectoryParts.make(pool, catalog, shape);
  const table = new HopscotchTable(pool, new HopscotchGeometry(shape), parts, catalog);
  const links: Link[] = [];
  while (links.length < 2 ** shape.initialDepth) links.push(yield* makeSegment(table));
  yield* parts.fill(links);
  return parts.root;
}

function* makeSegment(table: HopscotchTable): Operation<Link> {
  const { span, initialDepth } = table.geometry.shape;
  const nodes = new NewNodes(table);
  const address = yield* nodes.allocateLeaf();
  const link = nodes.leafAt(address, new Int32Array(2 * span), depthFlags(initialDepth));
  yield nodes.post(new Batch());
  return link;
}

export function* openHopscotch(
  pool: Pool,
  shape: HopscotchShape,
  catalog: number,
  root: Address,
): Operation<HopscotchIndex> {
  invariant(root > 0, 'a store without a root');
  const { parts } = yield* DirectoryParts.read(root, shape);
  return new HopscotchIndex(new HopscotchTable(pool, new HopscotchGeometry(shape), parts, catalog));
}

/** The hopscotch hash table as a store's index. */
export const HOPSCOTCH: IndexKind = {
  number: HOPSCOTCH_KIND,
  manifest: HOPSCOTCH_MANIFEST,
  parameterNames: ['span', 'neighbourhood', 'initialDepth', 'maxDepth', 'hotspots', 'seed'],
  parameters: (wishes, poolBytes, seed) => ({ ...hopscotchShape(wishes, poolBytes, seed) }),
  create: (pool, parameters, catalog) => buildHopscotch(pool, shapeFrom(parameters), catalog),
  open: (pool, parameters, catalog, root) =>
    openHopscotch(pool, shapeFrom(parameters), catalog, root),
};

export function shapeFrom(parameters: IndexParameters): HopscotchShape {
  const { span, neighbourhood, initialDepth, maxDepth, hotspots, seed } = parameters;
  return { span, neighbourhood, initialDepth, maxDepth, hotspots, seed };
}
