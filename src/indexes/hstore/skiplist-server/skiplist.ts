import type { Prng } from '../../../random/prng.ts';
import { HASH_PADDING } from '../../../records/hash.ts';
import type { Operation } from '../../../verbs/index.ts';
import { compareKeys } from '../../substrates/key-range.ts';
import { type KeyBytes, type PaddedKey, paddedBytes } from '../protocol/record-heads.ts';
import type { NamedSlot } from '../protocol/slot.ts';

/** A basic skiplist (section 4.1) in the server's own memory, in the order of the keys' bytes. */
export class Skiplist {
  readonly #nodes: SkiplistNodes;
  readonly #head: number;
  #last = NONE;
  #levels = 1;
  /** On each level, the last node before the one that was last searched or inserted. */
  readonly #path = new Uint32Array(LEVELS_MAX);

  constructor(nodes: SkiplistNodes) {
    this.#nodes = nodes;
    this.#head = nodes.takeHead();
    this.#path.fill(this.#head);
  }

  /** The first node from a key on, or the last one below it; without a key from the end. */
  begin(from: Uint8Array | undefined, reverse: boolean): number {
    if (from === undefined) return reverse ? this.#last : this.#nodes.next(this.#head, 0);
    const before = this.#before({ u8: from, at: 0, bytes: from.length });
    if (!reverse) return this.#nodes.next(before, 0);
    return before === this.#head ? NONE : before;
  }

  insert(node: number): void {
    this.#before(this.#nodes.keyOf(node));
    this.#path.fill(this.#head, this.#levels);
    this.link(node);
  }

  /**
   * Links a node behind the nodes of the path, and replaces them in the path. So a list that is
   * only built by this method grows at its end.
   */
  link(node: number): void {
    const [nodes, path] = [this.#nodes, this.#path];
    const height = nodes.height(node);
    const [before] = path;
    const behind = nodes.next(before, 0);
    nodes.previous[node] = before === this.#head ? NONE : before;
    if (behind === NONE) this.#last = node;
    else nodes.previous[behind] = node;
    for (let level = 0; level < height; level++) {
      nodes.setNext(node, level, nodes.next(path[level], level));
      nodes.setNext(path[level], level, node);
      path[level] = node;
    }
    if (height > this.#levels) this.#levels = height;
  }

  /**
   * Removes this node, not any other with its key: while a skiplist is built from a changing table,
   * a key can be in it twice, by its old and its new slot.
   */
  remove(node: number): void {
    const [nodes, path] = [this.#nodes, this.#path];
    this.#before(nodes.keyOf(node));
    for (let level = 0; level < nodes.height(node); level++) {
      let before = path[level];
      while (nodes.next(before, level) !== node) before = nodes.next(before, level);
      nodes.setNext(before, level, nodes.next(node, level));
    }
    const behind = nodes.next(node, 0);
    if (behind === NONE) this.#last = nodes.previous[node];
    else nodes.previous[behind] = nodes.previous[node];
  }

  /** The last node before the key; sets the path to that of each level. */
  #before(key: KeyBytes): number {
    const nodes = this.#nodes;
    let node = this.#head;
    for (let level = this.#levels - 1; level >= 0; level--) {
      let next = nodes.next(node, level);
      while (next !== NONE && nodes.compare(next, key) < 0) {
        node = next;
        next = nodes.next(node, level);
      }
      this.#path[level] = node;
    }
    return node;
  }
}

/** No node. */
export const NONE = 0;
const LEVELS_MAX = 16;
const FIRST_CAPACITY = 16;

type Column = Float64Array | Int32Array | Uint32Array | Uint16Array | Uint8Array;

/** A longer copy of a column. */
function grown<T extends Column>(column: T, length: number): T {
  const longer = new (column.constructor as new (length: number) => T)(length);
  longer.set(column as never);
  return longer;
}

/**
 * The nodes of a pair's skiplists, as numbers. Each property is a column, so that ten million nodes
 * are a few arrays instead of objects. A freed node is reused for a key of the same size, with its
 * old height, which is as random as a new one.
 */
export class SkiplistNodes {
  readonly #prng: Prng;
  /** The keys' bytes, and the same memory as words and as text. */
  #keys = new Uint8Array(FIRST_CAPACITY * HASH_PADDING);
  #keyWords = new Int32Array(this.#keys.buffer);
  #keyTexts = Buffer.from(this.#keys.buffer);
  #keyUnitsUsed = 0;
  /** The slot of the hash table that has the key; 0 of heads, and of nodes that were given back. */
  slot = new Float64Array(FIRST_CAPACITY);
  /** The slot's word: which record the key has. */
  low = new Int32Array(FIRST_CAPACITY);
  high = new Int32Array(FIRST_CAPACITY);
  previous = new Uint32Array(FIRST_CAPACITY);
  /** Offset of a node's key in units of 16 bytes, so that it can be hashed in place. */
  #keyAt = new Uint32Array(FIRST_CAPACITY);
  #keyBytes = new Uint16Array(FIRST_CAPACITY);
  #height = new Uint8Array(FIRST_CAPACITY);
  /** Index in `#links` of a node's tower: its next nodes, level by level. */
  #tower = new Uint32Array(FIRST_CAPACITY);
  #links = new Uint32Array(2 * FIRST_CAPACITY);
  #linksUsed = 0;
  /** One more than the greatest number of a node. */
  end = 1;
  /** Nodes that were given back, by the units of their keys: lists through `previous`. */
  readonly #free = new Map<number, number>();

  constructor(prng: Prng) {
    this.#prng = prng;
  }

  /** A node for a key, in no list yet. */
  take({ slot, low, high }: NamedSlot, key: PaddedKey): number {
    const units = unitsOf(key.bytes);
    const free = this.#free.get(units) ?? NONE;
    const node = free === NONE ? this.#add(this.#drawHeight()) : free;
    if (free === NONE) this.#keyAt[node] = this.#takeUnits(units);
    else this.#free.set(units, this.previous[free]);
    this.#putKey(node, key);
    this.#keyBytes[node] = key.bytes;
    this.slot[node] = slot;
    this.low[node] = low;
    this.high[node] = high;
    return node;
  }

  /** The head of a list: on every level, it stands before all keys. */
  takeHead(): number {
    return this.#add(LEVELS_MAX);
  }

  /** Gives back a node that was removed from its list. */
  give(node: number): void {
    const units = unitsOf(this.#keyBytes[node]);
    this.slot[node] = 0;
    this.previous[node] = this.#free.get(units) ?? NONE;
    this.#free.set(units, node);
  }

  #add(height: number): number {
    if (this.end === this.slot.length) this.#growNodes(2 * this.end);
    if (this.#linksUsed + height > this.#links.length) {
      this.#links = grown(this.#links, 2 * this.#links.length + height);
    }
    const node = this.end++;
    this.#height[node] = height;
    this.#tower[node] = this.#linksUsed;
    this.#linksUsed += height;
    return node;
  }

  #takeUnits(units: number): number {
    const first = this.#keyUnitsUsed;
    this.#keyUnitsUsed += units;
    if (this.#keyUnitsUsed * HASH_PADDING > this.#keys.length) {
      this.#keys = grown(this.#keys, 2 * this.#keyUnitsUsed * HASH_PADDING);
      this.#keyWords = new Int32Array(this.#keys.buffer);
      this.#keyTexts = Buffer.from(this.#keys.buffer);
    }
    return first;
  }

  #putKey(node: number, { i32, at, bytes }: PaddedKey): void {
    const to = this.#keyOffset(node) / 4;
    for (let i = 0, from = at >> 2; i < paddedBytes(bytes) >> 2; i++) {
      this.#keyWords[to + i] = i32[from + i];
    }
  }

