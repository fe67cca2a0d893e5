import type { KeyBound } from '../contract.ts';
import type { Skiplist } from './skiplist.ts';
import type { SkiplistImage } from './skiplist-image.ts';
import { NONE, type SkiplistNodes } from './skiplist-nodes.ts';

/** A key, a character for each byte, and the slot's word that names its record. */
export interface OrderedSlot {
  readonly key: string;
  readonly low: number;
  readonly high: number;
}

/** Where a part of a scan begins, in which direction it goes, and how many records it takes. */
export interface ScanPart {
  from: KeyBound | undefined;
  reverse: boolean;
  count: number;
}

/** The nodes of the next keys of all partitions, merged. */
export function collect(image: SkiplistImage, part: ScanPart): number[] {
  const { nodes, partitions } = image;
  const { reverse, count } = part;
  const fronts = partitions.map((list) => first(image, list, part)).filter((node) => node !== NONE);
  const found: number[] = [];
  while (found.length < count && fronts.length > 0) {
    const best = indexOfFirst(nodes, fronts, reverse);
    const node = fronts[best];
    found.push(node);
    const following = reverse ? nodes.previous[node] : nodes.next(node, 0);
    if (following !== NONE) fronts[best] = following;
    else fronts.splice(best, 1);
  }
  return found;
}

export function orderedSlot({ nodes }: SkiplistImage, node: number): OrderedSlot {
  return { key: nodes.text(node), low: nodes.low[node], high: nodes.high[node] };
}

/** The lists of several pairs as one list in order. */
export function merge(lists: readonly OrderedSlot[][], reverse: boolean): OrderedSlot[] {
  if (lists.length === 1) return lists[0];
  const all = lists.flat();
  return all.sort((a, b) => (a.key < b.key === reverse ? 1 : -1));
}

function indexOfFirst(nodes: SkiplistNodes, some: readonly number[], reverse: boolean): number {
  let best = 0;
  for (let i = 1; i < some.length; i++) {
    if (nodes.compare(some[i], nodes.keyOf(some[best])) < 0 !== reverse) best = i;
  }
  return best;
}

function first({ nodes }: SkiplistImage, list: Skiplist, { from, reverse }: ScanPart): number {
  if (from === undefined) return reverse ? list.last : list.first;
  const key = { u8: from.key, at: 0, bytes: from.key.length };
  const at = list.atOrAfter(key);
  const isHere = at !== NONE && nodes.compare(at, key) === 0;
  if (isHere && from.inclusive) return at;
  if (reverse) return list.lastBefore(key);
  return isHere ? nodes.next(at, 0) : at;
}
