import type { KeyBound } from '../../contract.ts';
import type { Word } from '../protocol/word.ts';
import type { Skiplist } from './skiplist.ts';
import type { SkiplistImage } from './skiplist-image.ts';
import { NONE } from './skiplist-nodes.ts';

/** A key, a character for each byte, and the slot's word that names its record. */
export interface OrderedSlot extends Word {
  readonly key: string;
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
    let best = 0;
    for (let i = 1; i < fronts.length; i++) {
      if (nodes.compare(fronts[i], nodes.keyOf(fronts[best])) < 0 !== reverse) best = i;
    }
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

function first({ nodes }: SkiplistImage, list: Skiplist, { from, reverse }: ScanPart): number {
  if (from === undefined) return reverse ? list.last : list.first;
  const key = { u8: from.key, at: 0, bytes: from.key.length };
  const at = list.atOrAfter(key);
  const isHere = at !== NONE && nodes.compare(at, key) === 0;
  if (isHere && from.inclusive) return at;
  if (reverse) return list.lastBefore(key);
  return isHere ? nodes.next(at, 0) : at;
}
