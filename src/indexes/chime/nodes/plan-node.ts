import { invariant } from '../../../errors.ts';
import type { Operation } from '../../../verbs/index.ts';
import { absorbChildren } from './absorb-children.ts';
import type { Routes } from './internal-node.ts';
import { ABSORB, FROZEN, isInternal, type Link } from './link.ts';
import type { NodeClient } from './node-client.ts';
import {
  absorb,
  freeze,
  isAbsorbed,
  isInUse,
  PATH_MAX,
  replacementOf,
  type Visit,
  visit,
} from './node-io.ts';

/**
 * What becomes of the children of a node that is being replaced. It follows from the node's frozen
 * links and from what the absorbed children hold, frozen too: every client that works on the node
 * finds the same plan.
 */
export interface Plan {
  pieces: Piece[];
  /** Between the pieces. */
  separators: Uint8Array[];
}

export type Piece =
  /** A child that stays; `isLeft` of a leaf that is to become one with the next. */
  | { kind: 'child'; link: Link; isLeft: boolean }
  /** The children of two internal nodes that become one. */
  | { kind: 'nodes'; plan: Plan };

/** Most nodes, one below the other, that are absorbed together. */
const DEPTH_MAX = 64;

/** `gone` gets the nodes that are absorbed. */
export function* planOf(
  tree: NodeClient,
  { links, separators, pair }: Routes,
  gone: Link[],
  depth = 0,
): Operation<Plan> {
  invariant(depth < DEPTH_MAX, 'a node is to absorb itself');
  const plan: Plan = { pieces: [], separators: [] };
  const taken = yield* absorbChildren(tree, links, gone);
  for (let child = 0; child < links.length / 2; child++) {
    if (child > 0) plan.separators.push(separators[child - 1]);
    const link = linkAt(links, child);
    const isLeft = child + 1 === pair;
    if ((link.high & ABSORB) !== 0) {
      const routes = taken[child] ?? (yield* close(tree, link, gone, depth)).routes;
      append(plan, yield* planOf(tree, routes, gone, depth + 1));
    } else if (isLeft && isPair(links, child)) {
      const nodes = { left: link, separator: separators[child], right: linkAt(links, child + 1) };
      if (yield* planPair(tree, nodes, plan, gone, depth)) child++;
    } else {
      plan.pieces.push({ kind: 'child', link, isLeft: isLeft && !isInternal(link.high) });
    }
  }
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
  depth: number,
): Operation<boolean> {
  const left = yield* close(tree, pair.left, gone, depth);
  const leftPlan = yield* planOf(tree, left.routes, gone, depth + 1);
  if (left.wasSplit) {
    append(plan, leftPlan);
    return false;
  }
  plan.pieces.push({ kind: 'nodes', plan: leftPlan });
  const right = yield* close(tree, pair.right, gone, depth);
  const rightPlan = yield* planOf(tree, right.routes, gone, depth + 1);
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
  return piece.kind === 'child' && piece.isLeft;
}

function append(plan: Plan, { pieces, separators }: Plan): void {
  plan.pieces.push(...pieces);
  plan.separators.push(...separators);
}

/** A child that its parent has absorbed. */
interface Closed {
  routes: Routes;
  /** Whether it is what a split has left: nodes of the child's own level. */
  wasSplit: boolean;
}

/** Freezes a child that is to be absorbed, or what has replaced it, for good. */
function* close(tree: NodeClient, link: Link, gone: Link[], depth: number): Operation<Closed> {
  for (let round = 1, at = link; ; round++) {
    invariant(round <= PATH_MAX, 'what has replaced a node is not to be found');
    const node = yield* visit(tree, 0, at);
    const inUse = isInUse(tree, node);
    if (!inUse && !isAbsorbed(node)) {
      for (const one of yield* goneWith(tree, node, depth + 1)) gone.push(one);
      at = replacementOf(node);
      continue;
    }
    const routes = yield* freeze(tree, node);
    // When another client was faster, the next look tells what was done.
    if (inUse && !(yield* absorb(tree, node))) continue;
    gone.push(node);
    return { routes, wasSplit: (node.high & ABSORB) !== 0 };
  }
}

/** The nodes that no link leads to any more when a replaced one is unlinked: those it took up. */
export function* goneWith(tree: NodeClient, node: Visit, depth = 0): Operation<Link[]> {
  const gone: Link[] = [node];
  yield* planOf(tree, yield* freeze(tree, node), gone, depth);
  return gone;
}
