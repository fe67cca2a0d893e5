import type { Prng } from '../../../random/prng.ts';
import type { KeyBytes, PaddedKey } from '../protocol/record-keys.ts';
import type { NamedSlot } from '../protocol/slot.ts';
import { KeyHeap, offsetOf, unitsOf } from './key-heap.ts';

/** No node. */
export const NONE = 0;
export const LEVELS_MAX = 16;
const FIRST_CAPACITY = 16;

type Column = Float64Array | Int32Array | Uint32Array | Uint16Array | Uint8Array;

/** A longer array with what was in the column. */
function grown<T extends Column>(column: T, length: number): T {
  const longer = new (column.constructor as new (length: number) => T)(length);
  longer.set(column as never);
  return longer;
}

/**
 * The nodes of the skiplists of a pair: numbers, with a column for each of their properties, so
 * that ten million of them are a few dozen arrays and not objects. A node that was given back is
 * taken again for a key that needs as much room, with its height, which is as random as a new one.
 */
export class SkiplistNodes {
  readonly #prng: Prng;
  readonly #heap = new KeyHeap();
  /** The slot of the hash table that has the key; 0 of heads, and of nodes that were given back. */
  slot = new Float64Array(FIRST_CAPACITY);
  /** The slot's word: which record the key has. */
  low = new Int32Array(FIRST_CAPACITY);
  high = new Int32Array(FIRST_CAPACITY);
  previous = new Uint32Array(FIRST_CAPACITY);
  #place = new Uint32Array(FIRST_CAPACITY);
  #keyBytes = new Uint16Array(FIRST_CAPACITY);
  #height = new Uint8Array(FIRST_CAPACITY);
  /** Where a node's tower is: its next nodes, level by level. */
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
    if (free === NONE) this.#place[node] = this.#heap.take(key.bytes);
    else this.#free.set(units, this.previous[free]);
    this.#heap.put(this.#place[node], key);
    this.#keyBytes[node] = key.bytes;
    this.slot[node] = slot;
    this.low[node] = low;
    this.high[node] = high;
    return node;
  }

  /** The head of a list: before all keys, on every level. */
  takeHead(): number {
    return this.#add(LEVELS_MAX);
  }

  /** Gives back a node that is in no list any more. */
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

  #growNodes(capacity: number): void {
    this.slot = grown(this.slot, capacity);
    this.low = grown(this.low, capacity);
    this.high = grown(this.high, capacity);
    this.previous = grown(this.previous, capacity);
    this.#place = grown(this.#place, capacity);
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

  keyBytes(node: number): number {
    return this.#keyBytes[node];
  }

  /** The bytes among which a node's key stands, from `keyOffset` on. */
  keyPage(node: number): Uint8Array {
    return this.#heap.bytesAt(this.#place[node]);
  }

  keyWords(node: number): Int32Array {
    return this.#heap.wordsAt(this.#place[node]);
  }

  keyOffset(node: number): number {
    return offsetOf(this.#place[node]);
  }

  /** A character for each byte of the key. */
  text(node: number): string {
    return this.#heap.textAt(this.#place[node], this.#keyBytes[node]);
  }

  keyOf(node: number): KeyBytes {
    return { u8: this.keyPage(node), at: this.keyOffset(node), bytes: this.#keyBytes[node] };
  }

  /**
   * Negative, 0 or positive as a node's key is before, at or after this one; of what is known to be
   * equal, the first `depth` bytes need not be compared.
   */
  compare(node: number, key: KeyBytes, depth = 0): number {
    const { u8, at, bytes } = key;
    const place = this.#place[node];
    const page = this.#heap.bytesAt(place);
    const offset = offsetOf(place);
    const own = this.#keyBytes[node];
    const shared = Math.min(own, bytes);
    for (let i = depth; i < shared; i++) {
      const difference = page[offset + i] - u8[at + i];
      if (difference !== 0) return difference;
    }
    return own - bytes;
  }

  /** A quarter of the nodes of one level are in the next. */
  #drawHeight(): number {
    // Two bits for each level, of which a run of zeros leads up.
    const bits = this.#prng.next32();
    const zeros = bits === 0 ? 32 : 31 - Math.clz32(bits & -bits);
    return Math.min(LEVELS_MAX, 1 + (zeros >> 1));
  }
}
