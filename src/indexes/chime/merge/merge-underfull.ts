import { invariant, StepwellError } from '../../../errors.ts';
import {
  Batch,
  CAS_BYTES,
  highHalf,
  lowHalf,
  type Operation,
  Scratch,
  setWord,
  swapped,
} from '../../../verbs/index.ts';
import { VACANCY_AT } from '../../substrates/leaf/layout.ts';
import { IMAGE_AT } from '../../substrates/leaf/leaf-request.ts';
import { finishPending } from '../nodes/finish-pending.ts';
import {
  allOf,
  blockSizeOf,
  CHILDREN_AT,
  childIn,
  childrenIn,
  cutRoutes,
  fitOneNode,
  isPairFrozen,
  joinRoutes,
  linkIn,
  linksIn,
  NODE_BYTES_MAX,
  NODE_SIZE_MAX,
  PAIR_FROZEN,
  pairIn,
  separatorIn,
  sizeFor,
  sizeOf,
  splicedBytes,
} from '../nodes/internal-node.ts';
import { ABSORB, addressOfLink, FROZEN, isInternal, isSameLeaf, type Link } from '../nodes/link.ts';
import { AT_KEY, type CachedNode } from '../nodes/node-arena.ts';
import {
  freezePair,
  isInUse,
  linkAddress,
  NewNodes,
  PATH_MAX,
  publish,
  rootLink,
  routesOf,
  swing,
  type Visit,
  visit,
} from '../nodes/node-io.ts';
import { rebuildNode, retireLeaf } from '../nodes/rebuild-node.ts';
import {
  type RememberedPath,
  rememberCopy,
  rememberedPath,
  visitRemembered,
} from '../nodes/remembered-path.ts';
import { type KeyAt, keyOf } from '../nodes/siblings.ts';
import type { ChimeRequest } from '../request.ts';
import { ownKey } from '../split.ts';
import type { ChimeTree } from '../tree.ts';
import { mergeLeaves, type PairMark } from './merge-leaves.ts';

/** Each round merges two nodes or lowers the tree by a level. The next deletion does the rest. */
const ROUNDS_MAX = 8;
const LOWEST = new Uint8Array(0);
/** Most chunks of the reserve that a merge takes: for its intent and for nodes of two sizes. */
const MERGE_CHUNKS_MAX = 3;
/** Bytes of a leaf's vacancy and sibling words. */
const LOOK_BYTES = 16;
/**
 * Below a node with more children, a deletion makes one change and leaves others to later
 * deletions. Below one with so few, it may be the last deletion.
 */
const CHILDREN_FEW = 4;
/** In a full pool, deletions from a leaf between two checks whether to merge it. */
const TIGHT_STEP = 4;

/** An internal node on the path to a leaf, with the bounds of its keys. */
interface Step {
  node: Visit;
  lower: Uint8Array;
  upper: Uint8Array | undefined;
  /** Which of its children is next on the path. */
  child: number;
  /** The remembered path, if the client came to the node by one. */
  remembered?: RememberedPath;
  /** Whether this operation has merged leaves below the node. */
  hasMerged?: boolean;
}

/**
 * Gives back memory on the path to a removed key: merges an under-full leaf or internal node with a
 * neighbour below the same parent. First it marks the pair in the parent. While the right one
 * lives, the mark keeps both below one node.
 *
 *   READ leaf and neighbours -> READ the path -> see `mergeLeaves` -> see `rebuildNode`
 *
 * It only saves memory: if it fails, nothing is lost. After many removals from one leaf, only the
 * last one looks (`hasRemovedMany`).
 */
export function* mergeUnderfull(
  tree: ChimeTree,
  request: ChimeRequest,
  hasRemovedMany = false,
): Operation<void> {
  if (isOnly(tree, request) || !isWorthALook(tree, request, hasRemovedMany)) return;
  if (tree.outdated !== undefined) {
    yield* relearnOutdated(tree);
    yield* tree.begin(request);
  }
  const looks = yield* lookBeside(tree, request);
  if (looks !== undefined && !mayMerge(tree, request, looks)) return;
  if ((yield* orNothing(tree, () => mergeRemembered(tree, request, looks))) !== false) return;
  const { rebuilds } = tree;
  yield* mergeOnPath(tree, keyOf(request));
  if (tree.rebuilds !== rebuilds) tree.outdated = ownKey(request);
}

