import { partOf } from '../../substrates/sample.ts';
import type { NodeCache } from './cache.ts';
import { INTERNAL } from './link.ts';

const LOWEST: Uint8Array = new Uint8Array(0);

/** What stands at a place of the tree, as far down as is remembered. */
export interface Place {
  /** The lowest key that it may have: it leads there. */
  lower: Uint8Array;
  /** The place in it. */
  rest: number;
  isLeaf: boolean;
}

/**
 * Goes down to a place of [0, 1): each node's children have equal shares of the node's. So a leaf
 * below a node with few children is met more often than one below a full node.
 */
export function standsAt({ top }: NodeCache, place: number): Place {
  let lower = LOWEST;
  let at = place;
  for (let node = top; node !== undefined; ) {
    const { part: child, rest } = partOf(at, node.children);
    at = rest;
    lower = node.lowerOf(child);
    if ((node.linkHigh(child) & INTERNAL) === 0) return { lower, rest, isLeaf: true };
    node = node.node(child);
  }
  return { lower, rest: at, isLeaf: false };
}
