import type { Operation } from '../../verbs/index.ts';
import { cutRoutes, type Routes } from './internal-node.ts';
import { ABSORB, FROZEN } from './link.ts';
import {
  freeze,
  goneWith,
  isInUse,
  isTakenUp,
  type Link,
  linkAddress,
  NewNodes,
  publish,
  replacementOf,
  routesOf,
  swing,
  takeUp,
  type Visit,
  visit,
} from './node-io.ts';
import type { ChimeTree } from './tree.ts';

/**
 * Replaces an internal node by one that has the children of those children that splits have left
 * for it to take up (CHIME section 4.4, up-propagation), or by several under a new node, which is
 * in its turn for the level above to take up; above the root it is the new root.
 *
 *   freeze every link -> for each node to take up: READ; freeze its links; CAS identity -> UP
 *     -> D[WRITE nodes; CAS identity -> replacement] -> CAS link
 *
 * As with leaves everybody may do it, from the same frozen links. A node that is being taken up
 * must not be replaced any more by somebody who takes it for one in use: that is what UP is for.
 */
export function* rebuildNode(tree: ChimeTree, node: Visit): Operation<void> {
  const routes = yield* frozenRoutes(tree, node);
  const gone: Link[] = [node];
  const { links, separators } = yield* flatten(tree, routes, gone);
  const nodes = new NewNodes(tree);
  try {
    const link = yield* build(tree, nodes, { links, separators }, node.high & ABSORB);
    if (!(yield* publish(tree, node, nodes, link))) return;
    tree.rebuilds++;
    yield* swing(tree, node, link, gone);
  } finally {
    nodes.discard();
  }
}

/** The node's routes when nobody can change them any more; the links are without FROZEN. */
function* frozenRoutes(tree: ChimeTree, node: Visit): Operation<Routes> {
  const { links, separators } = routesOf(node);
  yield* freeze(tree, linkAddress(node.address, 0), links);
  for (let i = 1; i < links.length; i += 2) links[i] &= ~FROZEN;
  return { links, separators };
}

/** In place of each child that is to be taken up, its children; `gone` gets the taken up ones. */
function* flatten(tree: ChimeTree, { links, separators }: Routes, gone: Link[]): Operation<Routes> {
  const flat: number[] = [];
  const between: Uint8Array[] = [];
  for (let child = 0; child < links.length / 2; child++) {
    if (child > 0) between.push(separators[child - 1]);
    const link = { low: links[2 * child], high: links[2 * child + 1] };
    if ((link.high & ABSORB) === 0) {
      flat.push(link.low, link.high);
      continue;
    }
    const inner = yield* flatten(tree, yield* close(tree, link, gone), gone);
    flat.push(...inner.links);
    between.push(...inner.separators);
  }
  return { links: Int32Array.from(flat), separators: between };
}

/** Freezes a child that is to be taken up, or what has replaced it, for good. */
function* close(tree: ChimeTree, link: Link, gone: Link[]): Operation<Routes> {
  for (let round = 1, at = link; ; round++) {
    tree.giveUpAfter(round);
    const node = yield* visit(tree, 0, at);
    if (isInUse(tree, node)) {
      const routes = yield* frozenRoutes(tree, node);
      // When somebody else was faster, the next look tells what was done.
      if (!(yield* takeUp(tree, node))) continue;
      gone.push(node);
      return routes;
    }
    if (isTakenUp(node)) {
      gone.push(node);
      return yield* frozenRoutes(tree, node);
    }
    for (const one of yield* goneWith(tree, node)) gone.push(one);
    at = replacementOf(node);
  }
}

/** One node for the routes if they fit; else several, under as many more as it takes. */
function* build(tree: ChimeTree, nodes: NewNodes, routes: Routes, flags: number): Operation<Link> {
  const cut = cutRoutes(routes, tree.geometry.shape.fanout);
  if (cut.nodes.length === 1) return yield* nodes.internal(routes, flags);
  const links: number[] = [];
  for (const piece of cut.nodes) {
    const { low, high } = yield* nodes.internal(piece, 0);
    links.push(low, high);
  }
  const above = { links: Int32Array.from(links), separators: cut.between };
  return yield* build(tree, nodes, above, ABSORB);
}
