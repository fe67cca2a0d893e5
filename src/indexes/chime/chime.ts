import { invariant } from '../../errors.ts';
import type { Pool } from '../../pool/pool.ts';
import type { Bytes } from '../../records/codec.ts';
import { type Address, Batch, type Operation, Scratch, setWord } from '../../verbs/index.ts';
import type {
  CheckSink,
  IndexKind,
  IndexManifest,
  IndexParameters,
  IndexShape,
  KeyRange,
  OrderedIndex,
} from '../contract.ts';
import { RecordIo } from '../substrates/record-io.ts';
import { bulkLoad } from './bulk-load.ts';
import { checkTree } from './check.ts';
import { ChimeGeometry, type ChimeShape, chimeShape, unitsBeside } from './geometry.ts';
import { LeafIndex } from './leaf-index.ts';
import { addressOfLink } from './link.ts';
import { rootLink } from './mend.ts';
import { NewNodes } from './node-io.ts';
import { eachReachable } from './reachable.ts';
import { ChimeScan } from './scan.ts';
import { shapeOf } from './shape.ts';
import { tidy, tidyTogether } from './tidy.ts';
import { type ChimeRequest, ChimeTree } from './tree.ts';
import { ChimeWalk } from './walk.ts';

export const CHIME_KIND = 4;

export const CHIME_MANIFEST: IndexManifest = {
  name: 'chime',
  ordered: true,
  orderedWalk: true,
  lockFreeReads: true,
  onlineResize: true,
  expires: false,
};

/** Sizes of the blocks that internal nodes take, of 1 to 2048 lines. */
const NODE_UNITS = Array.from({ length: 12 }, (_, size) => unitsBeside(2 ** size));

/** CHIME (SOSP'24), a tree whose leaves are hopscotch tables, behind the index contract. */
export class ChimeIndex extends LeafIndex<ChimeTree> implements OrderedIndex {
  readonly manifest = CHIME_MANIFEST;

  get tree(): ChimeTree {
    return this.client;
  }

  get resizes(): Readonly<Record<string, number>> {
    const { splits, hops, rebuilds, merges } = this.tree;
    return { splits, hops, rebuilds, merges };
  }

  get tableUnits(): readonly number[] {
    return [this.tree.geometry.leafUnits, ...NODE_UNITS];
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

  override *remove(request: ChimeRequest, expected?: number): Operation<boolean> {
    const { removals } = this.tree;
    let removed = false;
    removals.begin();
    try {
      removed = yield* super.remove(request, expected);
    } finally {
      removals.end();
    }
    if (!removed) return false;
    if (removals.wasAlone) yield* tidy(this.tree, request);
    else yield* tidyTogether(this.tree, request);
    return true;
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
  const records = new RecordIo(pool, catalog);
  const geometry = new ChimeGeometry(shape);
  return new ChimeTree(geometry, root, records, allocator, reclamation, catalog);
}

/** CHIME as a store's index. */
export const CHIME: IndexKind = {
  number: CHIME_KIND,
  manifest: CHIME_MANIFEST,
  parameterNames: ['span', 'neighbourhood', 'fanout', 'cacheKiB', 'hotspots', 'seed', 'splitAt'],
  flags: [],
  parameters: (wishes, _poolBytes, seed) => ({ ...chimeShape(wishes, seed) }),
  create: (pool, parameters, catalog) => buildChime(pool, shapeFrom(parameters), catalog),
  open: (pool, parameters, catalog, root) => openChime(pool, shapeFrom(parameters), catalog, root),
};

export function shapeFrom(parameters: IndexParameters): ChimeShape {
  const { span, neighbourhood, fanout, cacheKiB, hotspots, seed, splitAt } = parameters;
  return { span, neighbourhood, fanout, cacheKiB, hotspots, seed, splitAt };
}