/**
 * Reads a path again of which this client has replaced nodes: otherwise the next split or merge
 * below would find it too old. A later call does this, because one should not do all of it.
 */
export function* relearnOutdated(tree: ChimeTree): Operation<void> {
  const key = tree.outdated;
  if (key === undefined) return;
  tree.outdated = undefined;
  tree.cache.begin();
  const request = tree.idleRequests.take();
  request.setKey(key, tree.geometry.shape.seed);
  request.side = AT_KEY;
  yield* tree.relearn(request);
  tree.idleRequests.give(request);
}

/** Looks at the leaf and the neighbours that this client remembers; undefined if too old. */
function* lookBeside(
  tree: ChimeTree,
  { above, child, leafLow, leafHigh }: ChimeRequest,
): Operation<LeafLook[] | undefined> {
  if (!above?.leadsTo(child, leafLow, leafHigh)) return undefined;
  const linkOf = (i: number) => ({ low: above.linkLow(i), high: above.linkHigh(i) });
  return yield* lookAtLeaves(tree, [child, ...besideOf(child, above.children)].map(linkOf));
}

/** The children beside one: the one before it first. */
function besideOf(child: number, children: number): number[] {
  return [child - 1, child + 1].filter((i) => i >= 0 && i < children);
}

/**
 * Whether the leaf can be merged with a neighbour, or the node above is under-full as well. Most
 * checks end here, after one round trip.
 */
function mayMerge(tree: ChimeTree, { above }: ChimeRequest, looks: readonly LeafLook[]): boolean {
  return isSparse(tree, (above as CachedNode).children) || canMerge(tree, looks);
}

function canMerge(tree: ChimeTree, [own, ...others]: readonly LeafLook[]): boolean {
  return others.some(({ used }) => isWorthMerging(tree, own.used, own.used + used));
}

/**
 * Merges the leaf with a neighbour by what this client remembers of the path. False if that is too
 * old, or other nodes on the path may have to be changed.
 */
function* mergeRemembered(
  tree: ChimeTree,
  request: ChimeRequest,
  looks: readonly LeafLook[] | undefined,
): Operation<boolean> {
  const remembered = rememberedPath(tree, request);
  if (remembered === undefined || remembered.node.children <= CHILDREN_FEW) return false;
  if (looks === undefined || !canMerge(tree, looks)) return false;
  const memory = tree.stepMemories.take();
  try {
    const node = yield* visitRemembered(tree, remembered, memory);
    if (node === undefined || pairIn(node.image) !== 0) return false;
    const { parent, child: above } = remembered;
    const [lower, upper] = [parent.lowerOf(above), parent.upperOf(above)];
    const key = keyOf(request);
    const child = childIn(node.image, key.u8, key.at, key.bytes);
    const step: Step = { node, lower, upper, child, remembered };
    const changed = yield* mergeLeafAt(tree, step, key, isWorthMerging, looks);
    if (step.hasMerged) return true;
    return !changed && !isSparse(tree, remembered.node.children);
  } finally {
    tree.stepMemories.give(memory);
  }
}

/** Whether an internal node of so many children is to be merged with a neighbour. */
function isSparse({ geometry }: ChimeTree, children: number): boolean {
  return children === 1 || 4 * children <= geometry.shape.fanout;
}

/** Whether, as far as this client remembers, the tree has no other leaf. */
function isOnly({ cache }: ChimeTree, { above }: ChimeRequest): boolean {
  return above?.children === 1 && above === cache.top?.node(0);
}

/**
 * Whether the leaf is under-full, and has half as many items as at the last check. In a full pool
 * checks begin earlier and come more often, because insertions lack the memory of leaves.
 */
function isWorthALook(
  { geometry, allocator }: ChimeTree,
  { words }: ChimeRequest,
  hasRemovedMany: boolean,
): boolean {
  const { span } = geometry.shape;
  const used = usedIn(span, geometry.perVacancyBit, words, IMAGE_AT + VACANCY_AT);
  if (allocator.isUsedUp) return 2 * used <= span && (hasRemovedMany || used % TIGHT_STEP === 0);
  return 4 * used <= span && (hasRemovedMany || (used & (used - 1)) === 0);
}

