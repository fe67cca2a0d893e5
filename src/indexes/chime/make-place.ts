import type { Operation } from '../../verbs/index.ts';
import { descend } from './descent.ts';
import { isFull } from './leaf-state.ts';
import { ABSORB, addressOfLink, FROZEN, identityHigh, identityLow } from './link.ts';
import { mend } from './mend.ts';
import type { CachedNode } from './node-book.ts';
import { isInUse, linkAddress, type Visit } from './node-io.ts';
import { type Replacement, rebuildLeaf } from './rebuild-leaf.ts';
import type { ChimeRequest, ChimeTree } from './tree.ts';
import type { Workbench } from './workbench.ts';

/**
 * So many of a node's children may be what splits have left before it takes them up, all at once:
 * taking up costs as much for many of them as for one, and leaves their ways one node longer.
 */
const WAITING_MAX = 8;

/**
 * Replaces the leaf that `locate` has just found, whose neighbourhood for the key is full, from
 * where the client stands: without reading the way from the root again.
 *
 *   D[READ leaf; READ first word of the node above] -> see `rebuildLeaf`
 *
 * A link that is known in this epoch leads to the leaf, and a node above that is in use now cannot
 * be used again before this operation has ended, so its link may be written to. False when that is
 * not so, or somebody else is at work there: then the way has to be put in order first.
 */
export function* makePlaceHere(tree: ChimeTree, request: ChimeRequest): Operation<boolean> {
  const parent = descend(tree, request);
  if (parent === undefined || request.leaf === 0) return false;
  const { child } = request;
  if (!tree.cache.isKnown(parent, child) || (request.leafHigh & FROZEN) !== 0) return false;
  const bench = tree.spareBenches.take();
  try {
    const leaf = yield* visitBelow(tree, request, parent, bench);
    if (leaf === undefined || !isFull(tree, leaf, request.home)) return false;
    const replacement = yield* rebuildLeaf(tree, leaf, request.home);
    if (replacement === undefined || !remember(tree, parent, child, leaf, replacement)) {
      return false;
    }
    if (isOverdue(parent)) yield* mend(tree, request);
    return true;
  } finally {
    tree.spareBenches.give(bench);
  }
}

/** Reads the leaf; undefined when it or the node above it is not in use. */
function* visitBelow(
  tree: ChimeTree,
  { leaf: address, leafLow: low, leafHigh: high, child }: ChimeRequest,
  parent: CachedNode,
  { batch, leaf: image }: Workbench,
): Operation<Visit | undefined> {
  const { leafBytes, shape } = tree.geometry;
  const above = addressOfLink(parent.low, parent.high);
  image.ensure(leafBytes + 8);
  batch.clear().read(address, leafBytes, image, 0);
  if (above !== 0) batch.read(above, 8, image, leafBytes);
  yield batch;
  const owner = above === 0 ? tree.root : linkAddress(above, child);
  const borders = parent.bordersOf(child);
  const leaf: Visit = { owner, low, high, address, image, borders };
  if (!isInUse(tree, leaf)) return undefined;
  if (above === 0) return leaf;
  const first = leafBytes >> 2;
  const { low: parentLow, high: parentHigh } = parent;
  const inUse =
    image.i32[first] === identityLow(parentLow, parentHigh, shape.seed) &&
    image.i32[first + 1] === identityHigh(parentLow, parentHigh, shape.seed);
  return inUse ? leaf : undefined;
}

/** False when another lane of this client has remembered something else meanwhile. */
function remember(
  { cache }: ChimeTree,
  parent: CachedNode,
  child: number,
  { low, high }: Visit,
  { to, routes }: Replacement,
): boolean {
  if (!parent.leadsTo(child, low, high)) return false;
  parent.relink(child, to.low, to.high, cache.epoch);
  if (routes) parent.setNode(child, cache.remember(routes, to));
  return true;
}

/** Whether what splits have left in the node, or has been split again, has waited long enough. */
function isOverdue(node: CachedNode): boolean {
  let bearable = (node.high & ABSORB) === 0 ? WAITING_MAX : 0;
  for (let child = 0; child < node.children && bearable >= 0; child++) {
    if ((node.linkHigh(child) & ABSORB) !== 0) bearable--;
  }
  return bearable < 0;
}
