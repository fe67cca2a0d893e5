import { invariant } from '../../../errors.ts';
import type { Operation } from '../../../verbs/index.ts';
import {
  allOf,
  type Children,
  childrenIn,
  cutRoutes,
  fitOneNode,
  joinRoutes,
  linkIn,
  PackedSeparators,
  type Routes,
  withChildren,
} from './internal-node.ts';
import { ABSORB, addressOfLink, INTERNAL, isInternal, type Link } from './link.ts';
import type { NodeClient } from './node-client.ts';
import { freeze, NewNodes, publish, routesOf, swing, type Visit } from './node-io.ts';
import { type Plan, planOf } from './plan-node.ts';
import { isAtEnd, type KeyAt, type Target, withSiblings } from './siblings.ts';

/**
 * Replaces an internal node with a copy. The copy takes over the children of those children that
 * splits have left for it to absorb (CHIME section 4.4, up-propagation). Two children that are
 * marked as a pair become one. If all that does not fit one node, several replace it, under a new
 * node that the level above absorbs in turn; above the root this is the new root. A root whose only
 * child is an internal node is replaced by that child.
 *
 *   freeze -> [READ nodes to absorb -> freeze their words -> CAS identity -> UP]
 *     -> D[WRITE nodes; CAS identity -> replacement] -> CAS link
 *
 * Any client may do this, from the same frozen links. UP marks a node whose parent is absorbing it:
 * a client that still takes it for one in use must not replace it.
 *
 * Just above the leaves the copy also gets the siblings of the key's leaf that the node lacks, and
 * loses the link to a merged leaf (siblings.ts). Clients may find different siblings. Each copy is
 * right, and one is published.
 *
 * `nodes` may have blocks reserved; `seen` are children that this operation has read. Returns the
 * copy, if this client's was published.
 */
export function* rebuildNode(
  tree: NodeClient,
  node: Visit,
  target: Target,
  nodes = new NewNodes(tree),
  seen: readonly Visit[] = [],
): Operation<Rebuilt | undefined> {
  try {
    yield* reserve(tree, node, target, nodes);
    const gone: Link[] = [node];
    const frozen = yield* freeze(tree, node);
    const { routes: known, merged } = isInternal(frozen.links[1])
      ? { routes: frozen, merged: undefined }
      : yield* withSiblings(tree, frozen, target);
    invariant(known.links.length > 0, 'a node is replaced by one without a child');
    const { to, routes } = yield* build(tree, nodes, node, known, target.key, gone, seen);
    if (!(yield* publish(tree, node, nodes, to))) return undefined;
    tree.rebuilds++;
    // No path from the root leads there any more; older paths find the identity erased.
    if (merged !== undefined) retireLeaf(tree, merged);
    const linked = yield* swing(tree, node, to, gone);
    return { to, routes, linked };
  } finally {
    nodes.discard();
  }
}

/** Whether the node is a root above a single internal node, which replaces it without a copy. */
function isLone({ root }: NodeClient, { owner, image }: Visit): boolean {
  return owner === root && childrenIn(image) === 1 && isWhole(linkIn(image, 0).high);
}

/** Whether a link leads to an internal node that its parent need not absorb. */
function isWhole(high: number): boolean {
  return isInternal(high) && (high & ABSORB) === 0;
}

/**
 * Claims the memory of the copy, unless the caller has. Before the node is frozen: without that
 * memory it would stay frozen, and no leaf below it could be linked or merged. A full pool may lack
 * the links of many splits, so there the client first reads which siblings the copy gets.
 */
function* reserve(tree: NodeClient, node: Visit, target: Target, nodes: NewNodes): Operation<void> {
  if (nodes.hasReserve || isLone(tree, node)) return;
  if (!tree.allocator.isUsedUp) return yield* nodes.reserveCopy(node);
  const routes = routesOf(node);
  const hasLeaves = !isInternal(routes.links[1]);
  const { routes: copy } = hasLeaves
    ? yield* withSiblings(tree, routes, target)
    : { routes: withOneMore(routes, target) };
  yield* nodes.reserveFor(copy, target.key);
}

