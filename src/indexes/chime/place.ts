import { HEADER_BYTES } from '../../records/layout.ts';
import type { Operation } from '../../verbs/index.ts';
import { partOf } from '../substrates/sample.ts';
import { INTERNAL } from './nodes/link.ts';
import { AT_KEY } from './nodes/node-arena.ts';
import type { ChimeRequest } from './request.ts';
import type { ChimeTree } from './tree.ts';

const LOWEST = new Uint8Array(0);

/**
 * Goes down to the leaf at a place of [0, 1), each node's children having equal shares of the
 * node's, and reads what is not remembered. Returns the place in the leaf. A leaf below a node with
 * few children is met more often than one below a full node.
 */
export function* aimAtPlace(
  tree: ChimeTree,
  request: ChimeRequest,
  place: number,
): Operation<number> {
  for (let round = 1; ; round++) {
    tree.cache.begin();
    const { lower, rest, isLeaf } = lowestAt(tree, place);
    // The lowest key of a leaf leads to it.
    request.outgoing.ensure(HEADER_BYTES + lower.length);
    request.outgoing.u8.set(lower, HEADER_BYTES);
    request.keyBytes = lower.length;
    request.side = AT_KEY;
    if (isLeaf && tree.aim(request)) return rest;
    yield* tree.reach(request);
    tree.giveUpAfter(round);
  }
}

/** The lowest key of what stands at a place, as far down as is remembered. */
function lowestAt(
  { cache }: ChimeTree,
  place: number,
): { lower: Uint8Array; rest: number; isLeaf: boolean } {
  let lower: Uint8Array = LOWEST;
  let at = place;
  for (let node = cache.top; node !== undefined; ) {
    const { part: child, rest } = partOf(at, node.children);
    at = rest;
    lower = node.lowerOf(child);
    if ((node.linkHigh(child) & INTERNAL) === 0) return { lower, rest, isLeaf: true };
    node = node.node(child);
  }
  return { lower, rest: at, isLeaf: false };
}
