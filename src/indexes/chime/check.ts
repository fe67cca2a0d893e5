import { HEADER_BYTES } from '../../records/layout.ts';
import type { Operation } from '../../verbs/index.ts';
import type { CheckSink } from '../contract.ts';
import { fingerprintOf, SLOTS_AT } from './geometry.ts';
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
import { distanceOf, isLive, lengthOf, recordOf } from './slot.ts';
import type { ChimeRequest, ChimeTree } from './tree.ts';

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
 * fingerprint, and there only once.
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
  readonly #request: ChimeRequest;
  #leafHeight: number | undefined;
  records = 0;

  constructor(tree: ChimeTree, sink: CheckSink) {
    this.#tree = tree;
    this.#sink = sink;
    this.#request = tree.newRequest();
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

  *#leaf({ address, image }: Visit, part: Part): Operation<void> {
    this.#leafHeight ??= part.height;
    const where = `leaf at ${address}`;
    if (part.height !== this.#leafHeight) this.#sink.problem(`${where}: at another height`);
    const seen = new Set<string>();
    const { span } = this.#tree.geometry.shape;
    for (let slot = 0; slot < span; slot++) {
      const word = (SLOTS_AT >> 2) + 2 * slot;
      const low = image.i32[word];
      const high = image.i32[word + 1];
      if (!isLive(low, high)) continue;
      yield* this.#record({ low, high }, slot, part, seen);
      if (++this.records % 10_000 === 0) this.#sink.progress(this.records);
    }
  }

  *#record({ low, high }: Link, slot: number, part: Part, seen: Set<string>): Operation<void> {
    const tree = this.#tree;
    const request = this.#request;
    const { span, neighbourhood, seed } = tree.geometry.shape;
    const record = recordOf(low, high);
    const report = (text: string) => this.#sink.problem(`record at ${record}: ${text}`);
    yield* tree.records.adopt(request, record, lengthOf(high), seed);
    try {
      yield* tree.records.complete(request);
    } catch (error) {
      return report((error as Error).message);
    }
    const { hash, outgoing, keyBytes } = request;
    const key = outgoing.u8.slice(HEADER_BYTES, HEADER_BYTES + keyBytes);
    const distance = (slot - tree.geometry.homeOf(hash.h2) + span) % span;
    if (distance >= neighbourhood) report('outside of its neighbourhood');
    else if (distance !== distanceOf(high)) report('another distance than its slot says');
    if (fingerprintOf(hash.h1) !== high >>> 24) report('wrong fingerprint');
    const { lower, upper } = part;
    const inRange =
      compareWhole(lower, key) <= 0 && (upper === undefined || compareWhole(key, upper) < 0);
    if (!inRange) report('in a leaf of other keys');
    const name = Buffer.from(key).toString('latin1');
    if (seen.has(name)) report('its key has two slots');
    seen.add(name);
    const blocks = yield* tree.records.foundBlocks(request, record);
    for (const block of blocks) this.#sink.reachable(block.address, block.units);
  }
}

const NOTHING = new Uint8Array(0);
