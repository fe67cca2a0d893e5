import { StepwellError } from '../../errors.ts';
import type { Operation } from '../../verbs/index.ts';
import { makeRoom } from './hopscotch.ts';
import { halve } from './leaf-entries.ts';
import { ABSORB } from './link.ts';
import { compacted, countOf } from './merge-leaves.ts';
import { type Link, NewNodes, publish, swing, type Visit } from './node-io.ts';
import { frozenSlots } from './plan-node.ts';
import type { ChimeTree } from './tree.ts';

/**
 * Replaces a leaf (CHIME sections 2.3 and 4.4, insert): by one in which entries have hopped until
 * the neighbourhood of `home` has an empty slot, or, where no hop leads to that, by an internal
 * node over two leaves, which the parent takes up afterwards. Without a home (less than 0) by the
 * same leaf: who froze it died, and what it wanted does not matter any more.
 *
 *   freeze every slot -> [READ keys] -> D[WRITE leaves; CAS identity -> replacement] -> CAS link
 *
 * There is no lock. Whoever meets a frozen leaf does the same from the same frozen slots; the CAS
 * on its first word decides whose result counts. Until then the old leaf is what is read.
 *
 * Returns the one leaf that this client has put in its place; undefined when there is more to do.
 */
export function* rebuildLeaf(
  tree: ChimeTree,
  leaf: Visit,
  home: number,
): Operation<Link | undefined> {
  const nodes = new NewNodes(tree);
  try {
    // Before anything is frozen: with a full pool the leaf stays as it is.
    const address = yield* nodes.allocateLeaf();
    const slots = yield* frozenSlots(tree, leaf);
    const splits = home >= 0 && !makeRoom(slots, home, tree.geometry.shape.neighbourhood);
    if (splits && (yield* split(tree, leaf, slots))) return undefined;
    const link = nodes.leafAt(address, slots);
    if (!(yield* publish(tree, leaf, nodes, link))) return undefined;
    tree.hops++;
    const linked = yield* swing(tree, leaf, link, [leaf]);
    if (splits) throw new StepwellError('SW_POOL_FULL', 'no room to split a leaf');
    return linked ? link : undefined;
  } finally {
    nodes.discard();
  }
}

/**
 * False when there is no memory for it. Both leaves begin with their keys near their homes: kept
 * where hopping had driven them, they would be split again earlier: at 85.8 % of 64 slots, not at
 * 92.5 %.
 */
function* split(tree: ChimeTree, leaf: Visit, slots: Int32Array): Operation<boolean> {
  const nodes = new NewNodes(tree);
  const { neighbourhood } = tree.geometry.shape;
  try {
    const { below, separator } = yield* halve(slots);
    const left = slots.slice();
    const right = slots.slice();
    for (let i = 0; i < slots.length / 2; i++) {
      const other = below.has(i) ? right : left;
      other[2 * i] = 0;
      other[2 * i + 1] = 0;
    }
    const first = nodes.leafAt(yield* nodes.allocateLeaf(), compacted(left, neighbourhood));
    const second = nodes.leafAt(yield* nodes.allocateLeaf(), compacted(right, neighbourhood));
    const links = Int32Array.of(first.low, first.high, second.low, second.high);
    const over = yield* nodes.internal({ links, separators: [separator] }, ABSORB);
    yield* link(tree, leaf, nodes, over, countOf(slots));
    return true;
  } catch (error) {
    if (error instanceof StepwellError && error.code === 'SW_POOL_FULL') return false;
    throw error;
  } finally {
    nodes.discard();
  }
}

function* link(
  tree: ChimeTree,
  leaf: Visit,
  nodes: NewNodes,
  over: Link,
  entries: number,
): Operation<void> {
  if (!(yield* publish(tree, leaf, nodes, over))) return;
  tree.splits++;
  tree.entriesAtSplit += entries;
  yield* swing(tree, leaf, over, [leaf]);
}
