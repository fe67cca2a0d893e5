import { invariant } from '../../errors.ts';
import type { Pool } from '../../pool/pool.ts';
import type { Bytes } from '../../records/codec.ts';
import { type Address, Batch, type Operation, Scratch, setWord } from '../../verbs/index.ts';
import type {
  CheckSink,
  Condition,
  Counters,
  IndexKind,
  IndexManifest,
  IndexParameters,
  IndexShape,
  KeyRange,
  OrderedIndex,
  Outcome,
} from '../contract.ts';
import type { IndexPicture } from '../picture.ts';
import { LeafIndex } from '../substrates/leaf/leaf-index.ts';
import type { LeafRequest } from '../substrates/leaf/leaf-request.ts';
import { newLeaf } from '../substrates/leaf/split-leaf.ts';
import { absorbCut } from './absorb-cut.ts';
import { bulkLoad } from './bulk-load.ts';
import { checkTree } from './check.ts';
import { ChimeGeometry, type ChimeShape, chimeShape, unitsBeside } from './geometry.ts';
import { mergeUnderfull, packLeaves, relearnOutdated } from './merge/merge-underfull.ts';
import { PackedSeparators } from './nodes/internal-node.ts';
import { leafLink } from './nodes/link.ts';
import { NewNodes, rootLink } from './nodes/node-io.ts';
import { ChimeParts, paint, shapeOf } from './parts.ts';
import type { ChimeRequest } from './request.ts';
import { ChimeScan, ChimeWalk } from './scan/scan.ts';
import { ChimeTree } from './tree.ts';

export const CHIME_MANIFEST: IndexManifest = {
  name: 'chime',
  ordered: true,
  orderedWalk: true,
  onlineResize: true,
  resizes: ['splits', 'hops', 'rebuilds', 'merges'],
  evictsInTable: true,
  proves: true,
  locks: true,
  hotspots: true,
};

/** Block sizes of internal nodes and long pivots, for 1 to 2048 lines. */
const NODE_UNITS = Array.from({ length: 12 }, (_, size) => unitsBeside(2 ** size));

/** CHIME (SOSP'24), a tree whose leaves are hopscotch tables, behind the index contract. */
export class ChimeIndex extends LeafIndex<ChimeTree> implements OrderedIndex {
  readonly manifest = CHIME_MANIFEST;

  constructor(tree: ChimeTree) {
    super(tree, () => [tree.geometry.leafUnits, ...NODE_UNITS]);
  }

  get tree(): ChimeTree {
    return this.client;
  }

  override newRequest(): ChimeRequest {
    return this.tree.newRequest();
  }

  get counters(): Counters {
    const { retries, splits, hops, combined, rebuilds, merges } = this.tree;
    return { ...retries, splits, hops, combined, rebuilds, merges };
  }

  shape(): Operation<IndexShape> {
    return shapeOf(this.tree);
  }

  picture(partsMax: number): Operation<IndexPicture> {
    return paint(this.tree, partsMax);
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

  override *write(request: LeafRequest, condition: Condition, expected = 0): Operation<Outcome> {
    request.hasMerged = false;
    if (this.#isBehind) yield* this.#catchUp(request);
    return yield* super.write(request, condition, expected);
  }

  override *modify(request: LeafRequest, compute: (present: boolean) => void): Operation<Outcome> {
    request.hasMerged = false;
    if (this.#isBehind) yield* this.#catchUp(request);
    return yield* super.modify(request, compute);
  }

  /** Asked by each write, which makes no generator while nothing is left. */
  get #isBehind(): boolean {
    return this.tree.outdated !== undefined || this.tree.cuts.length > 0;
  }

  /** One step of what earlier calls of this client have left to do. */
  *#catchUp(request: LeafRequest): Operation<void> {
    if (this.tree.outdated !== undefined) yield* relearnOutdated(this.tree);
    else yield* absorbCut(this.tree, request);
  }

  override *remove(request: LeafRequest, expected?: number): Operation<boolean> {
    const present = yield* super.remove(request, expected);
    if (request.displaced) yield* mergeUnderfull(this.tree, request as ChimeRequest);
    return present;
  }

  override hasRemoved(request: LeafRequest): Operation<void> {
    return mergeUnderfull(this.tree, request as ChimeRequest, true);
  }

  compact(): Operation<number> {
    return packLeaves(this.tree);
  }

  check(sink: CheckSink): Operation<number> {
    return checkTree(this.tree, sink);
  }

  parts(): ChimeParts {
    return new ChimeParts(this.tree);
  }
}

/** Creates a tree of one empty leaf; returns the address of its root link, for the catalog. */
export function* buildChime(pool: Pool, shape: ChimeShape, catalog: number): Operation<Address> {
  // Without intent slots no client could open the store.
  yield* pool.intents.open();
  const root = yield* pool.allocator.allocate(catalog, 1);
  const tree = treeOf(pool, shape, catalog, root);
  const { geometry } = tree;
  const leaf = yield* pool.allocator.allocate(catalog, geometry.leafUnits);
  const tag = tree.newTag();
  const image = new Scratch(geometry.leafBytes);
  newLeaf(geometry, leaf, tag, image);
  const first = leafLink(leaf, tag);
  const nodes = new NewNodes(tree);
  // The root is never a leaf: a root link that led to the same leaf again would hide the changes
  // in between.
  const links = Int32Array.of(first.low, first.high);
  const routes = { links, separators: PackedSeparators.of([]), pair: 0 };
  const top = yield* nodes.internal(routes, 0);
  const word = new Scratch(8);
  setWord(word, 0, top.low, top.high);
  const batch = new Batch().write(leaf, geometry.leafBytes, image, 0);
  yield nodes.post(batch).write(root, 8, word, 0);
  nodes.keep();
  return root;
}

export function* openChime(
  pool: Pool,
  shape: ChimeShape,
  catalog: number,
  root: Address,
): Operation<ChimeIndex> {
  invariant(root > 0, 'a store without a root');
  yield* pool.intents.open();
  // In a full pool a merge takes chunks of the reserve: see `MERGE_CHUNKS_MAX`.
  pool.allocator.keepReserve(catalog, 1);
  const tree = treeOf(pool, shape, catalog, root);
  yield* rootLink(tree);
  return new ChimeIndex(tree);
}

function treeOf(pool: Pool, shape: ChimeShape, catalog: number, root: Address): ChimeTree {
  return new ChimeTree(pool, new ChimeGeometry(shape), root, catalog);
}

/** CHIME as a store's index. */
export const CHIME: IndexKind = {
  manifest: CHIME_MANIFEST,
  parameterNames: [
    'span',
    'neighbourhood',
    'inlineBytes',
    'fanout',
    'cacheKiB',
    'seed',
    'accessWords',
  ],
  flags: ['accessWords'],
  parameters: (wishes, _poolBytes, seed) => ({ ...chimeShape(wishes, seed) }),
  create: (pool, parameters, catalog) => buildChime(pool, shapeFrom(parameters), catalog),
  open: (pool, parameters, catalog, root) => openChime(pool, shapeFrom(parameters), catalog, root),
};

export function shapeFrom(parameters: IndexParameters): ChimeShape {
  const { span, neighbourhood, inlineBytes, fanout, cacheKiB, seed, accessWords } = parameters;
  return { span, neighbourhood, inlineBytes, fanout, cacheKiB, seed, accessWords };
}