/** The routes after a cut is absorbed, estimated without reading it. */
function withOneMore(routes: Routes, { key: { u8, at, bytes } }: Target): Routes {
  const { links, separators } = routes;
  if (!links.some((high, i) => i % 2 === 1 && (high & ABSORB) !== 0)) return routes;
  const separator = u8.subarray(at, at + bytes);
  const one = { link: { low: 0, high: INTERNAL }, separator };
  return withChildren(routes, separators.childOf(u8, at, bytes), [one]);
}

/** Retires a leaf that was merged. The client that publishes a node without it does this. */
export function retireLeaf(
  { reclamation, geometry, catalog }: NodeClient,
  { low, high }: Link,
): void {
  reclamation.retire(addressOfLink(low, high), geometry.leafUnits, catalog);
}

/** What an internal node was replaced by. */
export interface Rebuilt {
  to: Link;
  /** Its routes; undefined when it is not one node that has all children. */
  routes: Routes | undefined;
  /** Whether this client has linked it in the node's place as well. */
  linked: boolean;
}

function* build(
  tree: NodeClient,
  nodes: NewNodes,
  node: Visit,
  known: Routes,
  key: KeyAt,
  gone: Link[],
  seen: readonly Visit[],
): Operation<Omit<Rebuilt, 'linked'>> {
  // Leaves are not absorbed, so there is nothing to plan.
  const routes = isInternal(known.links[1])
    ? yield* construct(tree, nodes, yield* planOf(tree, known, gone, seen))
    : known;
  const [low, high] = routes.links;
  // A root stays the root while it is in use, so all clients decide the same here.
  const isRoot = node.owner === tree.root;
  const lone = isRoot && routes.links.length === 2 && isWhole(high);
  if (lone) return { to: { low, high }, routes: undefined };
  const to = yield* cutAndStack(tree, nodes, routes, node.high & ABSORB, isRoot, key);
  const whole = fitOneNode(routes, tree.geometry.shape.fanout);
  return { to, routes: whole ? routes : undefined };
}

/** Writes the new nodes of a plan; returns the routes to all its pieces. */
function* construct(tree: NodeClient, nodes: NewNodes, plan: Plan): Operation<Routes> {
  const parts: Children[] = [];
  for (const piece of plan.pieces) {
    if (piece.kind === 'children') parts.push(piece);
    else parts.push(allOf(yield* cutInto(tree, nodes, yield* construct(tree, nodes, piece.plan))));
  }
  return joinRoutes(parts, plan.separators);
}

/** Divides these children among as many internal nodes as they need. */
function* cutInto(
  tree: NodeClient,
  nodes: NewNodes,
  routes: Routes,
  flags = 0,
  ascends = false,
): Operation<Routes> {
  const cut = cutRoutes(routes, tree.geometry.shape.fanout, ascends);
  const links: number[] = [];
  for (const piece of cut.nodes) {
    const { low, high } = yield* nodes.internal(piece, flags);
    links.push(low, high);
  }
  const separators = PackedSeparators.of(cut.between);
  return { links: Int32Array.from(links), separators, pair: 0 };
}

/**
 * Writes one node for the routes if they fit; else several, under as many levels as they need. The
 * level above absorbs these levels; above the root the tree grows by them.
 */
export function* cutAndStack(
  tree: NodeClient,
  nodes: NewNodes,
  routes: Routes,
  flags: number,
  isRoot: boolean,
  key?: KeyAt,
): Operation<Link> {
  const { fanout } = tree.geometry.shape;
  let level = routes;
  for (let over = flags, inner = 0; ; over = ABSORB, inner = isRoot ? 0 : ABSORB) {
    if (fitOneNode(level, fanout)) return yield* nodes.internal(level, over);
    const ascends = key !== undefined && isAtEnd(level, key);
    level = yield* cutInto(tree, nodes, level, inner, ascends);
  }
}
