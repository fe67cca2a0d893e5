import { invariant } from '../../errors.ts';
import {
  type Address,
  Batch,
  highHalf,
  lowHalf,
  type Operation,
  Scratch,
} from '../../verbs/index.ts';
import type { IndexShape } from '../contract.ts';
import {
  type IndexPicture,
  type PictureLayer,
  type PicturePart,
  pictureOf,
  spread,
} from '../picture.ts';
import { BOUNDS_AT, IDENTITY_AT, identityHigh, identityLow } from '../substrates/leaf/layout.ts';
import { IMAGE_AT } from '../substrates/leaf/leaf-request.ts';
import { outwait } from '../substrates/leaf/lock-leaf.ts';
import { eachIndirect, ItemCounts, isPicture, paintEntries } from '../substrates/leaf/picture.ts';
import { isLeafStill, postBracket } from '../substrates/leaf/read-leaf.ts';
import type { PartOrder, Parts } from '../traversal/parts.ts';
import { isLong, pivotBlockIn, pivotBytesIn } from './bounds.ts';
import { unitsFor } from './geometry.ts';
import { compareWhole } from './nodes/keys.ts';
import { ABSORB, addressOfLink, FROZEN, isInternal, type Link, tagOfLink } from './nodes/link.ts';
import {
  isAbsorbed,
  isInUse,
  PATH_MAX,
  replacementOf,
  rootLink,
  routesOf,
  type Visit,
  visit,
} from './nodes/node-io.ts';
import { goneWith } from './nodes/plan-node.ts';
import type { ChimeRequest } from './request.ts';
import { LeafWalk } from './scan/leaf-walk.ts';
import type { ChimeTree } from './tree.ts';

/**
 * Parts for sweeps: a leaf that its parent links, the siblings behind it that the parent lacks, and
 * the internal nodes before it. Replaced nodes that are still linked belong to it, too: a client
 * will retire them when it unlinks them.
 */
export class ChimeParts implements Parts, PartOrder {
  readonly order: PartOrder = this;
  readonly cursor = 0;
  done = false;
  readonly #tree: ChimeTree;
  #nodes: NodeWalk | undefined;
  readonly #blocks: Address[] = [];
  readonly #records: { address: Address; units: number }[] = [];

  constructor(tree: ChimeTree) {
    this.#tree = tree;
  }

