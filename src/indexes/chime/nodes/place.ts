import { partOf } from '../../traversal/sample.ts';
import type { NodeCache } from './cache.ts';
import type { RoutedRequest } from './node-arena.ts';

/**
 * Leads a request to a place of [0, 1), as far down as is remembered: to a child of a node, if any
 * is remembered. Each node's children have equal shares of the node's, so a leaf below a node with
 * few children is met more often than one below a full node. Returns the place in the child.
 */
export function goToPlace({ top }: NodeCache, place: number, request: RoutedRequest): number {
  let at = place;
  request.above = undefined;
  for (let node = top; node !== undefined; node = node.node(request.child)) {
    const { part, rest } = partOf(at, node.children);
    request.above = node;
    request.child = part;
    at = rest;
  }
  return at;
}
