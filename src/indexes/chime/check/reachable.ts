import { SLOT_UNITS_MAX } from '../../../records/layout.ts';
import type { Address, Operation } from '../../../verbs/index.ts';
import { eachIndirect } from '../../substrates/leaf/picture.ts';
import type { Parts } from '../../traversal/parts.ts';
import { eachRecordBlock } from '../../traversal/reachable.ts';
import { addressOfLink } from '../nodes/link.ts';
import type { ChimeRequest } from '../request.ts';
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
        leaf: (picture) => eachRecordBlock(slotsOf(tree, picture), tree.records, request, visit),
      }),
  });
}

function slotsOf(tree: ChimeTree, leaf: ChimeRequest): Pick<Parts, 'eachSlot' | 'unitsMax'> {
  return { unitsMax: SLOT_UNITS_MAX, eachSlot: (visit) => eachIndirect(tree, leaf, visit) };
}
