import type { Address, Operation } from '../../../verbs/index.ts';
import { visitRecordBlocks } from '../../substrates/leaf/picture.ts';
import { addressOfLink } from '../nodes/link.ts';
import type { ChimeTree } from '../tree.ts';
import { eachLeaf } from './leaf-chain.ts';
import { eachNode } from './nodes-of.ts';

/**
 * Visits every block that a key or the root reaches throughout: also what has been replaced and is
 * not unlinked yet, which some client will retire.
 */
export function* eachReachable(
  tree: ChimeTree,
  visit: (address: Address) => void,
): Operation<void> {
  const request = tree.newRequest();
  visit(tree.root);
  yield* eachNode(tree, {
    node: ({ low, high }) => visit(addressOfLink(low, high)),
    leaf: (part) =>
      eachLeaf(tree, part, {
        block: visit,
        problem: () => {},
        leaf: (picture) => visitRecordBlocks(tree, picture, request, visit),
      }),
  });
}
