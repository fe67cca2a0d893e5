import type { Operation } from '../../verbs/index.ts';
import type { CheckSink } from '../contract.ts';
import { LeafCheck } from '../substrates/leaf/check-leaf.ts';
import { compareWhole } from './nodes/keys.ts';
import { addressOfLink, type Link } from './nodes/link.ts';
import { unitsOfNode } from './nodes/node-io.ts';
import { eachLeaf, NodeWalk, type Part } from './parts.ts';
import { LeafWalk } from './scan/leaf-walk.ts';
import type { ChimeTree } from './tree.ts';

const LEAVES_TOGETHER = 32;

/**
 * Verifies every invariant of a tree. First it finishes what dead clients left half done, as far as
 * the pool has room for that. Separators ascend within their node's range. All leaves are at one
 * height and end where the next one begins. Every item is intact, in the leaf of its key, in its
 * neighbourhood, and only there.
 */
export function* checkTree(tree: ChimeTree, sink: CheckSink): Operation<number> {
  const leaves = new LeafWalk(tree, new Uint8Array(0));
  while (leaves.position !== undefined) yield* leaves.finishPathAndSkip();
  leaves.release();
  const check = new Check(tree, sink);
  sink.reachable(tree.root, 1);
  const nodes = yield* NodeWalk.begin(tree);
  const visitNode = (link: Link) => check.node(link);
  for (;;) {
    const part = yield* nodes.nextLeaf(visitNode);
    if (part === undefined) break;
    yield* check.leaf(part);
  }
  yield* check.rest();
  return check.records;
}

class Check {
  readonly #tree: ChimeTree;
  readonly #sink: CheckSink;
  readonly #items: LeafCheck;
  readonly #leaves: Part[] = [];
  #leafHeight: number | undefined;

  constructor(tree: ChimeTree, sink: CheckSink) {
    this.#tree = tree;
    this.#sink = sink;
    this.#items = new LeafCheck(tree, sink);
  }

  get records(): number {
    return this.#items.records;
  }

  node({ low, high }: Link): void {
    this.#sink.reachable(addressOfLink(low, high), unitsOfNode(high));
  }

  /** Checks leaves one by one, or many at once if the sink does (over a network). */
  *leaf(part: Part): Operation<void> {
    this.#leaves.push(part);
    if (this.#sink.each === undefined || this.#leaves.length >= LEAVES_TOGETHER) yield* this.rest();
  }

  /** Checks the leaves that are still waiting. */
  *rest(): Operation<void> {
    const leaves = this.#leaves.splice(0);
    const { each } = this.#sink;
    if (each) return yield* each(leaves, (part) => this.#checkLeaf(part));
    for (const part of leaves) yield* this.#checkLeaf(part);
  }

  *#checkLeaf(part: Part): Operation<void> {
    const { height, link } = part;
    this.#leafHeight ??= height;
    const where = `leaf at ${addressOfLink(link.low, link.high)}`;
    if (height !== this.#leafHeight) this.#sink.problem(`${where}: at another height`);
    const sink = this.#sink;
    yield* eachLeaf(this.#tree, part, {
      block: (address, units) => sink.reachable(address, units),
      problem: (text) => sink.problem(`${where}: ${text}`),
      leaf: (picture, lower, upper) => {
        const isBelow = (key: Uint8Array) => upper === undefined || compareWhole(key, upper) < 0;
        const belongs = (key: Uint8Array) => compareWhole(lower, key) <= 0 && isBelow(key);
        return this.#items.leaf(picture, belongs);
      },
    });
  }
}
