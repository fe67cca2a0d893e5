import { StepwellError } from '../../errors.ts';
import { Batch, CAS_BYTES, type Operation, Scratch, setWord, swapped } from '../../verbs/index.ts';
import { SLOTS_AT, unitsBeside } from './geometry.ts';
import { childIn, childrenIn, cutRoutes, linkIn } from './internal-node.ts';
import { NEIGHBOURS_AT } from './leaf-client.ts';
import { ABSORB, FROZEN, MARKS, MERGE, sizeOfLink } from './link.ts';
import { type KeyAt, keyOf, mendWay, rootLink } from './mend.ts';
import {
  isInternal,
  isInUse,
  type Link,
  linkAddress,
  NewNodes,
  routesOf,
  type Visit,
  visit,
} from './node-io.ts';
import { areAlike } from './plan-node.ts';
import { rebuildNode } from './rebuild-node.ts';
import { isLive, isVacant } from './slot.ts';
import type { ChimeRequest, ChimeTree } from './tree.ts';

/** Each round makes two nodes one or the tree lower; what is left is for the next deletion. */
const ROUNDS_MAX = 8;

/** A node on the way to a leaf, and which child of the one above it is. */
interface Step {
  node: Visit;
  child: number;
  above: Link;
}

/**
 * Gives back memory on the way to a key that was deleted: an under-full leaf or node becomes one
 * with a neighbour below the same parent, or gets its share of the neighbour's (the paper's leaves
 * are never merged). The pair is marked in the parent, then the parent is replaced; from the mark
 * on whoever replaces it completes the merge.
 *
 *   READ leaf -> READ the way -> READ neighbours -> CAS link: mark -> see `rebuildNode`
 *
 * Only for memory: when it cannot be done, nothing is lost.
 */
export function* tidy(tree: ChimeTree, request: ChimeRequest): Operation<void> {
  if (!leftEmpty(tree, request) || isRoot(tree, request)) return;
  const { leafLow: low, leafHigh: high } = request;
  const leaf = yield* visit(tree, 0, { low, high });
  if (!isUnderFull(tree, leaf, sizeOf(tree, leaf))) return;
  yield* tidyWay(tree, keyOf(request));
}

/** As `tidy`, for removals that were in flight together: see `Removals`. */
export function* tidyTogether(tree: ChimeTree, request: ChimeRequest): Operation<void> {
  tree.removals.note(request.leaf, keyOf(request));
  for (const key of tree.removals.due()) yield* tidyWay(tree, key);
}

function* tidyWay(tree: ChimeTree, key: KeyAt): Operation<void> {
  try {
    for (let round = 1; round <= ROUNDS_MAX; round++) if (!(yield* tidyOnce(tree, key))) return;
  } catch (error) {
    const { code } = error as StepwellError;
    const harmless = code === 'SW_POOL_FULL' || code === 'SW_CONTENTION';
    if (!(error instanceof StepwellError && harmless)) throw error;
  }
}

/**
 * Whether the deletion of the request's entry left its neighbourhood empty, but for one in sixteen:
 * a hint, and cheap.
 */
function leftEmpty(tree: ChimeTree, { words, slotAt }: ChimeRequest): boolean {
  const end = NEIGHBOURS_AT + tree.geometry.neighbourhoodBytes;
  let others = 0;
  for (let at = NEIGHBOURS_AT; at < end; at += 8) {
    if (at !== slotAt && !isVacant(words.i32[at >> 2], words.i32[(at >> 2) + 1])) others++;
  }
  return 16 * others <= tree.geometry.shape.neighbourhood;
}

/** Whether the leaf of the request, as far as is remembered, is all there is. */
function isRoot({ cache }: ChimeTree, { leafLow, leafHigh }: ChimeRequest): boolean {
  return cache.top?.leadsTo(0, leafLow, leafHigh) ?? false;
}

/** One way down to a key; whether something was merged. */
export function* tidyOnce(tree: ChimeTree, key: KeyAt): Operation<boolean> {
  let way = yield* wayTo(tree, key);
  if (way === undefined) {
    yield* mendWay(tree, key, -1);
    way = yield* wayTo(tree, key);
  }
  if (way === undefined) return false;
  const marked = way.findIndex(({ above }) => (above.high & MERGE) !== 0);
  if (marked >= 0) return (yield* rebuildNode(tree, way[marked - 1].node)) !== undefined;
  const [{ node: root }] = way;
  if (isInternal(root.high) && sizeOf(tree, root) === 1) {
    return (yield* rebuildNode(tree, root)) !== undefined;
  }
  for (let level = 1; level < way.length; level++) {
    if (yield* mergeAt(tree, way[level - 1].node, way[level])) return true;
  }
  return false;
}

/** Undefined when something on the way is being changed. */
function* wayTo(tree: ChimeTree, key: KeyAt): Operation<Step[] | undefined> {
  const way: Step[] = [];
  let node = yield* visit(tree, tree.root, yield* rootLink(tree));
  let above: Link = { low: 0, high: 0 };
  for (let child = 0; ; ) {
    const onRoot = way.length === 0;
    if (!isInUse(tree, node) || (!onRoot && (node.high & ABSORB) !== 0)) return undefined;
    way.push({ node, child, above });
    if (!isInternal(node.high)) return way;
    child = childIn(node.image, key.u8, key.at, key.bytes);
    const link = linkIn(node.image, child);
    if ((link.high & FROZEN) !== 0) return undefined;
    above = link;
    node = yield* visit(tree, linkAddress(node.address, child), link);
  }
}

