import type { Operation } from '../../../verbs/index.ts';
import type { SkiplistNodes } from './skiplist-nodes.ts';

/** Nodes between two looks at other duties. */
const NODES_BETWEEN_DUTIES = 2 ** 18;

/** Nodes whose keys have the first `depth` bytes in common. */
interface Range {
  first: number;
  end: number;
  depth: number;
}

/**
 * Sorts nodes by the bytes of their keys: multikey quicksort (Bentley and Sedgewick 1997), which
 * never compares again what keys have in common. Between the parts a server does its duties.
 */
export function* sortByKey(
  nodes: SkiplistNodes,
  order: Uint32Array,
  meanwhile: () => Operation<void>,
): Operation<void> {
  const open: Range[] = [{ first: 0, end: order.length, depth: 0 }];
  let sorted = 0;
  for (let range = open.pop(); range; range = open.pop()) {
    const { first, end, depth } = range;
    if (end - first < 2) continue;
    const pivot = nodes.byteAt(order[first + ((end - first) >> 1)], depth);
    const [less, greater] = partition(nodes, order, range, pivot);
    open.push({ first: greater, end, depth }, { first, end: less, depth });
    // Keys that have ended are equal.
    if (pivot >= 0) open.push({ first: less, end: greater, depth: depth + 1 });
    sorted += end - first;
    if (sorted < NODES_BETWEEN_DUTIES) continue;
    sorted = 0;
    yield* meanwhile();
  }
}

/** Puts what has a smaller byte before what has the pivot, and what has a greater one behind. */
function partition(
  nodes: SkiplistNodes,
  order: Uint32Array,
  { first, end, depth }: Range,
  pivot: number,
): [less: number, greater: number] {
  let less = first;
  let greater = end;
  for (let at = first; at < greater; ) {
    const node = order[at];
    const byte = nodes.byteAt(node, depth);
    if (byte === pivot) at++;
    else if (byte < pivot) {
      order[at++] = order[less];
      order[less++] = node;
    } else {
      order[at] = order[--greater];
      order[greater] = node;
    }
  }
  return [less, greater];
}
