import type { Operation } from '../../verbs/index.ts';
import type { LeafClient } from '../chime/leaf-client.ts';
import { depthOfLink } from '../chime/link.ts';
import { isInternal, type Link, routesOf, visit } from '../chime/node-io.ts';

/**
 * What a split puts in the place of a segment until the directory leads to both halves: an internal
 * node of the tree, with two children and nothing between them.
 */
export function isFork({ high }: Link): boolean {
  return isInternal(high);
}

/** The two segments that a segment was split into. */
export function* readFork(table: LeafClient, fork: Link): Operation<{ lower: Link; upper: Link }> {
  const { links } = routesOf(yield* visit(table, 0, fork));
  const lower = { low: links[0], high: links[1] };
  return { lower, upper: { low: links[2], high: links[3] } };
}

/** The half of a segment that has been split which serves a hash. */
export function* halfFor(table: LeafClient, fork: Link, hash: number): Operation<Link> {
  const { lower, upper } = yield* readFork(table, fork);
  return (hash & (1 << (depthOfLink(lower.high) - 1))) === 0 ? lower : upper;
}