/** Whether to merge two leaves that have `together` items, `own` of them in the emptier one. */
function isWorthMerging({ geometry, allocator }: ChimeTree, own: number, together: number) {
  const { perVacancyBit, shape } = geometry;
  const { span } = shape;
  if ((allocator.isUsedUp ? 2 : 4) * own > span) return false;
  // With room in the pool, a leaf that empties and fills would merge and split each time.
  if (own === 0 && perVacancyBit === 1 && allocator.isUsedUp) return true;
  // A nearly empty leaf is merged even if the other one is about half full.
  return 2 * together <= span || (8 * own <= span && 4 * together <= 3 * span);
}

/** Items of a leaf, by its vacancy word: exact up to 64 entries. */
function usedIn(span: number, perBit: number, { i32 }: Scratch, vacancy: number): number {
  let vacant = 0;
  for (const half of [i32[vacancy >> 2], i32[(vacancy >> 2) + 1]]) {
    for (let bits = half; bits !== 0; bits &= bits - 1) vacant++;
  }
  return Math.max(0, span - vacant * perBit);
}

function* mergeOnPath(tree: ChimeTree, key: KeyAt): Operation<void> {
  for (let round = 1; round <= ROUNDS_MAX; round++) {
    if (!(yield* orNothing(tree, () => mergeOnce(tree, key)))) return;
  }
}

/** Runs a merge; returns undefined when it cannot be done now. */
function* orNothing<T>(tree: ChimeTree, merge: () => Operation<T>): Operation<T | undefined> {
  const { allocator } = tree;
  // A merge needs blocks of several sizes for its intent and nodes, and frees a larger one.
  allocator.reserveAllowed = MERGE_CHUNKS_MAX;
  try {
    return yield* merge();
  } catch (error) {
    const { code } = error as StepwellError;
    const harmless = code === 'SW_POOL_FULL' || code === 'SW_CONTENTION';
    if (!(error instanceof StepwellError && harmless)) throw error;
    return undefined;
  } finally {
    allocator.reserveAllowed = 0;
  }
}

/** One descent to a key. Returns whether this or another client has changed something. */
export function* mergeOnce(tree: ChimeTree, key: KeyAt): Operation<boolean> {
  const path = yield* openPathTo(tree, key);
  if (path === undefined) return false;
  const last = path[path.length - 1];
  const marked = path.find(({ node }) => pairIn(node.image) > 0);
  if (marked === last) return yield* finishPair(tree, last, key);
  if (marked !== undefined) return yield* rebuild(tree, marked, key);
  const [root] = path;
  const lone = childrenIn(root.node.image) === 1 && path.length > 1;
  if (lone) return yield* rebuild(tree, root, key);
  if (yield* mergeLeafAt(tree, last, key)) {
    // A later deletion merges the node above, unless this may have been the last one below it.
    return !last.hasMerged || childrenIn(last.node.image) <= CHILDREN_FEW;
  }
  for (let level = 1; level < path.length; level++) {
    const above = path[level - 1];
    if (!(yield* mergeAt(tree, above, path[level], key))) continue;
    return childrenIn(above.node.image) <= CHILDREN_FEW;
  }
  return false;
}

function* rebuild(tree: ChimeTree, { node, upper }: Step, key: KeyAt): Operation<boolean> {
  return (yield* rebuildNode(tree, node, { key, upper })) !== undefined;
}

/** As `pathTo`, but finishes what other clients have begun on the path. */
function* openPathTo(tree: ChimeTree, key: KeyAt): Operation<Step[] | undefined> {
  const path = yield* pathTo(tree, key);
  if (path !== undefined) return path;
  return (yield* finishPending(tree, key)) ? yield* pathTo(tree, key) : undefined;
}

