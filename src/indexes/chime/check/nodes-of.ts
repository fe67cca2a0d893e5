import type { Operation } from '../../../verbs/index.ts';
import { rootLink } from '../nodes/finish-pending.ts';
import type { Link } from '../nodes/link.ts';
import { ABSORB, FROZEN, isInternal } from '../nodes/link.ts';
import {
  isAbsorbed,
  isInUse,
  replacementOf,
  routesOf,
  type Visit,
  visit,
} from '../nodes/node-io.ts';
import { goneWith } from '../nodes/plan-node.ts';
import type { ChimeTree } from '../tree.ts';

const LOWEST = new Uint8Array(0);

/** A node that is to be visited, and the keys that may be below it. */
export interface Part {
  link: Link;
  lower: Uint8Array;
  upper: Uint8Array | undefined;
  /** Internal nodes above, without those that are to be absorbed. */
  height: number;
  isRoot: boolean;
}

/** What a walk over the nodes meets. */
interface NodeVisitor {
  /** An internal node, or one that was replaced and is not unlinked yet. */
  node(link: Link): void;
  /** An internal node that counts, and its children. */
  children(node: Visit, parts: readonly Part[]): void;
  /** A leaf, as its parent has it. */
  leaf(part: Part): Operation<void>;
}

/** Visits all nodes that the root leads to, in the order of their keys. */
export function* eachNode(tree: ChimeTree, visitor: NodeVisitor): Operation<void> {
  const link = yield* rootLink(tree);
  const open: Part[] = [{ link, lower: LOWEST, upper: undefined, height: 0, isRoot: true }];
  for (let part = open.pop(); part !== undefined; part = open.pop()) {
    if (!isInternal(part.link.high)) {
      yield* visitor.leaf(part);
      continue;
    }
    const node = yield* visit(tree.root, part.link);
    if (!isInUse(tree, node) && !isAbsorbed(node)) {
      // What it leads to its replacement leads to, but for what was absorbed.
      for (const gone of yield* goneWith(tree, node)) visitor.node(gone);
      open.push({ ...part, link: replacementOf(node) });
      continue;
    }
    visitor.node(node);
    const children = childrenOf(node, part);
    visitor.children(node, children);
    open.push(...children.reverse());
  }
}

function childrenOf(node: Visit, { lower, upper, height, isRoot }: Part): Part[] {
  const { links, separators } = routesOf(node);
  const bounds = [lower, ...separators];
  const below = isRoot || (node.high & ABSORB) === 0 ? height + 1 : height;
  return bounds.map((from, child) => ({
    link: { low: links[2 * child], high: links[2 * child + 1] & ~FROZEN },
    lower: from,
    upper: bounds[child + 1] ?? upper,
    height: below,
    isRoot: false,
  }));
}
