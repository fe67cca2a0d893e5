import type { Operation } from '../../../verbs/index.ts';
import type { SkiplistNodes } from './skiplist-nodes.ts';

/** Bytes of a key that are sorted by at once: with what is packed beside them, 64 bits. */
const WORD_BYTES = 5;
const INDEX_BITS = 20;
/** Nodes between two looks at other duties. */
const NODES_BETWEEN_DUTIES = 2 ** 18;

export interface SortLimits {
  /** Nodes that are sorted by a word at once: no more than its index can tell. */
  native: number;
  /** So few are sorted by insertion. */
  insertion: number;
}

const LIMITS: SortLimits = { native: 2 ** INDEX_BITS, insertion: 24 };

/** Nodes whose keys have the first `depth` bytes in common. */
interface Range {
  first: number;
  end: number;
  depth: number;
}

/**
 * Sorts nodes by the bytes of their keys. Too many for one word's index are dealt out by their next
 * byte; the others are sorted by the next 5 bytes at once, as 64-bit numbers, which the engine does
 * natively; what is equal in these, by those behind. Between the parts a server does its duties.
 */
export function* sortByKey(
  nodes: SkiplistNodes,
  order: Uint32Array,
  meanwhile: () => Operation<void>,
  limits = LIMITS,
): Operation<void> {
  const open: Range[] = [{ first: 0, end: order.length, depth: 0 }];
  let sorted = 0;
  for (let range = open.pop(); range; range = open.pop()) {
    const { first, end, depth } = range;
    const part = order.subarray(first, end);
    if (part.length <= limits.insertion) insertionSort(nodes, part, depth);
    else {
      const sort = part.length <= limits.native ? sortByWord : dealOutByByte;
      for (const { first: from, end: to, depth: next } of sort(nodes, part, depth)) {
        const isAll = to - from === part.length;
        const deeper = isAll ? sharedBytes(nodes, part, next) : next;
        open.push({ first: first + from, end: first + to, depth: deeper });
      }
    }
    sorted += part.length;
    if (sorted < NODES_BETWEEN_DUTIES) continue;
    sorted = 0;
    yield* meanwhile();
  }
}

/** Returns the ranges that are equal in this byte, and go on behind it. */
function dealOutByByte(nodes: SkiplistNodes, part: Uint32Array, depth: number): Range[] {
  // The first digit is that of keys which have ended: they come first, and are all equal.
  const digits = new Uint16Array(part.length);
  const ends = new Uint32Array(257);
  part.forEach((node, i) => {
    const isOver = depth >= nodes.keyBytes(node);
    digits[i] = isOver ? 0 : 1 + nodes.keyPage(node)[nodes.keyOffset(node) + depth];
    ends[digits[i]]++;
  });
  for (let digit = 1; digit < ends.length; digit++) ends[digit] += ends[digit - 1];
  const next = new Uint32Array(257);
  next.set(ends.subarray(0, 256), 1);
  const dealt = new Uint32Array(part.length);
  part.forEach((node, i) => {
    dealt[next[digits[i]]++] = node;
  });
  part.set(dealt);
  const ranges: Range[] = [];
  for (let digit = 1; digit < ends.length; digit++) {
    const first = ends[digit - 1];
    if (ends[digit] - first > 1) ranges.push({ first, end: ends[digit], depth: depth + 1 });
  }
  return ranges;
}

/**
 * A number for each node, from the highest bit down: 5 bytes of its key (zeros behind its end) |
 * how many there are, at most 6: 4 bits | its index: 20 bits. So of two keys that differ in nothing
 * but zeros at the end, the shorter one is less. Returns the ranges that are equal in these and
 * go on.
 */
function sortByWord(nodes: SkiplistNodes, part: Uint32Array, depth: number): Range[] {
  const numbers = new BigUint64Array(part.length);
  const halves = new Uint32Array(numbers.buffer);
  part.forEach((node, i) => {
    const page = nodes.keyPage(node);
    const at = nodes.keyOffset(node) + depth;
    const left = nodes.keyBytes(node) - depth;
    const byte = (k: number) => (k < left ? page[at + k] : 0);
    halves[2 * i + 1] = (byte(0) << 24) | (byte(1) << 16) | (byte(2) << 8) | byte(3);
    halves[2 * i] = (byte(4) << 24) | (Math.min(left, WORD_BYTES + 1) << INDEX_BITS) | i;
  });
  numbers.sort();
  const before = part.slice();
  const indexMask = 2 ** INDEX_BITS - 1;
  const ranges: Range[] = [];
  let first = 0;
  for (let i = 0; i < part.length; i++) {
    part[i] = before[halves[2 * i] & indexMask];
    if (i + 1 < part.length && areEqual(halves, i, i + 1)) continue;
    const goesOn = ((halves[2 * i] >>> INDEX_BITS) & 15) > WORD_BYTES;
    if (goesOn && i > first) ranges.push({ first, end: i + 1, depth: depth + WORD_BYTES });
    first = i + 1;
  }
  return ranges;
}

/** But for their indexes. */
function areEqual(halves: Uint32Array, a: number, b: number): boolean {
  const isSame = halves[2 * a + 1] === halves[2 * b + 1];
  return isSame && halves[2 * a] >>> INDEX_BITS === halves[2 * b] >>> INDEX_BITS;
}

function insertionSort(nodes: SkiplistNodes, part: Uint32Array, depth: number): void {
  for (let i = 1; i < part.length; i++) {
    const node = part[i];
    const key = nodes.keyOf(node);
    let at = i;
    while (at > 0 && nodes.compare(part[at - 1], key, depth) > 0) {
      part[at] = part[at - 1];
      at--;
    }
    part[at] = node;
  }
}

/** How many bytes all keys have in common, which have `depth` of them. */
function sharedBytes(nodes: SkiplistNodes, part: Uint32Array, depth: number): number {
  const one = nodes.keyOf(part[0]);
  let shared = one.bytes;
  for (const node of part) {
    const page = nodes.keyPage(node);
    const at = nodes.keyOffset(node);
    shared = Math.min(shared, nodes.keyBytes(node));
    let i = depth;
    while (i < shared && page[at + i] === one.u8[one.at + i]) i++;
    shared = i;
  }
  return shared;
}