/** The internal nodes on the path; undefined when one of them is being changed. */
function* pathTo(tree: ChimeTree, key: KeyAt): Operation<Step[] | undefined> {
  const path: Step[] = [];
  let node = yield* visit(tree, tree.root, yield* rootLink(tree));
  let lower: Uint8Array = LOWEST;
  let upper: Uint8Array | undefined;
  for (;;) {
    invariant(path.length < PATH_MAX, 'the path to a leaf does not end');
    const { image } = node;
    const isAbsorbed = path.length > 0 && (node.high & ABSORB) !== 0;
    if (!isInUse(tree, node) || isAbsorbed || isPairFrozen(image)) return undefined;
    const child = childIn(image, key.u8, key.at, key.bytes);
    const link = linkIn(image, child);
    if ((link.high & FROZEN) !== 0) return undefined;
    path.push({ node, lower, upper, child });
    if (!isInternal(link.high)) return path;
    if (child > 0) lower = separatorIn(image, child - 1);
    if (child < childrenIn(image) - 1) upper = separatorIn(image, child);
    node = yield* visit(tree, linkAddress(node.address, child), link);
  }
}

/** Merges a leaf that is under-full with one of its neighbours. */
function* mergeLeafAt(
  tree: ChimeTree,
  step: Step,
  key: KeyAt,
  areWorth = isWorthMerging,
  seen: readonly LeafLook[] = [],
): Operation<boolean> {
  const { node, child } = step;
  // The leaf before it first: then only this leaf's few items move, and the intent is short.
  const others = besideOf(child, childrenIn(node.image));
  const links = [child, ...others].map((i) => leafAt(node.image, i));
  const leaves = areOf(links, seen) ? seen : yield* lookAtLeaves(tree, links);
  for (let i = 0; i < others.length; i++) {
    if (!areWorth(tree, leaves[0].used, leaves[0].used + leaves[i + 1].used)) continue;
    const left = Math.min(child, others[i]);
    const [one, next] = left === child ? [leaves[0], leaves[i + 1]] : [leaves[i + 1], leaves[0]];
    if (!isSibling(one, leafAt(node.image, left + 1))) return yield* addSiblings(tree, step, left);
    const nodes = new NewNodes(tree);
    try {
      // For the parent's copy. Without it the merged leaf could not be freed in a full pool.
      yield* nodes.reserveCopy(node, []);
      // Both live: had they been merged before the mark, the node would be frozen.
      return yield* mergePair(tree, step, key, left, next.used, nodes);
    } finally {
      nodes.discard();
    }
  }
  return false;
}

/** One look at a leaf: how many items it has, and the link to its sibling. */
interface LeafLook {
  leaf: Link;
  used: number;
  sibling: Link;
}

/** Whether these leaves were looked at. */
function areOf(leaves: readonly Link[], looks: readonly LeafLook[]): boolean {
  if (leaves.length !== looks.length) return false;
  return looks.every(({ leaf }, i) => leaf.low === leaves[i].low && leaf.high === leaves[i].high);
}

/** Looks at some leaves, by one READ of each vacancy and the sibling word behind it. */
function* lookAtLeaves(tree: ChimeTree, leaves: readonly Link[]): Operation<LeafLook[]> {
  const { shape, perVacancyBit } = tree.geometry;
  const memory = tree.stepMemories.take();
  const { batch, swaps } = memory;
  batch.clear();
  leaves.forEach(({ low, high }, i) => {
    batch.read(addressOfLink(low, high) + VACANCY_AT, LOOK_BYTES, swaps, LOOK_BYTES * i);
  });
  yield batch;
  const looks = leaves.map((leaf, i) => {
    const at = LOOK_BYTES * i;
    const sibling = { low: lowHalf(swaps, at + 8), high: highHalf(swaps, at + 8) };
    return { leaf, used: usedIn(shape.span, perVacancyBit, swaps, at), sibling };
  });
  tree.stepMemories.give(memory);
  return looks;
}

function isSibling({ sibling }: LeafLook, right: Link): boolean {
  return isSameLeaf(sibling.low, sibling.high, right.low, right.high);
}

/**
 * A full pool may have postponed the links of siblings behind a child. The pair that the node shows
 * cannot be merged before it has them.
 */
function* addSiblings(tree: ChimeTree, step: Step, child: number): Operation<boolean> {
  const u8 = lowerOf(step, child);
  return yield* rebuild(tree, step, { u8, at: 0, bytes: u8.length });
}

