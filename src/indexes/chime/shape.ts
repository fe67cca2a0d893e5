import type { Operation } from '../../verbs/index.ts';
import type { IndexShape } from '../contract.ts';
import { LeafWalk } from './leaf-walk.ts';
import { isLive } from './slot.ts';
import type { ChimeTree } from './tree.ts';

/** Counts by a walk over the leaves, without reading records. */
export function* shapeOf(tree: ChimeTree): Operation<IndexShape> {
  tree.cache.begin();
  const leaves = new LeafWalk(tree, new Uint8Array(0));
  let subtables = 0;
  let records = 0;
  while (leaves.position !== undefined) {
    const { slots } = yield* leaves.next();
    subtables++;
    for (let i = 0; i < slots.length; i += 2) if (isLive(slots[i], slots[i + 1])) records++;
  }
  const { span } = tree.geometry.shape;
  return { globalDepth: leaves.height, subtables, slots: subtables * span, records };
}
