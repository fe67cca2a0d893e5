import { StepwellError } from '../../errors.ts';
import type { Operation } from '../../verbs/index.ts';
import { makeRoom } from './hopscotch.ts';
import type { LeafClient } from './leaf-client.ts';
import { LEAF_FLAGS } from './link.ts';
import { compacted, countOf } from './merge-leaves.ts';
import { type Link, NewNodes, publish, type Visit } from './node-io.ts';
import { frozenSlots } from './plan-node.ts';

/** How the entries of a leaf become those of two. */
export interface Halves {
  /** The entries of the first leaf, by slot. */
  below: Set<number>;
  /** The lowest key of the second, where leaves are in order. */
  separator: Uint8Array;
  /** What the links to both say besides where they lead (`LEAF_FLAGS`), and that of the node over them. */
  flags: number;
  flagsOver: number;
}

/**
 * Replaces a leaf (CHIME sections 2.3 and 4.4, insert): by one in which entries have hopped until
 * the neighbourhood of `home` has an empty slot, or, where no hop leads to that, by an internal
 * node over two leaves, which the parent, or the directory, takes up afterwards. Without a home
 * (less than 0) by the same leaf: who froze it died, and what it wanted does not matter any more.
 *
 *   freeze every slot -> [READ keys] -> D[WRITE leaves; CAS identity -> replacement] -> CAS link
 *
 * There is no lock. Whoever meets a frozen leaf does the same from the same frozen slots; the CAS
 * on its first word decides whose result counts. Until then the old leaf is what is read.
 *
 * Returns the one leaf that this client has put in its place; undefined when there is more to do.
 */
export function* rebuildLeaf(
  tree: LeafClient,
  leaf: Visit,
  home: number,
): Operation<Link | undefined> {
  const nodes = new NewNodes(tree);
  try {
    // Before anything is frozen: with a full pool the leaf stays as it is.
    const address = yield* nodes.allocateLeaf();
    const slots = yield* frozenSlots(tree, leaf);
    const splits = home >= 0 && !makeRoom(slots, home, tree.geometry.shape.neighbourhood);
    const obstacle = splits ? yield* split(tree, leaf, slots) : undefined;
    if (splits && obstacle === undefined) return undefined;
    const link = nodes.leafAt(address, slots, leaf.high & LEAF_FLAGS);
    if (!(yield* publish(tree, leaf, nodes, link))) return undefined;
    tree.hops++;
    const linked = yield* tree.link(leaf, link);
    if (obstacle !== undefined) throw obstacle;
    return linked ? link : undefined;
  } finally {
    nodes.discard();
  }
}

/**
 * Returns why it could not be done. Both leaves begin with their keys near their homes: kept where
 * hopping had driven them, they would be split again earlier: at 85.8 % of 64 slots, not at 92.5 %.
 */
function* split(
  tree: LeafClient,
  leaf: Visit,
  slots: Int32Array,
): Operation<StepwellError | undefined> {
  const nodes = new NewNodes(tree);
  const { neighbourhood } = tree.geometry.shape;
  try {
    const { below, separator, flags, flagsOver } = yield* tree.halve(leaf, slots);
    const left = slots.slice();
    const right = slots.slice();
    for (let i = 0; i < slots.length / 2; i++) {
      const other = below.has(i) ? right : left;
      other[2 * i] = 0;
      other[2 * i + 1] = 0;
    }
    const first = nodes.leafAt(yield* nodes.allocateLeaf(), compacted(left, neighbourhood), flags);
    const second = nodes.leafAt(
      yield* nodes.allocateLeaf(),
      compacted(right, neighbourhood),
      flags,
    );
    const links = Int32Array.of(first.low, first.high, second.low, second.high);
    const over = yield* nodes.internal({ links, separators: [separator] }, flagsOver);
    if (yield* publish(tree, leaf, nodes, over)) {
      tree.splits++;
      tree.entriesAtSplit += countOf(slots);
      yield* tree.link(leaf, over);
    }
    return undefined;
  } catch (error) {
    const { code } = error as StepwellError;
    const full = code === 'SW_POOL_FULL' || code === 'SW_INDEX_FULL';
    if (error instanceof StepwellError && full) return error;
    throw error;
  } finally {
    nodes.discard();
  }
}
