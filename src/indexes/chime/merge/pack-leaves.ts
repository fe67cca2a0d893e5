import type { Operation } from '../../../verbs/index.ts';
import { childrenIn, pairIn, separatorIn } from '../nodes/internal-node.ts';
import type { KeyAt } from '../nodes/siblings.ts';
import type { ChimeTree } from '../tree.ts';
import {
  LOWEST,
  mergeLeafAt,
  openPathTo,
  orNothing,
  ROUNDS_MAX,
  type Step,
} from './merge-underfull.ts';

/**
 * Merges neighbours that fit one leaf, in a full pool, where splits find no memory. Deletions merge
 * less eagerly, because a nearly full leaf is soon split again. Returns how many leaves it freed.
 */
export function* packLeaves(tree: ChimeTree): Operation<number> {
  const before = tree.merges;
  let from: Uint8Array | undefined = LOWEST;
  while (from !== undefined) from = yield* packAt(tree, from);
  return tree.merges - before;
}

/**
 * Merges the leaf of a key with its neighbours as long as they fit. Returns where the next leaf
 * begins; undefined behind the last one, and where others keep changing a node.
 */
function* packAt(tree: ChimeTree, from: Uint8Array): Operation<Uint8Array | undefined> {
  const key: KeyAt = { u8: from, at: 0, bytes: from.length };
  for (let round = 1; ; round++) {
    yield* tree.reclamation.quiesce();
    const path = yield* orNothing(tree, () => openPathTo(tree, key));
    const step: Step | undefined = path?.at(-1);
    if (step === undefined && round < ROUNDS_MAX) continue;
    if (step === undefined) return undefined;
    const { node, child, upper } = step;
    const isLast = pairIn(node.image) > 0 || round > ROUNDS_MAX;
    const merge = () => mergeLeafAt(tree, step, key, areWorthPacking);
    if (!isLast && (yield* orNothing(tree, merge))) continue;
    return child < childrenIn(node.image) - 1 ? separatorIn(node.image, child) : upper;
  }
}

/** Whether two leaves fit one, with some room to spare, or one is empty. */
function areWorthPacking({ geometry }: ChimeTree, own: number, together: number): boolean {
  const { perVacancyBit, shape } = geometry;
  return 4 * together <= 3 * shape.span || (own === 0 && perVacancyBit === 1);
}
