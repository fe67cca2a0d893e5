import { StepwellError } from '../../errors.ts';
import type { Operation } from '../../verbs/index.ts';
import { countOf, makeRoom, type Slots } from './hopscotch.ts';
import type { Routes } from './internal-node.ts';
import { halve } from './leaf-entries.ts';
import { ABSORB } from './link.ts';
import { type Link, NewNodes, publish, swing, type Visit } from './node-io.ts';
import { frozenSlots } from './plan-node.ts';
import type { ChimeTree } from './tree.ts';

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
  tree: ChimeTree,
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
    if (full) {
      const split = yield* splitLeaf(tree, leaf, slots);
      if (split !== 'no memory') return split;
    }
    const stuck = full && !(crowded && makeRoom(slots, home, neighbourhood));
    const to = nodes.leafAt(yield* nodes.allocateLeaf(), slots);
    if (!(yield* publish(tree, leaf, nodes, to))) return undefined;
    tree.hops++;
    const linked = yield* swing(tree, leaf, to, [leaf]);
    if (stuck) throw new StepwellError('SW_POOL_FULL', 'no room to split a leaf');
    return linked ? { to, routes: undefined } : undefined;
  } finally {
    nodes.discard();
  }
}

function* splitLeaf(
  tree: ChimeTree,
  leaf: Visit,
  slots: Slots,
): Operation<Replacement | undefined | 'no memory'> {
  const nodes = new NewNodes(tree);
  try {
    const { left, right, separator } = yield* halve(tree, slots);
    const first = nodes.leafAt(yield* nodes.allocateLeaf(), left);
    const second = nodes.leafAt(yield* nodes.allocateLeaf(), right);
    const links = Int32Array.of(first.low, first.high, second.low, second.high);
    const routes = { links, separators: [separator] };
    const to = yield* nodes.internal(routes, ABSORB);
    if (!(yield* publish(tree, leaf, nodes, to))) return undefined;
    tree.splits++;
    tree.entriesAtSplit += countOf(slots);
    return (yield* swing(tree, leaf, to, [leaf])) ? { to, routes } : undefined;
  } catch (error) {
    if (error instanceof StepwellError && error.code === 'SW_POOL_FULL') return 'no memory';
    throw error;
  } finally {
    nodes.discard();
  }
}
