import { invariant } from '../../../errors.ts';
import { CAS_BYTES, type Operation, setWord, swapped } from '../../../verbs/index.ts';
import { allOf, type Children, haveMark, type Routes } from './internal-node.ts';
import { ABSORB, FROZEN, isInternal, type Link, UP } from './link.ts';
import type { NodeClient } from './node-client.ts';
import {
  absorb,
  type ChildVisit,
  freeze,
  freezeAt,
  identityOf,
  isAbsorbed,
  isInUse,
  linkAddress,
  PATH_MAX,
  replacementOf,
  routesOf,
  type Visit,
  visit,
  visitMany,
} from './node-io.ts';

/**
 * What happens to the children of a node that is being replaced. It depends only on frozen words of
 * the node and of the children that it absorbs, so every client finds the same plan.
 */
export interface Plan {
  pieces: Piece[];
  /** Between the pieces. */
  separators: Uint8Array[];
}

export type Piece =
  /** Children that stay. Leaves keep their mark of a pair. */
  | ({ kind: 'children' } & Children)
  /** The children of two internal nodes that become one. */
  | { kind: 'nodes'; plan: Plan };

/** Most nodes, one below the other, that are absorbed together. */
const DEPTH_MAX = 64;

/** `gone` gets the nodes that are absorbed. */
export function* planOf(
  tree: NodeClient,
  routes: Routes,
  gone: Link[],
  seen: readonly Visit[] = [],
  depth = 0,
): Operation<Plan> {
  invariant(depth < DEPTH_MAX, 'a node is to absorb itself');
  const plan: Plan = { pieces: [], separators: [] };
  const { links, separators, pair } = routes;
  if (!isInternal(links[1])) {
    plan.pieces.push({ kind: 'children', ...allOf(routes) });
    return plan;
  }
  const unmarked = { links, separators, pair: 0 };
  const taken = yield* absorbChildren(tree, links, gone);
  const separate = (child: number) => {
    if (child > 0) plan.separators.push(separators.at(child - 1));
  };
  let first = 0;
  const keepUpTo = (end: number) => {
    if (end === first) return;
    separate(first);
    plan.pieces.push({ kind: 'children', routes: unmarked, first, count: end - first });
  };
  for (let child = 0; child < links.length / 2; child++) {
    const link = linkAt(links, child);
    const isToAbsorb = (link.high & ABSORB) !== 0;
    if (!isToAbsorb && !(child + 1 === pair && isPair(links, child))) continue;
    keepUpTo(child);
    separate(child);
    if (isToAbsorb) {
      const below = taken[child] ?? (yield* close(tree, link, gone, seen, depth)).routes;
      append(plan, yield* planOf(tree, below, gone, seen, depth + 1));
    } else {
      const separator = separators.at(child);
      const nodes = { left: link, separator, right: linkAt(links, child + 1) };
      if (yield* planPair(tree, nodes, plan, gone, seen, depth)) child++;
    }
    first = child + 1;
  }
  keepUpTo(links.length / 2);
  const areBetween = plan.separators.length === plan.pieces.length - 1;
  invariant(areBetween, 'a plan lacks a separator between two of its pieces');
  return plan;
}

function linkAt(links: Int32Array, child: number): Link {
  return { low: links[2 * child], high: links[2 * child + 1] & ~FROZEN };
}

/** Whether a child and the one behind it are internal nodes that can become one. */
function isPair(links: Int32Array, child: number): boolean {
  const [high, next] = [links[2 * child + 1], links[2 * child + 3] ?? 0];
  return isInternal(high) && isInternal(next) && ((high | next) & ABSORB) === 0;
}

interface Pair {
  left: Link;
  separator: Uint8Array;
  right: Link;
}

/**
 * Absorbs a pair of internal nodes. False when only the left one was: it has been split since the
 * pair was marked.
 */
function* planPair(
  tree: NodeClient,
  pair: Pair,
  plan: Plan,
  gone: Link[],
  seen: readonly Visit[],
  depth: number,
): Operation<boolean> {
  const left = yield* close(tree, pair.left, gone, seen, depth);
  const leftPlan = yield* planOf(tree, left.routes, gone, seen, depth + 1);
  if (left.wasSplit) {
    append(plan, leftPlan);
    return false;
  }
  plan.pieces.push({ kind: 'nodes', plan: leftPlan });
  const right = yield* close(tree, pair.right, gone, seen, depth);
  const rightPlan = yield* planOf(tree, right.routes, gone, seen, depth + 1);
  if (right.wasSplit) {
    plan.separators.push(pair.separator);
    append(plan, rightPlan);
    return true;
  }
  if (leftPlan.pieces.some(isMarked) && rightPlan.pieces.some(isMarked)) {
    // A node has room for one mark, and none may be lost.
    plan.separators.push(pair.separator);
    plan.pieces.push({ kind: 'nodes', plan: rightPlan });
    return true;
  }
  leftPlan.separators.push(pair.separator);
  append(leftPlan, rightPlan);
  return true;
}

function isMarked(piece: Piece): boolean {
  return piece.kind === 'children' && haveMark(piece);
}

