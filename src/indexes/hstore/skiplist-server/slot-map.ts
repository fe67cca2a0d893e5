import { invariant } from '../../../errors.ts';
import { NONE, type SkiplistNodes } from './skiplist.ts';

const FIRST_CAPACITY = 16;
/** Slots of one such block of the table are neighbours here too, which saves cache misses. */
const BLOCK_BYTES = 512;

/**
 * Maps slots to nodes: open addressing with linear probing, at most half full. The slots are in the
 * nodes. A Map of ten million addresses takes ten times as long.
 */
export class SlotMap {
  /** Its column `slot` has the keys of the map. */
  readonly #nodes: SkiplistNodes;
  #table: Uint32Array;
  size = 0;

  /** `expected` entries fit without growing. */
  constructor(nodes: SkiplistNodes, expected = 0) {
    this.#nodes = nodes;
    let capacity = FIRST_CAPACITY;
    while (capacity < 2 * expected) capacity *= 2;
    this.#table = new Uint32Array(capacity);
  }

  /** The node that has this slot, or NONE. */
  get(slot: number): number {
    return this.#table[this.#find(slot)];
  }

  has(slot: number): boolean {
    return this.get(slot) !== NONE;
  }

  /** Enters a node under its slot, which is not in the map. */
  add(node: number): void {
    if (2 * (this.size + 1) > this.#table.length) this.#grow();
    const at = this.#find(this.#nodes.slot[node]);
    invariant(this.#table[at] === NONE, 'two nodes of a skiplist stand for one slot');
    this.#table[at] = node;
    this.size++;
  }

  /** Moves later entries into the gap, so that no search ends there. */
  delete(slot: number): void {
    const table = this.#table;
    const mask = table.length - 1;
    let gap = this.#find(slot);
    if (table[gap] === NONE) return;
    this.size--;
    for (let at = (gap + 1) & mask; table[at] !== NONE; at = (at + 1) & mask) {
      const distance = (at - this.#home(this.#nodes.slot[table[at]])) & mask;
      if (distance < ((at - gap) & mask)) continue;
      table[gap] = table[at];
      gap = at;
    }
    table[gap] = NONE;
  }

  #grow(): void {
    const entries = this.#table;
    this.#table = new Uint32Array(2 * entries.length);
    for (const node of entries) {
      if (node !== NONE) this.#table[this.#find(this.#nodes.slot[node])] = node;
    }
  }

  /** Where the slot is, or would be. */
  #find(slot: number): number {
    const table = this.#table;
    const { slot: slots } = this.#nodes;
    const mask = table.length - 1;
    let at = this.#home(slot);
    while (table[at] !== NONE && slots[table[at]] !== slot) at = (at + 1) & mask;
    return at;
  }

  #home(slot: number): number {
    const block = Math.floor(slot / BLOCK_BYTES);
    const hash = Math.imul(block | 0, 0x9e3779b1);
    const within = (slot - BLOCK_BYTES * block) >> 3;
    return ((hash ^ (hash >>> 15)) + within) & (this.#table.length - 1);
  }
}
