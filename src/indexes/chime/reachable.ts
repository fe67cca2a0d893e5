import type { Address, Operation } from '../../verbs/index.ts';
import { visitLeafRecords } from './leaf-records.ts';
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
} from './node-io.ts';
import { goneWith } from './plan-node.ts';
import type { ChimeTree } from './tree.ts';

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
      yield* visitLeafRecords(tree, request, node, visit);
    }
  }
}
