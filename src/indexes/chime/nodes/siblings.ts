import { invariant } from '../../../errors.ts';
import { HEADER_BYTES } from '../../../records/layout.ts';
import type { Operation } from '../../../verbs/index.ts';
import {
  joinRoutes,
  type NewChild,
  type PackedRoutes,
  type Routes,
  withChildren,
} from './internal-node.ts';
import { areSame, compareWhole } from './keys.ts';
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

/** Whether a key belongs to one of the last two children: then the others may get no more keys. */
export function isAtEnd({ separators }: PackedRoutes, { u8, at, bytes }: KeyAt): boolean {
  return separators.childOf(u8, at, bytes) >= separators.length - 1;
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
  const child = routes.separators.childOf(key.u8, key.at, key.bytes);
  const added = yield* missingSiblings(tree, routes, child, upper);
  return { routes: withChildren(routes, child, added), merged };
}

/** Without the right leaf of a marked pair, if that was merged: only then the mark goes. */
function* withoutMerged(tree: NodeClient, routes: Routes): Operation<WithSiblings> {
  const { links, separators, pair } = routes;
  if (pair === 0 || 2 * pair >= links.length) return { routes, merged: undefined };
  const right = { low: links[2 * pair], high: links[2 * pair + 1] };
  if (!(yield* tree.isMerged(right))) return { routes, merged: undefined };
  const parts = [{ routes, first: 0, count: pair }];
  const rest = links.length / 2 - pair - 1;
  if (rest > 0) parts.push({ routes, first: pair + 1, count: rest });
  const between = rest > 0 ? [separators.at(pair)] : [];
  return { routes: { ...joinRoutes(parts, between), pair: 0 }, merged: right };
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
    const reaches = () => child + 1 === pair && compareWhole(pivot, separators.at(child)) >= 0;
    if (isLast ? areSame(pivot, upper) : reaches()) break;
    const last = added.at(-1);
    const isAhead = last === undefined || compareWhole(last.separator, pivot) < 0;
    invariant(isAhead, 'the pivots of siblings do not ascend');
    added.push({ link: sibling, separator: pivot });
    leaf = sibling;
  }
  return added;
}
