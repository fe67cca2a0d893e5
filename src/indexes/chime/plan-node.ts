import type { Operation } from '../../verbs/index.ts';
import type { Routes } from './internal-node.ts';
import type { LeafClient } from './leaf-client.ts';
import { thaw } from './leaf-entries.ts';
import { ABSORB, FROZEN, MARKS, MERGE } from './link.ts';
import {
  freeze,
  isInternal,
  isInUse,
  isTakenUp,
  type Link,
  linkAddress,
  replacementOf,
  routesOf,
  slotsAddress,
  slotsOf,
  takeUp,
  type Visit,
  visit,
} from './node-io.ts';
import { takeUpAbsorbed } from './take-up.ts';
import type { ChimeTree } from './tree.ts';

/**
 * What becomes of the children of a node that is being replaced. It follows from the node's frozen
 * links and from what the taken up children hold, frozen too: whoever works on the node finds the
 * same plan.
 */
export interface Plan {
  pieces: Piece[];
  /** Between the pieces. */
  separators: Uint8Array[];
}

export type Piece =
  /** A child that stays. */
  | { kind: 'child'; link: Link }
  /** The entries of one leaf, or of two that become one: see `mergeLeaves`. */
  | { kind: 'leaves'; slots: Int32Array[]; separators: Uint8Array[] }
  /** The children of one internal node, or of two that become one. */
  | { kind: 'nodes'; plan: Plan };

/** `gone` gets the nodes that are taken up. */
export function* planOf(
  tree: ChimeTree,
  { links, separators }: Routes,
  gone: Link[],
): Operation<Plan> {
  const plan: Plan = { pieces: [], separators: [] };
  const taken = yield* takeUpAbsorbed(tree, links, gone);
  for (let child = 0; child < links.length / 2; child++) {
    if (child > 0) plan.separators.push(separators[child - 1]);
    const link = linkAt(links, child);
    if ((link.high & ABSORB) !== 0) {
      const routes = taken[child] ?? (yield* close(tree, link, gone)).routes;
      append(plan, yield* planOf(tree, routes as Routes, gone));
    } else if (isPair(links, child)) {
      const pair = { left: link, separator: separators[child], right: linkAt(links, child + 1) };
      if (yield* planPair(tree, pair, plan, gone)) child++;
    } else {
      plan.pieces.push({ kind: 'child', link });
    }
  }
  return plan;
}

function linkAt(links: Int32Array, child: number): Link {
  return { low: links[2 * child], high: links[2 * child + 1] & ~MARKS };
}

/** Whether a child and the one behind it are to become one, and still can. */
function isPair(links: Int32Array, child: number): boolean {
  if ((links[2 * child + 1] & MERGE) === 0 || 2 * child + 3 >= links.length) return false;
  return areAlike(links[2 * child + 1], links[2 * child + 3]);
}

/** Two leaves, or two internal nodes; none that a split has left. */
export function areAlike(high: number, other: number): boolean {
  return ((high | other) & ABSORB) === 0 && isInternal(high) === isInternal(other);
}

interface Pair {
  left: Link;
  separator: Uint8Array;
  right: Link;
}

/**
 * Takes up a pair of children (no counterpart in the paper, whose leaves are never merged). False
 * when only the left one was: it has been split since the pair was marked.
 */
function* planPair(tree: ChimeTree, pair: Pair, plan: Plan, gone: Link[]): Operation<boolean> {
  const left = yield* close(tree, pair.left, gone);
  if (left.wasSplit) {
    append(plan, yield* planOf(tree, left.routes as Routes, gone));
    return false;
  }
  const piece = yield* pieceOf(tree, left, gone);
  plan.pieces.push(piece);
  const right = yield* close(tree, pair.right, gone);
  if (right.wasSplit) {
    plan.separators.push(pair.separator);
    append(plan, yield* planOf(tree, right.routes as Routes, gone));
    return true;
  }
  join(piece, pair.separator, yield* pieceOf(tree, right, gone));
  return true;
}

function* pieceOf(tree: ChimeTree, { slots, routes }: Closed, gone: Link[]): Operation<Piece> {
  if (slots !== undefined) return { kind: 'leaves', slots: [slots], separators: [] };
  return { kind: 'nodes', plan: yield* planOf(tree, routes as Routes, gone) };
}

function join(left: Piece, separator: Uint8Array, right: Piece): void {
  if (left.kind === 'leaves' && right.kind === 'leaves') {
    left.slots.push(...right.slots);
    left.separators.push(separator);
  } else if (left.kind === 'nodes' && right.kind === 'nodes') {
    left.plan.separators.push(separator);
    append(left.plan, right.plan);
  }
}

function append(plan: Plan, { pieces, separators }: Plan): void {
  plan.pieces.push(...pieces);
  plan.separators.push(...separators);
}

/** A child that its parent has taken up: what a leaf holds, or an internal node says. */
interface Closed {
  slots: Int32Array | undefined;
  routes: Routes | undefined;
  /** Whether it is what a split has left: nodes of the child's own level. */
  wasSplit: boolean;
}

/** Freezes a child that is to be taken up, or what has replaced it, for good. */
function* close(tree: ChimeTree, link: Link, gone: Link[]): Operation<Closed> {
  for (let round = 1, at = link; ; round++) {
    tree.giveUpAfter(round);
    const node = yield* visit(tree, 0, at);
    const inUse = isInUse(tree, node);
    if (!inUse && !isTakenUp(node)) {
      for (const one of yield* goneWith(tree, node)) gone.push(one);
      at = replacementOf(node);
      continue;
    }
    const internal = isInternal(node.high);
    const routes = internal ? yield* frozenRoutes(tree, node) : undefined;
    const slots = internal ? undefined : yield* frozenSlots(tree, node);
    // When somebody else was faster, the next look tells what was done.
    if (inUse && !(yield* takeUp(tree, node))) continue;
    gone.push(node);
    return { slots, routes, wasSplit: (node.high & ABSORB) !== 0 };
  }
}

/** The node's routes when nobody can change them any more; the links are without FROZEN. */
export function* frozenRoutes(tree: ChimeTree, node: Visit): Operation<Routes> {
  const { links, separators } = routesOf(node);
  yield* freeze(tree, linkAddress(node.address, 0), links);
  for (let i = 1; i < links.length; i += 2) links[i] &= ~FROZEN;
  return { links, separators };
}

/** The leaf's committed entries when nobody can change them any more. */
export function* frozenSlots(tree: LeafClient, leaf: Visit): Operation<Int32Array> {
  const slots = slotsOf(tree, leaf);
  yield* freeze(tree, slotsAddress(leaf), slots);
  thaw(slots);
  return slots;
}

/** The nodes that nobody links to any more when a replaced one is unlinked: those it took up. */
export function* goneWith(tree: ChimeTree, node: Visit): Operation<Link[]> {
  const gone: Link[] = [node];
  if (isInternal(node.high)) yield* planOf(tree, yield* frozenRoutes(tree, node), gone);
  return gone;
}
