import { Prng } from '../../random/prng.ts';
import type { Address } from '../../verbs/index.ts';
import { Skiplist, type SkiplistNode } from './skiplist.ts';
import { isEmpty } from './slot.ts';
import type { NamedSlot } from './table-walk.ts';

/** What the entries of a slot come to, one after the other. */
export interface Folded extends NamedSlot {
  /** Whether the slot has lost the key that it had before, if it had one. */
  rekeyed: boolean;
}

/** The partitions of a skiplist, and which of its nodes stands for which slot of the table. */
export class SkiplistImage {
  readonly partitions: readonly Skiplist[];
  #bySlot = new Map<Address, SkiplistNode>();

  constructor(partitions: number, seed: number) {
    this.partitions = Array.from({ length: partitions }, (_, i) => {
      return new Skiplist(Prng.fromSeed(seed).fork(i));
    });
  }

  get size(): number {
    return this.#bySlot.size;
  }

  nodes(): Iterable<SkiplistNode> {
    return this.#bySlot.values();
  }

  /** Slots that a walk has met, with their keys. */
  add(slots: readonly NamedSlot[], keys: readonly string[]): void {
    slots.forEach((slot, i) => {
      this.#insert(slot, keys[i]);
    });
  }

  /** Whether this change brings a key that is not in the skiplist. */
  wantsKeyOf({ slot, high, rekeyed }: Folded): boolean {
    return !isEmpty(high) && (rekeyed || !this.#bySlot.has(slot));
  }

  /**
   * `keys` are those of the changes that want one, in their order. A key may go from one slot to
   * another, and is in a skiplist once: first all that goes, then all that comes.
   */
  change(changes: readonly Folded[], keys: readonly string[]): void {
    const added = changes.filter((change) => this.wantsKeyOf(change));
    for (const { slot, low, high, rekeyed } of changes) {
      if (rekeyed || isEmpty(high)) this.#remove(slot);
      else if (this.#bySlot.has(slot)) Object.assign(this.#nodeOf(slot), { low, high });
    }
    added.forEach((change, i) => {
      this.#insert(change, keys[i]);
    });
  }

  /** The slots are elsewhere now: the new places in the order of the nodes. */
  relocate(slots: readonly Address[]): void {
    const bySlot = new Map<Address, SkiplistNode>();
    let i = 0;
    for (const node of this.#bySlot.values()) {
      node.slot = slots[i++];
      bySlot.set(node.slot, node);
    }
    this.#bySlot = bySlot;
  }

  #nodeOf(slot: Address): SkiplistNode {
    return this.#bySlot.get(slot) as SkiplistNode;
  }

  #insert({ slot, low, high }: NamedSlot, key: string): void {
    this.#bySlot.set(slot, this.#partitionOf(key).insert(key, slot, low, high));
  }

  #remove(slot: Address): void {
    const node = this.#bySlot.get(slot);
    if (node === undefined) return;
    this.#partitionOf(node.key).remove(node);
    this.#bySlot.delete(slot);
  }

  /** By a hash of the key (section 4.1), which no table changes. */
  #partitionOf(key: string): Skiplist {
    return this.partitions[partitionHash(key) % this.partitions.length];
  }
}

/** 32-bit FNV-1a. */
function partitionHash(key: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < key.length; i++) hash = Math.imul(hash ^ key.charCodeAt(i), 0x01000193);
  return hash >>> 0;
}