function lowerOf({ node, lower }: Step, child: number): Uint8Array {
  return child === 0 ? lower : separatorIn(node.image, child - 1);
}

/** Marks an internal node and the next one as a pair to be merged. */
function* mark({ address, image }: Visit, left: number): Operation<boolean> {
  invariant(left >= 0 && left + 1 < childrenIn(image), 'a node marks a pair that it does not have');
  const isMarked = yield* swapPair(address, childrenIn(image), 0, left + 1);
  if (isMarked) image.i32[(CHILDREN_AT >> 2) + 1] = left + 1;
  return isMarked;
}

function* swapPair(node: number, children: number, from: number, to: number): Operation<boolean> {
  const words = new Scratch(CAS_BYTES);
  setWord(words, 0, children, from);
  setWord(words, 8, children, to);
  yield new Batch().cas(node + CHILDREN_AT, words, 0);
  return swapped(words, 0);
}

/** Merges a node's marked pair of leaves. Removes the mark if they do not fit one leaf. */
function* finishPair(tree: ChimeTree, step: Step, key: KeyAt): Operation<boolean> {
  const { node } = step;
  const left = pairIn(node.image) - 1;
  invariant(left + 1 < childrenIn(node.image), 'a node has marked a pair that it does not have');
  const right = leafAt(node.image, left + 1);
  if (yield* tree.isMerged(right)) return yield* rebuild(tree, step, key);
  const [one, next] = yield* lookAtLeaves(tree, [leafAt(node.image, left), right]);
  if (!isSibling(one, right)) return yield* addSiblings(tree, step, left);
  return yield* mergePair(tree, step, key, left, next.used);
}

/**
 * Merges a pair of leaves that live; `moves` items are in the right one. With `nodes`, in which the
 * parent's copy is reserved, it also marks the pair first.
 */
function* mergePair(
  tree: ChimeTree,
  step: Step,
  key: KeyAt,
  left: number,
  moves: number,
  nodes?: NewNodes,
): Operation<boolean> {
  const { node } = step;
  const [one, next] = [leafAt(node.image, left), leafAt(node.image, left + 1)];
  const pair = { left: one, right: next, lower: lowerOf(step, left), moves };
  const mark = new Mark(tree, node, left, nodes !== undefined);
  if (yield* mergeLeaves(tree, pair, mark)) {
    step.hasMerged = true;
    const isFrozen = nodes !== undefined && mark.hasFrozen;
    if (isFrozen || nodes === undefined) {
      if (yield* dropMerged(tree, step, left + 1, nodes)) return true;
    }
    nodes?.discard();
    return yield* rebuild(tree, step, key);
  }
  // Otherwise the mark is still there, or other clients are changing this node: look again, because
  // after the last of many concurrent deletions, no other client would.
  return !mark.isDropped;
}

/**
 * A faster `rebuildNode` after most merges: replaces the node with a copy that only lacks the
 * merged leaf. With `frozen`, in which the copy is reserved, the node is frozen already. False if
 * another client has begun to replace it.
 */
function* dropMerged(
  tree: ChimeTree,
  step: Step,
  merged: number,
  frozen: NewNodes | undefined,
): Operation<boolean> {
  const { node, remembered } = step;
  const { image } = node;
  const nodes = frozen ?? new NewNodes(tree);
  try {
    if (frozen === undefined) {
      yield* nodes.reserveCopy(node, []);
      if (!(yield* freezePair(tree, node, pairIn(image)))) return false;
    }
    const gone = leafAt(image, merged);
    const { link, routes } = yield* nodes.without(image, merged, node.high & ABSORB);
    // Another client has made a copy, which lacks the leaf as well.
    if (!(yield* publish(tree, node, nodes, link))) return true;
    tree.rebuilds++;
    retireLeaf(tree, gone);
    const linked = yield* swing(tree, node, link, [node]);
    if (linked && remembered !== undefined) rememberCopy(tree, remembered, link, routes);
    return true;
  } finally {
    nodes.discard();
  }
}

