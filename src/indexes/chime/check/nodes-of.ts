import { invariant } from '../../../errors.ts';
import type { Operation } from '../../../verbs/index.ts';
import { compareWhole } from '../nodes/keys.ts';
import type { Link } from '../nodes/link.ts';
import { ABSORB, FROZEN, isInternal } from '../nodes/link.ts';
import {
  isAbsorbed,
  isInUse,
  PATH_MAX,
  replacementOf,
  rootLink,
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
  /** How many links lead there from the root. */
  steps: number;
}

/** Goes through all nodes below the root in key order. */
export class NodeWalk {
  readonly #tree: ChimeTree;
  readonly #open: Part[] = [];

  private constructor(tree: ChimeTree, link: Link) {
    this.#tree = tree;
    this.#open.push({ link, lower: LOWEST, upper: undefined, height: 0, isRoot: true, steps: 0 });
  }

  static *begin(tree: ChimeTree): Operation<NodeWalk> {
    return new NodeWalk(tree, yield* rootLink(tree));
  }

  /**
   * The next leaf, as its parent has it; undefined at the end. Visits the internal nodes before it,
   * also those that were replaced and are not unlinked yet. Raises SW_POOL_CORRUPT where keys do
   * not ascend: otherwise a node that is below itself would be visited for ever.
   */
  *nextLeaf(visitNode: (link: Link) => void): Operation<Part | undefined> {
    const tree = this.#tree;
    const open = this.#open;
    for (let part = open.pop(); part !== undefined; part = open.pop()) {
      if (!isInternal(part.link.high)) return part;
      invariant(part.steps < PATH_MAX, 'the path to a leaf does not end');
      const node = yield* visit(tree, tree.root, part.link);
      if (!isInUse(tree, node) && !isAbsorbed(node)) {
        // What it leads to its replacement leads to, but for what was absorbed.
        for (const gone of yield* goneWith(tree, node)) visitNode(gone);
        open.push({ ...part, link: replacementOf(node), steps: part.steps + 1 });
        continue;
      }
      visitNode(node);
      open.push(...childrenOf(node, part).reverse());
    }
    return undefined;
  }
}

function childrenOf(node: Visit, { lower, upper, height, isRoot, steps }: Part): Part[] {
  const { links, separators } = routesOf(node);
  const bounds = [lower, ...separators];
  const below = isRoot || (node.high & ABSORB) === 0 ? height + 1 : height;
  for (let i = 0; i < separators.length; i++) {
    const next = bounds[i + 2] ?? upper;
    const ascends = compareWhole(bounds[i], bounds[i + 1]) < 0;
    const isBelow = next === undefined || compareWhole(bounds[i + 1], next) < 0;
    invariant(ascends && isBelow, `internal node at ${node.address}: separators do not ascend`);
  }
  return bounds.map((from, child) => ({
    link: { low: links[2 * child], high: links[2 * child + 1] & ~FROZEN },
    lower: from,
    upper: bounds[child + 1] ?? upper,
    height: below,
    isRoot: false,
    steps: steps + 1,
  }));
}
