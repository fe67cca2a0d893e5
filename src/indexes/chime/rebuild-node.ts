import type { Operation } from '../../verbs/index.ts';
import { cutRoutes, type Routes } from './internal-node.ts';
import { ABSORB } from './link.ts';
import { mergeLeaves } from './merge-leaves.ts';
import { type Link, NewNodes, publish, swing, type Visit } from './node-io.ts';
import { frozenRoutes, type Piece, type Plan, planOf } from './plan-node.ts';
import type { ChimeTree } from './tree.ts';

/**
 * Replaces an internal node by one that has the children of those children that splits have left
 * for it to take up (CHIME section 4.4, up-propagation), and one child for each two that are marked
 * to become one; or by several under a new node, which is in its turn for the level above to take
 * up: above the root it is the new root. A root with one child is replaced by the child.
 *
 *   freeze every link -> [READ nodes to take up -> freeze their words -> CAS identity -> UP]
 *     -> D[WRITE nodes; CAS identity -> replacement] -> CAS link
 *
 * As with leaves everybody may do it, from the same frozen links. A node that is being taken up
 * must not be replaced any more by somebody who takes it for one in use: that is what UP is for.
 *
 * `nodes` may have blocks reserved. Returns what this client has made, if its result counts.
 */
export function* rebuildNode(
  tree: ChimeTree,
  node: Visit,
  nodes = new NewNodes(tree),
): Operation<Rebuilt | undefined> {
  try {
    const gone: Link[] = [node];
    const plan = yield* planOf(tree, yield* frozenRoutes(tree, node), gone);
    const { to, routes } = yield* build(tree, nodes, node, plan);
    if (!(yield* publish(tree, node, nodes, to))) return undefined;
    tree.rebuilds++;
    tree.merges += plan.pieces.filter(isMerge).length;
    const linked = yield* swing(tree, node, to, gone);
    return { to, routes, linked };
  } finally {
    nodes.discard();
  }
}

/** What an internal node was replaced by. */
export interface Rebuilt {
  to: Link;
  /** What it says; undefined when it is not one node that has all children. */
  routes: Routes | undefined;
  /** Whether this client has linked it in the node's place as well. */
  linked: boolean;
}

function isMerge(piece: Piece): boolean {
  return piece.kind === 'nodes' || (piece.kind === 'leaves' && piece.slots.length > 1);
}

function* build(
  tree: ChimeTree,
  nodes: NewNodes,
  node: Visit,
  plan: Plan,
): Operation<Omit<Rebuilt, 'linked'>> {
  const routes = yield* construct(tree, nodes, plan);
  const [low, high] = routes.links;
  // Who is the root once is the root for as long as it is in use, so all see the same here.
  const isRoot = node.owner === tree.root;
  const lone = isRoot && routes.links.length === 2 && (high & ABSORB) === 0;
  if (lone) return { to: { low, high }, routes: undefined };
  const to = yield* cutAndStack(tree, nodes, routes, node.high & ABSORB, isRoot);
  const whole = cutRoutes(routes, tree.geometry.shape.fanout).nodes.length === 1;
  return { to, routes: whole ? routes : undefined };
}

/** Writes what a plan makes new; the routes that lead to all of it. */
function* construct(tree: ChimeTree, nodes: NewNodes, plan: Plan): Operation<Routes> {
  const links: number[] = [];
  const separators: Uint8Array[] = [];
  for (let i = 0; i < plan.pieces.length; i++) {
    if (i > 0) separators.push(plan.separators[i - 1]);
    const routes = yield* constructPiece(tree, nodes, plan.pieces[i]);
    links.push(...routes.links);
    separators.push(...routes.separators);
  }
  return { links: Int32Array.from(links), separators };
}

function* constructPiece(tree: ChimeTree, nodes: NewNodes, piece: Piece): Operation<Routes> {
  if (piece.kind === 'child') {
    return { links: Int32Array.of(piece.link.low, piece.link.high), separators: [] };
  }
  if (piece.kind === 'nodes') {
    return yield* cutInto(tree, nodes, yield* construct(tree, nodes, piece.plan));
  }
  const [left, right] = piece.slots;
  const merged = right && (yield* mergeLeaves(tree, left, right, piece.separators[0]));
  const links: number[] = [];
  for (const slots of merged?.leaves ?? [left]) {
    const { low, high } = nodes.leafAt(yield* nodes.allocateLeaf(), slots);
    links.push(low, high);
  }
  return { links: Int32Array.from(links), separators: merged?.separators ?? [] };
}

/** Internal nodes that have these children between them. */
function* cutInto(tree: ChimeTree, nodes: NewNodes, routes: Routes, flags = 0): Operation<Routes> {
  const cut = cutRoutes(routes, tree.geometry.shape.fanout);
  const links: number[] = [];
  for (const piece of cut.nodes) {
    const { low, high } = yield* nodes.internal(piece, flags);
    links.push(low, high);
  }
  return { links: Int32Array.from(links), separators: cut.between };
}

/**
 * One node for the routes if they fit; else several, under as many more as it takes. Those are for
 * the level above to take up; above the root they are levels that the tree has grown by.
 */
export function* cutAndStack(
  tree: ChimeTree,
  nodes: NewNodes,
  routes: Routes,
  flags: number,
  isRoot: boolean,
): Operation<Link> {
  const { fanout } = tree.geometry.shape;
  let level = routes;
  for (let over = flags, inner = 0; ; over = ABSORB, inner = isRoot ? 0 : ABSORB) {
    if (cutRoutes(level, fanout).nodes.length === 1) return yield* nodes.internal(level, over);
    level = yield* cutInto(tree, nodes, level, inner);
  }
}
