import type { Operation } from '../../../verbs/index.ts';
import type { ChimeTree } from '../tree.ts';
import { cursorOf } from './cursor-keys.ts';
import { LeafWalk } from './leaf-walk.ts';

const LOWEST = new Uint8Array(0);

/**
 * The key that a cursor stands for: one that this client gave out, else a separator that it
 * remembers, else one in the tree. A separator that another client's walk stopped at may have gone
 * since, when leaves were merged: then the walk begins anew, so that it misses nothing.
 */
export function* findPosition(tree: ChimeTree, cursor: number): Operation<Uint8Array> {
  const given = tree.cursors.recall(cursor);
  if (given !== undefined) return given;
  const { seed } = tree.geometry.shape;
  const leaves = new LeafWalk(tree, LOWEST);
  while (leaves.position !== undefined) {
    if (cursorOf(leaves.position, seed) === cursor) return leaves.position;
    yield* leaves.skip();
  }
  // A leaf that was split may not be linked in two yet.
  const fresh = new LeafWalk(tree, LOWEST);
  while (fresh.position !== undefined) {
    const { position } = fresh;
    if (cursorOf(position, seed) === cursor) return position;
    yield* fresh.mendAndSkip();
  }
  return LOWEST;
}
