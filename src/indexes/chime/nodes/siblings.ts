import { invariant } from '../../../errors.ts';
import { HEADER_BYTES } from '../../../records/layout.ts';
import type { Operation } from '../../../verbs/index.ts';
import type { NewChild, Routes } from './internal-node.ts';
import { areSame, compareKeys, compareWhole } from './keys.ts';
import { isSameLeaf, type Link } from './link.ts';
import type { LeafBounds, NodeClient } from './node-client.ts';

/** Siblings that are added at once: bulk loads and dead clients may leave long chains. */
const SIBLINGS_MAX = 64;

/** A key in local memory. */
export interface KeyAt {
  u8: Uint8Array;
  at: number;
  bytes: number;
}

export function keyOf({
  outgoing,
  keyBytes,
}: {
  outgoing: { u8: Uint8Array };
  keyBytes: number;
}): KeyAt {
  return { u8: outgoing.u8, at: HEADER_BYTES, bytes: keyBytes };
}

/** The key whose leaf's siblings a node lacks, and the upper bound of the node's keys. */
export interface Target {
  key: KeyAt;
  upper: Uint8Array | undefined;
}

/** The routes for the copy of a node just above leaves, and the merged leaf that they leave out. */
export interface WithSiblings {
  routes: Routes;
  merged: Link | undefined;
}

/** The child to which a key belongs. */
export function childOfKey(separators: readonly Uint8Array[], { u8, at, bytes }: KeyAt): number {
  let child = 0;
  while (child < separators.length) {
    const separator = separators[child];
    if (compareKeys(separator, 0, separator.length, u8, at, bytes) > 0) break;
    child++;
  }
  return child;
}

/** Whether a key belongs to one of the last two children: then the others may get no more keys. */
export function isAtEnd({ separators }: Pick<Routes, 'separators'>, key: KeyAt): boolean {
  return childOfKey(separators, key) >= separators.length - 1;
}

/**
 * Adds the siblings of the key's leaf that a node lacks to its routes (CHIME section 4.2.3). The
 * node was read, and is still in use when the copy is published. Reads a leaf's link after the
 * node: otherwise a sibling merged since then would come back. Drops the right leaf of a marked
 * pair if it was merged; as long as it lives, the mark stays.
 */
export function* withSiblings(
  tree: NodeClient,
  frozen: Routes,
  { key, upper }: Target,
): Operation<WithSiblings> {
  const { routes, merged } = yield* withoutMerged(tree, frozen);
  const child = childOfKey(routes.separators, key);
  const added = yield* missingSiblings(tree, routes, child, upper);
  const count = added.length;
  if (count === 0) return { routes, merged };
  const behind = 2 * child + 2;
  const links = new Int32Array(routes.links.length + 2 * count);
  links.set(routes.links.subarray(0, behind));
  links.set(routes.links.subarray(behind), behind + 2 * count);
  for (let i = 0; i < count; i++) {
    links[behind + 2 * i] = added[i].link.low;
    links[behind + 2 * i + 1] = added[i].link.high;
  }
  const separators = routes.separators.slice();
  separators.splice(child, 0, ...added.map(({ separator }) => separator));
  // A mark behind the leaf moves on. A mark of the leaf itself now names it and its new sibling.
  const pair = routes.pair > child + 1 ? routes.pair + count : routes.pair;
  return { routes: { links, separators, pair }, merged };
}

/** Without the right leaf of a marked pair, if that was merged: only then the mark goes. */
function* withoutMerged(tree: NodeClient, routes: Routes): Operation<WithSiblings> {
  const { links, separators, pair } = routes;
  if (pair === 0 || 2 * pair >= links.length) return { routes, merged: undefined };
  const right = { low: links[2 * pair], high: links[2 * pair + 1] };
  if (!(yield* tree.isMerged(right))) return { routes, merged: undefined };
  const fewer = new Int32Array(links.length - 2);
  fewer.set(links.subarray(0, 2 * pair));
  fewer.set(links.subarray(2 * pair + 2), 2 * pair);
  const others = separators.filter((_, i) => i !== pair - 1);
  return {
    routes: { links: fewer, separators: others, pair: 0 },
    merged: right,
  };
}

/**
 * The leaves between a child and the next one that the node does not know. The left leaf of a
 * marked pair may reach beyond the right one already, because a merge writes its bounds before it
 * retires the right one. Then that one and the mark stay: otherwise the node would lead twice to
 * the leaf behind the pair.
 */
export function* missingSiblings(
  tree: NodeClient,
  { links, separators, pair }: Routes,
  child: number,
  upper: Uint8Array | undefined,
): Operation<NewChild[]> {
  const added: NewChild[] = [];
  let leaf: Link = { low: links[2 * child], high: links[2 * child + 1] };
  const [nextLow, nextHigh] = [links[2 * child + 2], links[2 * child + 3]];
  const isLast = 2 * child + 2 >= links.length;
  while (added.length < SIBLINGS_MAX) {
    const bounds: LeafBounds | undefined = yield* tree.readBounds(leaf);
    const { sibling, pivot } = bounds ?? {};
    if (sibling === undefined || pivot === undefined) break;
    if (!isLast && isSameLeaf(sibling.low, sibling.high, nextLow, nextHigh)) break;
    const reaches = () => child + 1 === pair && compareWhole(pivot, separators[child]) >= 0;
    if (isLast ? areSame(pivot, upper) : reaches()) break;
    const last = added.at(-1);
    const isAhead = last === undefined || compareWhole(last.separator, pivot) < 0;
    invariant(isAhead, 'the pivots of siblings do not ascend');
    added.push({ link: sibling, separator: pivot });
    leaf = sibling;
  }
  return added;
}
