import { StepwellError } from '../../errors.ts';
import type { Operation } from '../../verbs/index.ts';
import { countOf, makeRoom, type Slots } from './hopscotch.ts';
import type { Routes } from './internal-node.ts';
import type { LeafClient } from './leaf-client.ts';
import type { Halves } from './leaf-entries.ts';
import { LEAF_FLAGS } from './link.ts';
import { type Link, NewNodes, publish, type Visit } from './node-io.ts';
import { frozenSlots } from './plan-node.ts';

/** Errors of a split after which the leaf goes on as it is. */
const OBSTACLES = new Set(['SW_POOL_FULL', 'SW_INDEX_FULL']);

/** How the entries of a leaf become those of two, and what the links to these say. */
export interface LeafHalves extends Halves {
  /** `LEAF_FLAGS` of both, and the flags of the node over them. */
  flags: number;
  flagsOver: number;
}

/** What a leaf was replaced by: a leaf, or an internal node, which says this. */
export interface Replacement {
  to: Link;
  routes: Routes | undefined;
}

/**
 * Replaces a leaf (CHIME sections 2.3 and 4.4, insert) so that the neighbourhood of `home` gets an
 * empty slot. A leaf that is full enough (`splitAt`) is replaced by an internal node over two
 * leaves, which the parent takes up afterwards; another one by a leaf in which entries have hopped,
 * or where no hop leads to that, as a full one. Without a home (less than 0) by the same leaf: who
 * froze it died, and what it wanted does not matter any more.
 *
 *   freeze every slot -> [READ keys] -> D[WRITE leaves; CAS identity -> replacement] -> CAS link
 *
 * There is no lock. Whoever meets a frozen leaf does the same from the same frozen slots; the CAS
 * on its first word decides whose result counts. Until then the old leaf is what is read.
 *
 * Returns what this client has put in its place; undefined when there is more to do.
 */
export function* rebuildLeaf(
  tree: LeafClient,
  leaf: Visit,
  home: number,
): Operation<Replacement | undefined> {
  const nodes = new NewNodes(tree);
  try {
    // Before anything is frozen: with a full pool the leaf stays as it is.
    yield* nodes.reserve(tree.geometry.leafUnits);
    const slots = yield* frozenSlots(tree, leaf);
    const { neighbourhood } = tree.geometry.shape;
    const crowded = home >= 0 && tree.geometry.isCrowded(countOf(slots));
    const full = crowded || (home >= 0 && !makeRoom(slots, home, neighbourhood));
    let obstacle: StepwellError | undefined;
    if (full) {
      const split = yield* splitLeaf(tree, leaf, slots);
      if (!(split instanceof StepwellError)) return split;
      obstacle = split;
    }
    const stuck = full && !(crowded && makeRoom(slots, home, neighbourhood));
    const flags = leaf.high & LEAF_FLAGS;
    const to = nodes.leafAt(yield* nodes.allocateLeaf(), slots, flags);
    if (!(yield* publish(tree, leaf, nodes, to))) return undefined;
    tree.hops++;
    const linked = yield* tree.link(leaf, to);
    if (stuck && obstacle !== undefined) throw obstacle;
    return linked ? { to, routes: undefined } : undefined;
  } finally {
    nodes.discard();
  }
}

/** Returns why it could not be done, if so. */
function* splitLeaf(
  tree: LeafClient,
  leaf: Visit,
  slots: Slots,
): Operation<Replacement | StepwellError | undefined> {
  const nodes = new NewNodes(tree);
  try {
    const { left, right, separator, flags, flagsOver } = yield* tree.halve(leaf, slots);
    const first = nodes.leafAt(yield* nodes.allocateLeaf(), left, flags);
    const second = nodes.leafAt(yield* nodes.allocateLeaf(), right, flags);
    const links = Int32Array.of(first.low, first.high, second.low, second.high);
    const routes = { links, separators: [separator] };
    const to = yield* nodes.internal(routes, flagsOver);
    if (!(yield* publish(tree, leaf, nodes, to))) return undefined;
    tree.splits++;
    tree.entriesAtSplit += countOf(slots);
    return (yield* tree.link(leaf, to)) ? { to, routes } : undefined;
  } catch (error) {
    if (error instanceof StepwellError && OBSTACLES.has(error.code)) return error;
    throw error;
  } finally {
    nodes.discard();
  }
}