function leafAt(image: Scratch, child: number): Link {
  const { low, high } = linkIn(image, child);
  return { low, high: high & ~FROZEN };
}

class Mark implements PairMark {
  isDropped = false;
  readonly #tree: ChimeTree;
  readonly #node: Visit;
  readonly #children: number;
  readonly #pair: number;
  /** Whether this client sets the mark, and freezes the parent behind the merge. */
  readonly #isOwn: boolean;
  /** Whether the mark is known to have been set. */
  #isSet: boolean;
  readonly #words = new Scratch(CAS_BYTES);

  constructor(tree: ChimeTree, node: Visit, left: number, isOwn: boolean) {
    const children = childrenIn(node.image);
    invariant(left >= 0 && left + 1 < children, 'a node marks a pair that it does not have');
    this.#tree = tree;
    this.#node = node;
    this.#children = children;
    this.#pair = left + 1;
    this.#isOwn = isOwn;
    this.#isSet = !isOwn;
  }

  post(batch: Batch): void {
    const { address, image } = this.#node;
    if (this.#isSet) batch.read(address, CHILDREN_AT + 8, image, 0);
    else this.#postSwap(batch, 0, this.#pair);
  }

  #postSwap(batch: Batch, from: number, to: number): void {
    setWord(this.#words, 0, this.#children, from);
    setWord(this.#words, 8, this.#children, to);
    batch.cas(this.#node.address + CHILDREN_AT, this.#words, 0);
  }

  /** A frozen mark stands too: the node's copy inherits it while the right leaf lives. */
  stands(): boolean {
    const { image } = this.#node;
    if (!this.#isSet) {
      // A node whose pair is not frozen is in use.
      this.#isSet = swapped(this.#words, 0);
      if (this.#isSet) setWord(image, CHILDREN_AT, this.#children, this.#pair);
      return this.#isSet;
    }
    const stands = pairIn(image) === this.#pair && childrenIn(image) === this.#children;
    return stands && isInUse(this.#tree, this.#node);
  }

  *drop(): Operation<void> {
    const batch = new Batch();
    this.#postSwap(batch, this.#pair, 0);
    yield batch;
    this.isDropped = true;
  }

  postFreezing(batch: Batch): void {
    if (this.#isOwn) this.#postSwap(batch, this.#pair, this.#pair | PAIR_FROZEN);
  }

  /** After the merge: whether this client has frozen the parent. */
  get hasFrozen(): boolean {
    return swapped(this.#words, 0);
  }
}

/** Merges an internal node of few children with a neighbour. */
function* mergeAt(tree: ChimeTree, above: Step, { node }: Step, key: KeyAt): Operation<boolean> {
  if (!isSparse(tree, childrenIn(node.image))) return false;
  const { image } = above.node;
  const links = linksIn(image);
  for (let i = 1; i < links.length; i += 2) {
    if ((links[i] & ABSORB) !== 0) return yield* absorbSplits(tree, above, key);
  }
  const { child } = above;
  for (const other of [child + 1, child - 1]) {
    if (other < 0 || 2 * other >= links.length) continue;
    const link = { low: links[2 * other], high: links[2 * other + 1] };
    if ((link.high & FROZEN) !== 0) continue;
    const neighbour = yield* visit(tree, linkAddress(above.node.address, other), link);
    if (!isInUse(tree, neighbour)) continue;
    const left = Math.min(child, other);
    const [one, next] = other > child ? [node, neighbour] : [neighbour, node];
    const sizes = joinedSizes(tree, one, separatorIn(image, left), next);
    if (sizes !== undefined) return yield* joinNodes(tree, above, [one, next], left, sizes, key);
  }
  return false;
}

/**
 * Absorbs what splits have left below a node, before two of its children are marked as a pair. The
 * memory reserved for the pair is not enough for both, and in a nearly full pool the node would
 * stay frozen.
 */
function* absorbSplits(tree: ChimeTree, { node, upper }: Step, key: KeyAt): Operation<boolean> {
  const nodes = new NewNodes(tree);
  try {
    yield* reserveFor(nodes, node);
    return (yield* rebuildNode(tree, node, { key, upper }, nodes)) !== undefined;
  } finally {
    nodes.discard();
  }
}

/** Reserves blocks for a copy of a node: one of its size, and one of the next size. */
function* reserveFor(nodes: NewNodes, node: Visit): Operation<void> {
  const size = blockSizeOf(sizeFor(splicedBytes(node.image, [])));
  for (const one of [size, Math.min(size + 1, NODE_SIZE_MAX)]) yield* nodes.reserve(one);
}

/**
 * Sizes of the nodes that replace two internal nodes: a single one if all children fit. Else
 * several, if one of the two has a single child and none of the new ones has: with long separators
 * a node has room for few children.
 */
function joinedSizes(
  { geometry }: ChimeTree,
  left: Visit,
  separator: Uint8Array,
  right: Visit,
): number[] | undefined {
  const { fanout } = geometry.shape;
  const bytes = splicedBytes(left.image, []) + splicedBytes(right.image, []) + separator.length;
  const children = childrenIn(left.image) + childrenIn(right.image);
  // The parts' bytes are rounded up, and count one more header than the whole.
  if (children <= fanout && bytes <= NODE_BYTES_MAX) return [sizeFor(bytes)];
  const [a, b] = [routesOf(left), routesOf(right)];
  const parts = [allOf(a), allOf(b)];
  const routes = { ...joinRoutes(parts, [separator]), pair: 0 };
  if (fitOneNode(routes, fanout)) return [sizeOf(routes)];
  const lonely = a.separators.length === 0 || b.separators.length === 0;
  if (!lonely) return undefined;
  const { nodes } = cutRoutes(routes, fanout);
  return nodes.every((node) => node.separators.length > 0) ? nodes.map(sizeOf) : undefined;
}

/** Marks two internal nodes as a pair, and replaces the node above. */
function* joinNodes(
  tree: ChimeTree,
  { node, upper }: Step,
  pair: readonly Visit[],
  left: number,
  sizes: readonly number[],
  key: KeyAt,
): Operation<boolean> {
  const nodes = new NewNodes(tree);
  try {
    // Before anything is frozen, because a frozen node cannot be changed until this is done.
    for (const size of sizes) yield* nodes.reserve(size);
    yield* reserveFor(nodes, node);
    if (!(yield* mark(node, left))) return false;
    return (yield* rebuildNode(tree, node, { key, upper }, nodes, pair)) !== undefined;
  } finally {
    nodes.discard();
  }
}

/**
 * Merges neighbours that fit one leaf, in a full pool, where splits find no memory. Deletions merge
 * less eagerly, because a nearly full leaf is soon split again. Returns how many leaves it freed.
 */
export function* packLeaves(tree: ChimeTree): Operation<number> {
  const before = tree.merges;
  let from: Uint8Array | undefined = LOWEST;
  while (from !== undefined) from = yield* packAt(tree, from);
  return tree.merges - before;
}

/**
 * Merges the leaf of a key with its neighbours as long as they fit. Returns where the next leaf
 * begins; undefined behind the last one, and where others keep changing a node.
 */
function* packAt(tree: ChimeTree, from: Uint8Array): Operation<Uint8Array | undefined> {
  const key: KeyAt = { u8: from, at: 0, bytes: from.length };
  for (let round = 1; ; round++) {
    yield* tree.reclamation.quiesce();
    const path = yield* orNothing(tree, () => openPathTo(tree, key));
    const step: Step | undefined = path?.at(-1);
    if (step === undefined && round < ROUNDS_MAX) continue;
    if (step === undefined) return undefined;
    const { node, child, upper } = step;
    const isLast = pairIn(node.image) > 0 || round > ROUNDS_MAX;
    const merge = () => mergeLeafAt(tree, step, key, areWorthPacking);
    if (!isLast && (yield* orNothing(tree, merge))) continue;
    return child < childrenIn(node.image) - 1 ? separatorIn(node.image, child) : upper;
  }
}

/** Whether two leaves fit one, with some room to spare, or one is empty. */
function areWorthPacking({ geometry }: ChimeTree, own: number, together: number): boolean {
  const { perVacancyBit, shape } = geometry;
  return 4 * together <= 3 * shape.span || (own === 0 && perVacancyBit === 1);
}
