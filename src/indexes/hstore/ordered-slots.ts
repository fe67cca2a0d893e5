import type { KeyBound } from '../contract.ts';
import { textOfKey } from './key-reader.ts';
import type { Skiplist, SkiplistNode } from './skiplist.ts';

/** A key and the slot's word that names its record. */
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

/** The next keys of all partitions, merged. */
export function collect(partitions: readonly Skiplist[], part: ScanPart): OrderedSlot[] {
  const { reverse, count } = part;
  const fronts = partitions.map((list) => first(list, part)).filter((node) => node !== undefined);
  const found: OrderedSlot[] = [];
  while (found.length < count && fronts.length > 0) {
    const best = indexOfFirst(fronts, reverse);
    const node = fronts[best];
    found.push({ key: node.key, low: node.low, high: node.high });
    const following = reverse ? node.previous : node.next[0];
    if (following) fronts[best] = following;
    else fronts.splice(best, 1);
  }
  return found;
}

/** The lists of several pairs as one list in order. */
export function merge(lists: readonly OrderedSlot[][], reverse: boolean): OrderedSlot[] {
  if (lists.length === 1) return lists[0];
  const all = lists.flat();
  return all.sort((a, b) => (a.key < b.key === reverse ? 1 : -1));
}

function indexOfFirst(slots: readonly OrderedSlot[], reverse: boolean): number {
  let best = 0;
  for (let i = 1; i < slots.length; i++) {
    if (slots[i].key < slots[best].key !== reverse) best = i;
  }
  return best;
}

function first(list: Skiplist, { from, reverse }: ScanPart): SkiplistNode | undefined {
  if (from === undefined) return reverse ? list.last : list.atOrAfter('');
  const key = textOfKey(from.key);
  const at = list.atOrAfter(key);
  const isHere = at?.key === key;
  if (isHere && from.inclusive) return at;
  if (reverse) return list.lastBefore(key);
  return isHere ? at?.next[0] : at;
}
