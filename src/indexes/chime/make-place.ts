import { hasCode } from '../../errors.ts';
import { type Operation, setWord } from '../../verbs/index.ts';
import { descend } from './descent.ts';
import { packRoutes } from './internal-node.ts';
import { isFull } from './leaf-state.ts';
import { ABSORB, addressOfLink, FROZEN, identityHigh, identityLow, MARKS } from './link.ts';
import { mend } from './mend.ts';
import type { CachedNode } from './node-book.ts';
import { bytesOf, isInUse, type Link, linkAddress, type Visit } from './node-io.ts';
import { type Replacement, rebuildLeaf } from './rebuild-leaf.ts';
import { rebuildNode } from './rebuild-node.ts';
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
 *   D[READ leaf; READ first words of the leaf and of the node above] -> see `rebuildLeaf`
 *
 * A node that is in use now cannot be used again before this operation has ended, so the leaf can
 * be frozen, and its link in the node above written to. False when one of them is not in use, or
 * somebody else is at work there: then the way has to be put in order first.
 */
export function* makePlaceHere(tree: ChimeTree, request: ChimeRequest): Operation<boolean> {
  const parent = descend(tree, request);
  if (parent === undefined || request.leaf === 0) return false;
  const { child } = request;
  if ((request.leafHigh & FROZEN) !== 0) return false;
  const bench = tree.spareBenches.take();
  try {
    const link = { low: request.leafLow, high: request.leafHigh };
    const leaf = yield* visitBelow(tree, parent, child, link, bench);
    if (leaf === undefined || !isFull(tree, leaf, request.home)) return false;
    const replacement = yield* rebuildLeaf(tree, leaf, request.home);
    if (replacement === undefined || !remember(tree, parent, child, leaf, replacement)) {
      return false;
    }
    if (isOverdue(parent) && !(yield* takeUpHere(tree, request, parent))) {
      yield* mend(tree, request);
    }
    return true;
  } finally {
    tree.spareBenches.give(bench);
  }
}

/**
 * Reads a child of a node; undefined when one of them is not in use. The child's first word is read
 * once more behind it: when that is its identity, all of it was the child's, however old the link.
 */
function* visitBelow(
  tree: ChimeTree,
  parent: CachedNode,
  child: number,
  { low, high }: Link,
  { batch, leaf: image }: Workbench,
): Operation<Visit | undefined> {
  const { shape } = tree.geometry;
  const address = addressOfLink(low, high);
  const bytes = bytesOf(tree, high);
  const above = addressOfLink(parent.low, parent.high);
  image.ensure(bytes + 16);
  batch.clear().read(address, bytes, image, 0).read(address, 8, image, bytes);
  if (above !== 0) batch.read(above, 8, image, bytes + 8);
  yield batch;
  setWord(image, 0, image.i32[bytes >> 2], image.i32[(bytes >> 2) + 1]);
  const owner = above === 0 ? tree.root : linkAddress(above, child);
  const borders = parent.bordersOf(child);
  const node: Visit = { owner, low, high, address, image, borders };
  if (!isInUse(tree, node)) return undefined;
  if (above === 0) return node;
  const first = (bytes >> 2) + 2;
  const { low: parentLow, high: parentHigh } = parent;
  const inUse =
    image.i32[first] === identityLow(parentLow, parentHigh, shape.seed) &&
    image.i32[first + 1] === identityHigh(parentLow, parentHigh, shape.seed);
  return inUse ? node : undefined;
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
  if (routes) parent.setNode(child, cache.remember(packRoutes(routes), to));
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

/**
 * Takes up what splits have left in the node above the request's leaf, and remembers what that has
 * become, as `makePlaceHere` does with a leaf:
 *
 *   D[READ node; READ first words of the node and of the one above] -> see `rebuildNode`
 *
 * A node that a split has left itself is for the one above to take up, with all that is below it.
 */
function* takeUpHere(
  tree: ChimeTree,
  request: ChimeRequest,
  parent: CachedNode,
): Operation<boolean> {
  const way = wayTo(tree, request, parent);
  let at = way.length - 1;
  while (at > 1 && (way[at].high & ABSORB) !== 0) at--;
  if (at < 1) return false;
  const [above, old] = [way[at - 1], way[at]];
  const child = above.childFor(request);
  const link = { low: above.linkLow(child), high: above.linkHigh(child) };
  if ((link.high & MARKS) !== 0) return false;
  const bench = tree.spareBenches.take();
  try {
    const node = yield* visitBelow(tree, above, child, link, bench);
    const rebuilt = node && (yield* rebuildNode(tree, node));
    if (rebuilt?.routes === undefined || !rebuilt.linked) return false;
    if (!above.leadsTo(child, link.low, link.high)) return false;
    const fresh = tree.cache.remember(packRoutes(rebuilt.routes), rebuilt.to);
    above.relink(child, rebuilt.to.low, rebuilt.to.high, tree.cache.epoch);
    above.setNode(child, fresh);
    // Not before: what is between which borders is said by the node above.
    fresh.inherit(old);
    return true;
  } catch (error) {
    // The tree is in order all the same, only its ways are longer: `mend` sees what can be done.
    if (hasCode(error, 'SW_POOL_FULL')) return false;
    throw error;
  } finally {
    tree.spareBenches.give(bench);
  }
}

/** The remembered nodes from the root link to the node above the request's leaf. */
function wayTo({ cache }: ChimeTree, request: ChimeRequest, parent: CachedNode): CachedNode[] {
  const way: CachedNode[] = [];
  for (let node = cache.top; node !== undefined; node = node.node(node.childFor(request))) {
    way.push(node);
    if (node === parent) return way;
  }
  return [];
}