function append(plan: Plan, { pieces, separators }: Plan): void {
  plan.pieces.push(...pieces);
  plan.separators.push(...separators);
}

/** A child that its parent has absorbed. */
interface Closed {
  routes: Routes;
  /** Whether a cut has left it, so that its children are nodes of its own level. */
  wasSplit: boolean;
}

/**
 * Freezes a child or its replacement, and marks it as absorbed. A child that this operation has
 * `seen` in use is not read again: the CAS of its words and of its identity tell if it has changed.
 */
function* close(
  tree: NodeClient,
  link: Link,
  gone: Link[],
  seen: readonly Visit[],
  depth: number,
): Operation<Closed> {
  let known = seen.find(({ low, high }) => low === link.low && high === link.high);
  for (let round = 1, at = link; ; round++) {
    invariant(round <= PATH_MAX, 'what has replaced a node is not to be found');
    const node = known ?? (yield* visit(tree, 0, at));
    known = undefined;
    const inUse = isInUse(tree, node);
    if (!inUse && !isAbsorbed(node)) {
      for (const one of yield* goneWith(tree, node, depth + 1)) gone.push(one);
      at = replacementOf(node);
      continue;
    }
    const routes = yield* freeze(tree, node);
    // Another client was faster: reads the node again to see whether it absorbed or replaced it.
    if (inUse && !(yield* absorb(tree, node))) continue;
    gone.push(node);
    return { routes, wasSplit: (node.high & ABSORB) !== 0 };
  }
}

/** The nodes to retire when a replaced node is unlinked: itself and those that it has absorbed. */
export function* goneWith(tree: NodeClient, node: Visit, depth = 0): Operation<Link[]> {
  const gone: Link[] = [node];
  yield* planOf(tree, yield* freeze(tree, node), gone, [], depth);
  return gone;
}

/**
 * Absorbs all children of a node that are marked ABSORB, in shared doorbells:
 *
 *   D[READ nodes] -> D[CAS FROZEN into their links] -> D[CAS identity -> UP]
 *
 * Returns the routes of each absorbed child, by its number: undefined if there is nothing to
 * absorb, or if the child has been replaced, which `close` follows. Each child goes through the
 * steps of `close`, so a client may die after any verb: the next one finds some of them absorbed.
 */
function* absorbChildren(
  tree: NodeClient,
  links: Int32Array,
  gone: Link[],
): Operation<(Routes | undefined)[]> {
  const taken: (Routes | undefined)[] = [];
  const children: number[] = [];
  for (let child = 0; 2 * child < links.length; child++) {
    if ((links[2 * child + 1] & ABSORB) !== 0) children.push(child);
  }
  if (children.length === 0) return taken;
  const nodes = yield* visitMany(children, links);
  const counts = nodes.filter(({ node }) => isInUse(tree, node) || isAbsorbed(node));
  const routes = counts.map(({ node }) => routesOf(node));
  yield* freezeLinks(tree, counts, routes);
  const done = yield* areAbsorbed(tree, counts);
  counts.forEach(({ child, node }, i) => {
    if (!done[i]) return;
    taken[child] = routes[i];
    gone.push(node);
  });
  return taken;
}

/**
 * Freezes the links of all nodes, and sets `routes` to their final values, without FROZEN. The
 * pairs need no freezing: nodes marked ABSORB are not just above leaves and have no marked pair.
 */
function* freezeLinks(
  tree: NodeClient,
  nodes: readonly ChildVisit[],
  routes: readonly Routes[],
): Operation<void> {
  const words = new Int32Array(routes.reduce((sum, { links }) => sum + links.length, 0));
  const addresses = new Float64Array(words.length / 2);
  let at = 0;
  routes.forEach(({ links }, i) => {
    words.set(links, 2 * at);
    for (let child = 0; 2 * child < links.length; child++) {
      addresses[at++] = linkAddress(nodes[i].node.address, child);
    }
  });
  yield* freezeAt(
    tree,
    (i) => addresses[i],
    words,
    () => FROZEN,
  );
  at = 0;
  for (const { links } of routes) {
    for (let i = 0; i < links.length; i += 2, at++) {
      links[i] = words[2 * at];
      links[i + 1] = words[2 * at + 1] & ~FROZEN;
    }
  }
}

/** Which of the nodes are absorbed for good; the others were replaced before. */
function* areAbsorbed(tree: NodeClient, nodes: readonly ChildVisit[]): Operation<boolean[]> {
  const memory = tree.stepMemories.take();
  try {
    const { batch, swaps } = memory;
    swaps.ensure(CAS_BYTES * nodes.length);
    batch.clear();
    nodes.forEach(({ node }, i) => {
      if (isAbsorbed(node)) return;
      const { low, high } = identityOf(tree, node);
      setWord(swaps, CAS_BYTES * i, low, high);
      setWord(swaps, CAS_BYTES * i + 8, 0, UP);
      batch.cas(node.address, swaps, CAS_BYTES * i);
    });
    if (batch.length > 0) yield batch;
    return nodes.map(({ node }, i) => isAbsorbed(node) || swapped(swaps, CAS_BYTES * i));
  } finally {
    tree.stepMemories.give(memory);
  }
}