  *read(): Operation<void> {
    const tree = this.#tree;
    const [blocks, records] = [this.#blocks, this.#records];
    blocks.length = 0;
    records.length = 0;
    this.#nodes ??= yield* NodeWalk.begin(tree);
    const leaf = yield* this.#nodes.nextLeaf(({ low, high }) => {
      blocks.push(addressOfLink(low, high));
    });
    if (leaf === undefined) {
      this.done = true;
      return;
    }
    yield* eachLeaf(tree, leaf, {
      block: (address) => blocks.push(address),
      problem: () => {},
      *leaf(picture) {
        eachIndirect(tree, picture, (address, units) => records.push({ address, units }));
      },
    });
  }

  pass(): void {}

  eachSlot(visit: (record: Address, units: number, isClaim: boolean) => void): void {
    for (const { address, units } of this.#records) visit(address, units, false);
  }

  eachBlock(visit: (address: Address) => void): void {
    for (const block of this.#blocks) visit(block);
  }

  // biome-ignore lint/correctness/useYield: the root stays where it is
  *eachOtherBlock(visit: (address: Address) => void): Operation<void> {
    visit(this.#tree.root);
  }
}

interface ChainVisitor {
  /** The block of a leaf or of a long pivot. */
  block(address: Address, units: number): void;
  problem(text: string): void;
  /** A leaf's picture and the bounds of its keys. */
  leaf(picture: ChimeRequest, lower: Uint8Array, upper: Uint8Array | undefined): Operation<void>;
}

/**
 * Visits a leaf that its parent links, and the siblings behind it that the parent lacks. Visits
 * only the block of a merged leaf: the leaf before it has its keys.
 */
export function* eachLeaf(
  tree: ChimeTree,
  { link, lower, upper }: Part,
  visitor: ChainVisitor,
): Operation<void> {
  const request = tree.newRequest();
  let from = lower;
  for (let leaf = link; ; ) {
    tree.aimAt(request, leaf, from);
    visitor.block(request.leaf, tree.geometry.leafUnits);
    if (!(yield* readWhole(tree, request))) return;
    const { sibling, pivot } = yield* tree.boundsIn(request);
    const at = IMAGE_AT + BOUNDS_AT;
    const { words } = request;
    const pivotBytes = sibling === undefined ? 0 : pivotBytesIn(words, at);
    if (isLong(pivotBytes)) visitor.block(pivotBlockIn(words, at), unitsFor(pivotBytes));
    // Without this, the walk along a chain that leads back to itself would never end.
    const ascends = pivot === undefined || compareWhole(from, pivot) < 0;
    invariant(ascends, `the pivot of the leaf at ${request.leaf} is below its keys`);
    checkReplicas(tree, request, visitor);
    yield* visitor.leaf(request, from, pivot);
    const isEnd = upper !== undefined && pivot !== undefined && compareWhole(pivot, upper) >= 0;
    if (sibling === undefined || pivot === undefined || isEnd) return;
    leaf = sibling;
    from = pivot;
  }
}

function checkReplicas(tree: ChimeTree, { words }: ChimeRequest, visitor: ChainVisitor): void {
  const { geometry } = tree;
  const bounds = (IMAGE_AT + BOUNDS_AT) >> 2;
  for (let i = 0; i < geometry.replicas; i++) {
    const replica = (IMAGE_AT + geometry.replicaAt(i)) >> 2;
    const isSame =
      words.i32[replica] === words.i32[bounds] && words.i32[replica + 1] === words.i32[bounds + 1];
    if (!isSame) visitor.problem(`its replica ${i} is no copy of its bounds`);
  }
}

/** False for a leaf that was merged. */
function* readWhole(tree: ChimeTree, request: ChimeRequest): Operation<boolean> {
  const { span } = tree.geometry.shape;
  for (let attempt = 1; ; attempt++) {
    request.readsBounds = true;
    yield postBracket(tree, request, 0, span, request.batch.clear());
    if (!isLeafStill(request)) return false;
    if (isPicture(tree, request)) return true;
    tree.count('changing', attempt - request.looks, request);
    yield* outwait(tree, request, attempt);
  }
}

const LOWEST = new Uint8Array(0);

/** A node to visit, and the bounds of the keys below it. */
export interface Part {
  link: Link;
  lower: Uint8Array;
  upper: Uint8Array | undefined;
  /** Internal nodes above, except those marked ABSORB. */
  height: number;
  isRoot: boolean;
  /** Links followed from the root. */
  steps: number;
}

/** Goes through all nodes below the root in key order. */
export class NodeWalk {
  readonly #tree: ChimeTree;
  readonly #open: Part[] = [];

  private constructor(tree: ChimeTree, link: Link) {
    this.#tree = tree;
    this.#open.push({ link, lower: LOWEST, upper: undefined, height: 0, isRoot: true, steps: 0 });
  }

  static *begin(tree: ChimeTree): Operation<NodeWalk> {
    return new NodeWalk(tree, yield* rootLink(tree));
  }

  /**
   * The next leaf that a parent links; undefined at the end. Visits the internal nodes before it,
   * including replaced ones that are still linked. Raises SW_POOL_CORRUPT if separators do not
   * ascend: otherwise the walk would never leave a node that is below itself.
   */
  *nextLeaf(visitNode: (link: Link) => void): Operation<Part | undefined> {
    const tree = this.#tree;
    const open = this.#open;
    for (let part = open.pop(); part !== undefined; part = open.pop()) {
      if (!isInternal(part.link.high)) return part;
      invariant(part.steps < PATH_MAX, 'the path to a leaf does not end');
      const node = yield* visit(tree, tree.root, part.link);
      if (!isInUse(tree, node) && !isAbsorbed(node)) {
        // The replacement leads to all that this node leads to, except absorbed nodes.
        for (const gone of yield* goneWith(tree, node)) visitNode(gone);
        open.push({ ...part, link: replacementOf(node), steps: part.steps + 1 });
        continue;
      }
      visitNode(node);
      open.push(...childrenOf(node, part).reverse());
    }
    return undefined;
  }
}

function childrenOf(node: Visit, { lower, upper, height, isRoot, steps }: Part): Part[] {
  const { links, separators: packed } = routesOf(node);
  const separators = packed.list();
  const bounds = [lower, ...separators];
  const below = isRoot || (node.high & ABSORB) === 0 ? height + 1 : height;
  for (let i = 0; i < separators.length; i++) {
    const next = bounds[i + 2] ?? upper;
    const ascends = compareWhole(bounds[i], bounds[i + 1]) < 0;
    const isBelow = next === undefined || compareWhole(bounds[i + 1], next) < 0;
    invariant(ascends && isBelow, `internal node at ${node.address}: separators do not ascend`);
  }
  return bounds.map((from, child) => ({
    link: { low: links[2 * child], high: links[2 * child + 1] & ~FROZEN },
    lower: from,
    upper: bounds[child + 1] ?? upper,
    height: below,
    isRoot: false,
    steps: steps + 1,
  }));
}

/** Counts by a walk over the leaves, without reading records: no writer makes it fail. */
export function* shapeOf(tree: ChimeTree): Operation<IndexShape> {
  const leaves = new LeafWalk(tree, new Uint8Array(0));
  let subtables = 0;
  const items = new ItemCounts();
  while (leaves.position !== undefined) {
    const leaf = yield* leaves.nextAsItIs();
    subtables++;
    if (leaf !== undefined) items.add(tree, leaf);
  }
  const { span } = tree.geometry.shape;
  const globalDepth = leaves.height;
  leaves.release();
  return { globalDepth, subtables, slots: subtables * span, ...items };
}

/** No tree is deeper, even with a fanout of 2. */
const HEIGHT_MAX = 64;
/** Most replacements to follow from one node. */
const REPLACEMENTS_MAX = 16;

interface Below {
  link: Link;
  lower: Uint8Array;
  /** Index of its parent among the nodes shown on the level above. */
  above?: number;
}

/** Draws some nodes of each level, and some leaves. */
export function* paint(tree: ChimeTree, partsMax: number): Operation<IndexPicture> {
  const layers: PictureLayer[] = [];
  let level: Below[] = [{ link: yield* rootLink(tree), lower: LOWEST }];
  /** Estimated number of nodes on the level for each one in `level`. */
  let scale = 1;
  for (let height = 0; height < HEIGHT_MAX && isInternal(level[0].link.high); height++) {
    const chosen = spread(level, partsMax);
    const below: Below[] = [];
    const shown: PicturePart[] = [];
    for (const node of chosen) {
      const children = yield* drawnChildren(tree, node);
      if (children.length === 0) continue;
      below.push(...children.map((child) => ({ ...child, above: shown.length })));
      shown.push(nodePart(tree, node, children.length));
    }
    const total = Math.round(scale * level.length);
    const parts = height === 0 ? 'root' : `internal nodes, level ${height + 1}`;
    layers.push({ parts, cell: 'child', total, isExact: scale === 1, shown });
    if (below.length === 0) break;
    scale *= level.length / Math.max(1, shown.length);
    level = below;
  }
  const shown: PicturePart[] = [];
  for (const leaf of spread(level, partsMax)) {
    const part = yield* leafPart(tree, leaf);
    if (part !== undefined) shown.push(part);
  }
  const total = Math.round(scale * level.length);
  layers.push({ parts: 'leaves', cell: 'entry', total, isExact: scale === 1, shown });
  return pictureOf(layers);
}

/** The children of a node or its replacement; none if its parent has absorbed it. */
function* drawnChildren(tree: ChimeTree, { link, lower }: Below): Operation<Below[]> {
  let node = yield* visit(tree, tree.root, link);
  for (let i = 0; !isInUse(tree, node); i++) {
    if (isAbsorbed(node) || i === REPLACEMENTS_MAX) return [];
    node = yield* visit(tree, tree.root, replacementOf(node));
  }
  const { links, separators } = routesOf(node);
  return [lower, ...separators.list()].map((from, child) => ({
    link: { low: links[2 * child], high: links[2 * child + 1] & ~FROZEN },
    lower: from.slice(),
  }));
}

function nodePart(tree: ChimeTree, { lower, above }: Below, children: number): PicturePart {
  const { fanout } = tree.geometry.shape;
  const place = above === undefined ? {} : { above };
  return {
    name: keyName(lower),
    ...place,
    used: children,
    slots: Math.max(children, fanout),
    cells: [],
  };
}

/** Undefined for a leaf that was merged, or whose block was reused. */
function* leafPart(
  tree: ChimeTree,
  { link, lower, above = 0 }: Below,
): Operation<PicturePart | undefined> {
  const { geometry } = tree;
  if (isInternal(link.high)) return undefined;
  const address = addressOfLink(link.low, link.high);
  const words = new Scratch(geometry.leafBytes);
  yield new Batch().read(address, geometry.leafBytes, words, 0);
  const tag = tagOfLink(link.high);
  const { seed } = geometry.shape;
  if (lowHalf(words, IDENTITY_AT) !== identityLow(address, tag, seed)) return undefined;
  if (highHalf(words, IDENTITY_AT) !== identityHigh(address, tag, seed)) return undefined;
  return { name: keyName(lower), above, ...paintEntries(geometry, words) };
}

const NAME_BYTES = 24;

/** The first bytes of a key: as text if printable, else in hexadecimal. */
function keyName(key: Uint8Array): string {
  const first = key.subarray(0, NAME_BYTES);
  const isText = first.every((byte) => byte >= 0x20 && byte < 0x7f);
  const shown = isText ? Buffer.from(first).toString('latin1') : Buffer.from(first).toString('hex');
  return key.length > NAME_BYTES ? `${shown}…` : shown;
}