/** Merges a node that is under-full with one of its neighbours. */
function* mergeAt(tree: ChimeTree, above: Visit, { node, child }: Step): Operation<boolean> {
  const size = sizeOf(tree, node);
  if (!isUnderFull(tree, node, size)) return false;
  const { links, separators } = routesOf(above);
  // Whoever marked another pair completes it, or who comes by there next.
  if (hasMarked(links, MERGE)) return false;
  if (hasMarked(links, ABSORB)) return yield* takeUpSplits(tree, above);
  for (const other of [child + 1, child - 1]) {
    if (other < 0 || 2 * other >= links.length) continue;
    const link = { low: links[2 * other], high: links[2 * other + 1] };
    if ((link.high & MARKS) !== 0 || !areAlike(link.high, node.high)) continue;
    const neighbour = yield* visit(tree, linkAddress(above.address, other), link);
    if (!isInUse(tree, neighbour)) continue;
    const first = Math.min(child, other);
    const [left, right] = other > child ? [node, neighbour] : [neighbour, node];
    const worthwhile = isInternal(node.high)
      ? areBetterJoined(tree, left, separators[first], right)
      : isWorthwhile(tree, size, sizeOf(tree, neighbour));
    if (worthwhile) return yield* merge(tree, above, first);
  }
  return false;
}

function hasMarked(links: Int32Array, mark: number): boolean {
  for (let i = 1; i < links.length; i += 2) if ((links[i] & mark) !== 0) return true;
  return false;
}

/**
 * Takes up what splits have left in a node before two of its children are marked to become one:
 * what is reserved for that would not be enough for both, and in a nearly full pool the node would
 * stay frozen.
 */
function* takeUpSplits(tree: ChimeTree, node: Visit): Operation<boolean> {
  const nodes = new NewNodes(tree);
  try {
    const size = sizeOfLink(node.high);
    for (const larger of [0, 1]) yield* nodes.reserve(unitsBeside(1 << (size + larger)));
    return (yield* rebuildNode(tree, node, nodes)) !== undefined;
  } finally {
    nodes.discard();
  }
}

/** Entries of a leaf, or children of an internal node. */
function sizeOf({ geometry }: ChimeTree, node: Visit): number {
  const { i32 } = node.image;
  if (isInternal(node.high)) return childrenIn(node.image);
  let count = 0;
  for (let word = SLOTS_AT >> 2; word < geometry.leafBytes >> 2; word += 2) {
    if (isLive(i32[word], i32[word + 1])) count++;
  }
  return count;
}

function isUnderFull({ geometry }: ChimeTree, { high }: Visit, size: number): boolean {
  const { span, fanout } = geometry.shape;
  return isInternal(high) ? size === 1 || 4 * size <= fanout : 4 * size <= span;
}

/** Whether two leaves fit one well, or the one is so poor that sharing out is worth it. */
function isWorthwhile({ geometry }: ChimeTree, a: number, b: number): boolean {
  const { span } = geometry.shape;
  return 2 * (a + b) <= span || 8 * a <= span;
}

/**
 * Whether two internal nodes fit one, or sharing out leaves none with a single child: with long
 * separators a few children are all that a node has room for.
 */
function areBetterJoined(
  { geometry }: ChimeTree,
  left: Visit,
  separator: Uint8Array,
  right: Visit,
): boolean {
  const [a, b] = [routesOf(left), routesOf(right)];
  const links = Int32Array.of(...a.links, ...b.links);
  const separators = [...a.separators, separator, ...b.separators];
  const { nodes } = cutRoutes({ links, separators }, geometry.shape.fanout);
  if (nodes.length === 1) return true;
  const lonely = a.separators.length === 0 || b.separators.length === 0;
  return lonely && nodes.every((node) => node.separators.length > 0);
}

/** Marks a child of a node to become one with the next one, and replaces the node. */
function* merge(tree: ChimeTree, above: Visit, child: number): Operation<boolean> {
  const nodes = new NewNodes(tree);
  try {
    // Before anything is frozen: what is taken up cannot be written to until this is done.
    for (let i = 0; i < 2; i++) yield* nodes.reserve(tree.geometry.leafUnits);
    yield* nodes.reserve(unitsBeside(1 << sizeOfLink(above.high)));
    const { links } = routesOf(above);
    const words = new Scratch(CAS_BYTES);
    setWord(words, 0, links[2 * child], links[2 * child + 1]);
    setWord(words, 8, links[2 * child], links[2 * child + 1] | MERGE);
    yield new Batch().cas(linkAddress(above.address, child), words, 0);
    if (!swapped(words, 0)) return false;
    return (yield* rebuildNode(tree, above, nodes)) !== undefined;
  } finally {
    nodes.discard();
  }
}
