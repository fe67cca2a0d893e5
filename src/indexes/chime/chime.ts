import { invariant } from '../../errors.ts';
import type { Pool } from '../../pool/pool.ts';
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
  IF_ABSENT,
  IF_PRESENT,
  IF_VERSION,
  INSERTED,
  type Index,
  type IndexKind,
  type IndexManifest,
  type IndexParameters,
  type IndexShape,
  type Outcome,
  REFUSED,
  REPLACED,
} from '../contract.ts';
import { RecordIo } from '../record-io.ts';
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
import { type ChimeRequest, ChimeTree } from './tree.ts';
import { replace, vacate } from './update.ts';
import { ChimeWalk, noCursor } from './walk.ts';

export const CHIME_KIND = 4;

export const CHIME_MANIFEST: IndexManifest = {
  name: 'chime',
  ordered: true,
  lockFreeReads: true,
  onlineResize: true,
};

/** Sizes of the blocks that internal nodes take, of 1 to 2048 lines. */
const NODE_UNITS = Array.from({ length: 12 }, (_, size) => unitsBeside(2 ** size));

/** CHIME (SOSP'24), a tree whose leaves are hopscotch tables, behind the index contract. */
export class ChimeIndex implements Index {
  readonly manifest = CHIME_MANIFEST;
  readonly tree: ChimeTree;

  constructor(tree: ChimeTree) {
    this.tree = tree;
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
    const { splits, hops, rebuilds } = this.tree;
    return { splits, hops, rebuilds };
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
    this.tree.cache.begin();
    return search(this.tree, request);
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

  walk(cursor = 0): ChimeWalk {
    if (!Number.isSafeInteger(cursor) || cursor < 0) throw noCursor(cursor);
    return new ChimeWalk(this.tree, cursor);
  }

  /** The records from a key on, in the order of the keys' bytes. */
  scan(from: Uint8Array = new Uint8Array(0)): ChimeScan {
    return new ChimeScan(this.tree, from);
  }

  check(sink: CheckSink): Operation<number> {
    return checkTree(this.tree, sink);
  }

  eachReachable(visit: (address: Address) => void): Operation<void> {
    return eachReachable(this.tree, visit);
  }

  *write(request: ChimeRequest, condition: Condition, expected = 0): Operation<Outcome> {
    const { tree } = this;
    this.#begin(request);
    try {
      for (let attempt = 1; ; attempt++) {
        if (request.block === 0 && !tree.records.take(request)) {
          yield* tree.records.allocate(request);
        }
        if (yield* locate(tree, request)) {
          if (refuses(condition, expected, request.foundVersion)) return REFUSED;
          if (yield* replace(tree, request, attempt)) return linked(request, REPLACED);
        } else {
          if (condition === IF_PRESENT || condition === IF_VERSION) {
            request.foundAt = -1;
            return REFUSED;
          }
          if (yield* insert(tree, request, attempt)) return linked(request, INSERTED);
        }
      }
    } finally {
      tree.records.discard(request);
    }
  }

  *remove(request: ChimeRequest): Operation<boolean> {
    const { tree } = this;
    this.#begin(request);
    for (let attempt = 1; ; attempt++) {
      if (!(yield* locate(tree, request))) return false;
      if (yield* vacate(tree, request, attempt)) return true;
    }
  }

  *modify(request: ChimeRequest, compute: (present: boolean) => void): Operation<Outcome> {
    const { tree } = this;
    this.#begin(request);
    try {
      for (let attempt = 1; ; attempt++) {
        const present = yield* locate(tree, request);
        if (present) yield* tree.records.complete(request);
        tree.records.discard(request);
        compute(present);
        if (!tree.records.take(request)) yield* tree.records.allocate(request);
        if (present) {
          if (yield* replace(tree, request, attempt)) return linked(request, REPLACED);
        } else if (yield* insert(tree, request, attempt)) {
          return linked(request, INSERTED);
        }
      }
    } finally {
      tree.records.discard(request);
    }
  }

  #begin(request: ChimeRequest): void {
    this.tree.cache.begin();
    place(this.tree, request);
  }
}

function refuses(condition: Condition, expected: number, version: number): boolean {
  return condition === IF_ABSENT || (condition === IF_VERSION && version !== expected);
}

/** The record belongs to the index from now on. */
function linked(request: ChimeRequest, outcome: Outcome): Outcome {
  request.forgetBlock();
  return outcome;
}

/** Makes a tree of one empty leaf; returns where its root link stands, for the catalog. */
export function* buildChime(pool: Pool, shape: ChimeShape, catalog: number): Operation<Address> {
  const root = yield* pool.allocator.allocate(catalog, 1);
  const tree = treeOf(pool, shape, catalog, root);
  const nodes = new NewNodes(tree);
  const leaf = yield* nodes.reserveLeaf();
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
  parameterNames: ['span', 'neighbourhood', 'fanout', 'seed'],
  parameters: (wishes, _poolBytes, seed) => ({ ...chimeShape(wishes, seed) }),
  create: (pool, parameters, catalog) => buildChime(pool, shapeFrom(parameters), catalog),
  open: (pool, parameters, catalog, root) => openChime(pool, shapeFrom(parameters), catalog, root),
};

export function shapeFrom({ span, neighbourhood, fanout, seed }: IndexParameters): ChimeShape {
  return { span, neighbourhood, fanout, seed };
}
