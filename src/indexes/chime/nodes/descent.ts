import { invariant } from '../../../errors.ts';
import { type Operation, Scratch } from '../../../verbs/index.ts';
import { partOf } from '../../traversal/sample.ts';
import type { NodeCache } from './cache.ts';
import { bytesOfNode, checkNode, PackedSeparators, packedNode } from './internal-node.ts';
import { addressOfLink, INTERNAL, nodeIdentityHigh, nodeIdentityLow, UP } from './link.ts';
import type { CachedNode, RoutedRequest } from './node-arena.ts';
import type { NodeClient } from './node-client.ts';
import { internalLink, PATH_MAX, rootLink } from './node-io.ts';

/**
 * Goes down the remembered internal nodes to the key's leaf, see `NodeArena.descend`. Undefined
 * when not even the root link is remembered.
 */
export function descend({ cache }: NodeClient, request: RoutedRequest): CachedNode | undefined {
  request.leaf = 0;
  const { top } = cache;
  request.above = top && cache.arena.descend(top.at, request);
  return request.above;
}

/**
 * Goes down to the key's leaf, and reads what is not remembered (CHIME section 4.4: 0 to h round
 * trips).
 */
export function* reach(tree: NodeClient, request: RoutedRequest): Operation<void> {
  for (let step = 0; step < PATH_MAX; step++) {
    const node = descend(tree, request);
    if (node !== undefined && request.leaf !== 0) return;
    if (node === undefined) yield* loadRoot(tree);
    else if (!(yield* loadChild(tree, node, request.child))) yield* refresh(tree, request);
  }
  invariant(false, 'the path to a leaf does not end');
}

/** Reads the root link. */
function* loadRoot(tree: NodeClient): Operation<CachedNode> {
  const { low, high } = yield* rootLink(tree);
  const links = Int32Array.of(low, high);
  const top = tree.cache.remember({ links, separators: PackedSeparators.of([]) });
  const older = tree.cache.top;
  if (older) top.inherit(older);
  tree.cache.top = top;
  return top;
}

/**
 * Reads an internal node and remembers it. False when its block may hold something else by now:
 * what remembers the link is too old.
 *
 * The first word is read once more behind the node: when it is the node's identity then, all of the
 * node was. A link that is known leads to the node or to one that has been replaced within this
 * operation, which names its replacement.
 */
function* loadChild(tree: NodeClient, parent: CachedNode, child: number): Operation<boolean> {
  const { low, high } = internalLink({ low: parent.linkLow(child), high: parent.linkHigh(child) });
  const known = tree.cache.isKnown(parent, child);
  const { epoch } = tree.cache;
  const address = addressOfLink(low, high);
  const bytes = bytesOfNode({ high });
  const image = new Scratch(bytes + 8);
  const bench = tree.spareBenches.take();
  const batch = bench.batch.clear().read(address, bytes, image, 0);
  if (!known) batch.read(address, 8, image, bytes);
  yield batch;
  tree.spareBenches.give(bench);
  const first = (known ? 0 : bytes) >> 2;
  const firstLow = image.i32[first];
  const firstHigh = image.i32[first + 1];
  const { seed } = tree.geometry.shape;
  const isNode =
    firstLow === nodeIdentityLow(low, high, seed) &&
    firstHigh === nodeIdentityHigh(low, high, seed);
  if (!isNode && !known) return false;
  // Another lane of this client may have remembered more meanwhile.
  if (!parent.leadsTo(child, low, high)) return true;
  if (isNode || (firstLow === 0 && firstHigh === UP)) {
    checkNode(image, bytes);
    parent.setNode(child, tree.cache.remember(packedNode(image), { low, high }));
    parent.know(child, epoch);
  } else {
    const to = internalLink({ low: firstLow, high: firstHigh });
    parent.relink(child, to.low, to.high, epoch);
  }
  return true;
}

/**
 * Reads the path to the key's leaf anew, from the root on, because what is remembered of it led
 * nowhere. The rest of what is remembered is kept.
 */
export function* refresh(tree: NodeClient, request: RoutedRequest): Operation<void> {
  let older = tree.cache.top;
  let node = yield* loadRoot(tree);
  for (let step = 0; step < PATH_MAX; step++) {
    const child = node.childFor(request);
    if ((node.linkHigh(child) & INTERNAL) === 0) return;
    const olderChild: CachedNode | undefined = older && olderNode(older, request);
    node.setNode(child, undefined);
    yield* loadChild(tree, node, child);
    const next = node.node(child);
    if (next === undefined) continue;
    if (olderChild) next.inherit(olderChild);
    older = olderChild;
    node = next;
  }
  invariant(false, 'the path to a leaf does not end');
}

function olderNode(older: CachedNode, request: RoutedRequest): CachedNode | undefined {
  return older.node(older.childFor(request));
}

/**
 * Leads a request to a place of [0, 1), as far down as is remembered: to a child of a node, if any
 * is remembered. Each node's children have equal shares of the node's, so a leaf below a node with
 * few children is met more often than one below a full node. Returns the place in the child.
 */
export function goToPlace({ top }: NodeCache, place: number, request: RoutedRequest): number {
  let at = place;
  request.above = undefined;
  for (let node = top; node !== undefined; node = node.node(request.child)) {
    const { part, rest } = partOf(at, node.children);
    request.above = node;
    request.child = part;
    at = rest;
  }
  return at;
}
