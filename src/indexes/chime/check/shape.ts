import type { Operation } from '../../../verbs/index.ts';
import type { IndexShape } from '../../contract.ts';
import { ItemCounts } from '../../substrates/leaf/picture.ts';
import { LeafWalk } from '../scan/leaf-walk.ts';
import type { ChimeTree } from '../tree.ts';

/** Counts by a walk over the leaves, without reading records: no writer makes it fail. */
export function* shapeOf(tree: ChimeTree): Operation<IndexShape> {
  const leaves = new LeafWalk(tree, new Uint8Array(0));
  let subtables = 0;
  const items = new ItemCounts();
  while (leaves.position !== undefined) {
    const leaf = yield* leaves.nextAsItIs();
    subtables++;
    if (leaf !== undefined) items.add(tree, leaf);
  }
  const { span } = tree.geometry.shape;
  const globalDepth = leaves.height;
  leaves.release();
  return { globalDepth, subtables, slots: subtables * span, ...items };
}
