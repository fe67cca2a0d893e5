import { SLOT_UNITS_MAX } from '../../records/layout.ts';
import { type Address, type Operation, UNIT_BYTES } from '../../verbs/index.ts';
import { SLOTS_AT } from './geometry.ts';
import { addressOfLink, MARKS } from './link.ts';
import { rootLink } from './mend.ts';
import {
  isInternal,
  isInUse,
  isTakenUp,
  type Link,
  visit as readNode,
  replacementOf,
  routesOf,
  type Visit,
} from './node-io.ts';
import { goneWith } from './plan-node.ts';
import { isLive, isVacant, lengthOf, recordOf } from './slot.ts';
import type { ChimeRequest, ChimeTree } from './tree.ts';

/**
 * Visits every block that a key or the root reaches throughout: also what has been replaced and is
 * not unlinked yet, which somebody will retire, and records whose insertion is not committed.
 */
export function* eachReachable(
  tree: ChimeTree,
  visit: (address: Address) => void,
): Operation<void> {
  const request = tree.newRequest();
  visit(tree.root);
  const open: Link[] = [yield* rootLink(tree)];
  for (let link = open.pop(); link !== undefined; link = open.pop()) {
    const node = yield* readNode(tree, tree.root, link);
    visit(node.address);
    if (!isInUse(tree, node) && !isTakenUp(node)) {
      // What it leads to its replacement leads to, but for what was taken up.
      for (const { low, high } of yield* goneWith(tree, node)) visit(addressOfLink(low, high));
      open.push(replacementOf(node));
    } else if (isInternal(node.high)) {
      const { links } = routesOf(node);
      for (let i = 0; i < links.length; i += 2) {
        open.push({ low: links[i], high: links[i + 1] & ~MARKS });
      }
    } else {
      yield* visitRecords(tree, request, node, visit);
    }
  }
}

function* visitRecords(
  tree: ChimeTree,
  request: ChimeRequest,
  { image }: Visit,
  visit: (address: Address) => void,
): Operation<void> {
  const { leafBytes, shape } = tree.geometry;
  for (let at = SLOTS_AT; at < leafBytes; at += 8) {
    const low = image.i32[at >> 2];
    const high = image.i32[(at >> 2) + 1];
    if (isVacant(low, high)) continue;
    const record = recordOf(low, high);
    visit(record);
    // What hangs on a claim is not looked at: one that was given up while it was frozen may name a
    // block that is used again.
    if (lengthOf(high) < SLOT_UNITS_MAX || !isLive(low, high)) continue;
    request.incoming.ensure(SLOT_UNITS_MAX * UNIT_BYTES);
    yield* tree.records.adopt(request, record, SLOT_UNITS_MAX, shape.seed);
    const blocks = yield* tree.records.foundBlocks(request, record);
    for (const { address } of blocks) visit(address);
  }
}
