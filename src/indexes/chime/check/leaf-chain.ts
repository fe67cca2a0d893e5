import { invariant } from '../../../errors.ts';
import type { Address, Operation } from '../../../verbs/index.ts';
import { BOUNDS_AT } from '../../substrates/leaf/layout.ts';
import { IMAGE_AT } from '../../substrates/leaf/leaf-request.ts';
import { outwait } from '../../substrates/leaf/lock-leaf.ts';
import { isPicture } from '../../substrates/leaf/picture.ts';
import { isLeafStill, postBracket } from '../../substrates/leaf/read-leaf.ts';
import { isLong, pivotBlockIn, pivotBytesIn } from '../bounds.ts';
import { unitsFor } from '../geometry.ts';
import { compareWhole } from '../nodes/keys.ts';
import type { ChimeRequest } from '../request.ts';
import type { ChimeTree } from '../tree.ts';
import type { Part } from './nodes-of.ts';

interface ChainVisitor {
  /** A block that is a leaf, or has the pivot of one. */
  block(address: Address, units: number): void;
  problem(text: string): void;
  /** A leaf's picture and the keys that it may have. */
  leaf(picture: ChimeRequest, lower: Uint8Array, upper: Uint8Array | undefined): Operation<void>;
}

/**
 * Visits a leaf as its parent has it, and the siblings that the parent lacks: up to where the next
 * child begins. A leaf that was merged is only a block, whose keys the one before it has.
 */
export function* eachLeaf(
  tree: ChimeTree,
  { link, lower, upper }: Part,
  visitor: ChainVisitor,
): Operation<void> {
  const request = tree.newRequest();
  let from = lower;
  for (let leaf = link; ; ) {
    tree.aimAt(request, leaf, from);
    visitor.block(request.leaf, tree.geometry.leafUnits);
    if (!(yield* readWhole(tree, request))) return;
    const { sibling, pivot } = yield* tree.boundsIn(request);
    const at = IMAGE_AT + BOUNDS_AT;
    const { words } = request;
    const pivotBytes = sibling === undefined ? 0 : pivotBytesIn(words, at);
    if (isLong(pivotBytes)) visitor.block(pivotBlockIn(words, at), unitsFor(pivotBytes));
    // Without this, a chain that leads back to itself would be walked for ever.
    const ascends = pivot === undefined || compareWhole(from, pivot) < 0;
    invariant(ascends, `the pivot of the leaf at ${request.leaf} is below its keys`);
    checkReplicas(tree, request, visitor);
    yield* visitor.leaf(request, from, pivot);
    const isEnd = upper !== undefined && pivot !== undefined && compareWhole(pivot, upper) >= 0;
    if (sibling === undefined || pivot === undefined || isEnd) return;
    leaf = sibling;
    from = pivot;
  }
}

function checkReplicas(tree: ChimeTree, { words }: ChimeRequest, visitor: ChainVisitor): void {
  const { geometry } = tree;
  const bounds = (IMAGE_AT + BOUNDS_AT) >> 2;
  for (let i = 0; i < geometry.replicas; i++) {
    const replica = (IMAGE_AT + geometry.replicaAt(i)) >> 2;
    const isSame =
      words.i32[replica] === words.i32[bounds] && words.i32[replica + 1] === words.i32[bounds + 1];
    if (!isSame) visitor.problem(`its replica ${i} is no copy of its bounds`);
  }
}

/** False for a leaf that was merged. */
function* readWhole(tree: ChimeTree, request: ChimeRequest): Operation<boolean> {
  const { span } = tree.geometry.shape;
  for (let attempt = 1; ; attempt++) {
    request.readsBounds = true;
    yield postBracket(tree, request, 0, span, request.batch.clear());
    if (!isLeafStill(request)) return false;
    if (isPicture(tree, request)) return true;
    tree.count('changing', attempt - request.looks, request);
    yield* outwait(tree, request, attempt);
  }
}
