import type { Operation } from '../../verbs/index.ts';
import type { CheckSink } from '../contract.ts';
import { LeafCheck } from './check-leaf.ts';
import { KeyScale } from './key-scale.ts';
import { compareWhole } from './keys.ts';
import { LeafWalk } from './leaf-walk.ts';
import { ABSORB, addressOfLink, MARKS } from './link.ts';
import { rootLink } from './mend.ts';
import {
  isInternal,
  isInUse,
  isTakenUp,
  type Link,
  replacementOf,
  routesOf,
  unitsOfNode,
  type Visit,
  visit,
} from './node-io.ts';
import { goneWith } from './plan-node.ts';
import type { ChimeTree } from './tree.ts';

/** A node that is to be checked, and the keys that may be below it. */
interface Part {
  link: Link;
  lower: Uint8Array;
  upper: Uint8Array | undefined;
  /** Internal nodes above, without those that are to be taken up. */
  height: number;
  root: boolean;
}

/**
 * Verifies every invariant of a tree, after finishing what clients that died have left half done,
 * as far as the pool has room for it: separators ascend within their node's range, all leaves are
 * at one height, every record is intact, in the leaf of its key, in its neighbourhood, under its
 * fingerprint, size and hint, and there only once.
 */
export function* checkTree(tree: ChimeTree, sink: CheckSink): Operation<number> {
  tree.cache.begin();
  const leaves = new LeafWalk(tree, new Uint8Array(0));
  while (leaves.position !== undefined) yield* leaves.mendAndSkip();
  const check = new Check(tree, sink);
  yield* check.run();
  return check.records;
}

class Check {
  readonly #tree: ChimeTree;
  readonly #sink: CheckSink;
  readonly #records: LeafCheck;
  #leafHeight: number | undefined;

  constructor(tree: ChimeTree, sink: CheckSink) {
    this.#tree = tree;
    this.#sink = sink;
    this.#records = new LeafCheck(tree, sink);
  }

  get records(): number {
    return this.#records.records;
  }

  *run(): Operation<void> {
    const tree = this.#tree;
    this.#sink.reachable(tree.root, 1);
    const link = yield* rootLink(tree);
    const all: Part = { link, lower: NOTHING, upper: undefined, height: 0, root: true };
    const open = [all];
    for (let part = open.pop(); part !== undefined; part = open.pop()) {
      const node = yield* visit(tree, tree.root, part.link);
      if (!isInUse(tree, node) && !isTakenUp(node)) {
        for (const gone of yield* goneWith(tree, node)) this.#reach(gone);
        open.push({ ...part, link: replacementOf(node) });
        continue;
      }
      this.#reach(node);
      if (isInternal(node.high)) open.push(...this.#children(node, part).reverse());
      else yield* this.#leaf(node, part);
    }
  }

  #reach({ low, high }: Link): void {
    this.#sink.reachable(addressOfLink(low, high), unitsOfNode(this.#tree, high));
  }

  #children(node: Visit, { lower, upper, height, root }: Part): Part[] {
    const { links, separators } = routesOf(node);
    const where = `internal node at ${node.address}`;
    const bounds = [lower, ...separators];
    const parts: Part[] = [];
    const below = root || (node.high & ABSORB) === 0 ? height + 1 : height;
    for (let child = 0; child < links.length / 2; child++) {
      const from = bounds[child];
      const to = bounds[child + 1] ?? upper;
      if (to !== undefined && compareWhole(from, to) >= 0) {
        this.#sink.problem(`${where}: separators do not ascend`);
      }
      const link = { low: links[2 * child], high: links[2 * child + 1] & ~MARKS };
      parts.push({ link, lower: from, upper: to, height: below, root: false });
    }
    return parts;
  }

  *#leaf(leaf: Visit, { height, lower, upper }: Part): Operation<void> {
    this.#leafHeight ??= height;
    if (height !== this.#leafHeight) {
      this.#sink.problem(`leaf at ${leaf.address}: at another height`);
    }
    const isBelow = (key: Uint8Array) => upper === undefined || compareWhole(key, upper) < 0;
    const belongs = (key: Uint8Array) => compareWhole(lower, key) <= 0 && isBelow(key);
    const scale = new KeyScale().set({ lower, upper });
    yield* this.#records.leaf(leaf, belongs, (key) => scale.hintOf(key, 0, key.length));
  }
}

const NOTHING = new Uint8Array(0);