  #growNodes(capacity: number): void {
    this.slot = grown(this.slot, capacity);
    this.low = grown(this.low, capacity);
    this.high = grown(this.high, capacity);
    this.previous = grown(this.previous, capacity);
    this.#keyAt = grown(this.#keyAt, capacity);
    this.#keyBytes = grown(this.#keyBytes, capacity);
    this.#height = grown(this.#height, capacity);
    this.#tower = grown(this.#tower, capacity);
  }

  height(node: number): number {
    return this.#height[node];
  }

  next(node: number, level: number): number {
    return this.#links[this.#tower[node] + level];
  }

  setNext(node: number, level: number, next: number): void {
    this.#links[this.#tower[node] + level] = next;
  }

  #keyOffset(node: number): number {
    return this.#keyAt[node] * HASH_PADDING;
  }

  /** A byte of a node's key, -1 behind its end. */
  byteAt(node: number, depth: number): number {
    return depth < this.#keyBytes[node] ? this.#keys[this.#keyOffset(node) + depth] : -1;
  }

  /** A character for each byte of the key. */
  text(node: number): string {
    const at = this.#keyOffset(node);
    return this.#keyTexts.latin1Slice(at, at + this.#keyBytes[node]);
  }

  /** Good until a node is taken. */
  keyOf(node: number): PaddedKey {
    const at = this.#keyOffset(node);
    return { u8: this.#keys, i32: this.#keyWords, at, bytes: this.#keyBytes[node] };
  }

  /** Negative, 0 or positive as a node's key is before, at or after this one. */
  compare(node: number, { u8, at, bytes }: KeyBytes): number {
    return compareKeys(this.#keys, this.#keyOffset(node), this.#keyBytes[node], u8, at, bytes);
  }

  /** A quarter of the nodes of one level are in the next. */
  #drawHeight(): number {
    // Two bits for each level, of which a run of zeros leads up.
    const bits = this.#prng.next32();
    const zeros = bits === 0 ? 32 : 31 - Math.clz32(bits & -bits);
    return Math.min(LEVELS_MAX, 1 + (zeros >> 1));
  }
}

function unitsOf(bytes: number): number {
  return Math.max(1, paddedBytes(bytes) / HASH_PADDING);
}

/** Nodes to sort between two rounds of the server's other duties. */
const NODES_BETWEEN_DUTIES = 2 ** 18;

/** Nodes whose keys have the first `depth` bytes in common. */
interface Range {
  first: number;
  end: number;
  depth: number;
}

/**
 * Sorts nodes by the bytes of their keys: multikey quicksort (Bentley and Sedgewick 1997), which
 * compares shared prefixes only once. In between, a server does its other duties.
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

/** Orders nodes by their byte at `depth`: smaller than the pivot, equal, greater. */
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
