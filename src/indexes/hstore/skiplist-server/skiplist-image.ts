import { invariant } from '../../../errors.ts';
import { Prng } from '../../../random/prng.ts';
import type { Operation } from '../../../verbs/index.ts';
import { type Folded, FoldedLog } from '../protocol/log.ts';
import type { PairAccess } from '../protocol/pair-access.ts';
import { readState } from '../protocol/pair-state.ts';
import { type PaddedKey, readKeys } from '../protocol/record-heads.ts';
import type { ScanPart } from '../protocol/scan-messages.ts';
import { isEmpty, type NamedSlot } from '../protocol/slot.ts';
import type { Word } from '../protocol/word.ts';
import { NONE, Skiplist, SkiplistNodes, sortByKey } from './skiplist.ts';
import { SlotMap } from './slot-map.ts';

/** Nodes to handle between two rounds of the server's other duties. */
const NODES_BETWEEN_DUTIES = 2 ** 16;

/** A key as text (`textOfKey`), and the slot's word that names its record. */
export interface OrderedSlot extends Word {
  readonly key: string;
}

/**
 * The partitions of a skiplist, and the node of each slot of the table. `add` takes the slots that
 * a walk finds, in any order. Then `link` sorts them, once. Later there are only changes.
 */
export class SkiplistImage {
  readonly nodes: SkiplistNodes;
  readonly partitions: readonly Skiplist[];
  /** The node of each slot. A rebuild of the table replaces it once all nodes have new slots. */
  bySlot: SlotMap;

  constructor(partitions: number, seed: number) {
    this.nodes = new SkiplistNodes(Prng.fromSeed(seed));
    this.partitions = Array.from({ length: partitions }, () => new Skiplist(this.nodes));
    this.bySlot = new SlotMap(this.nodes);
  }

  add(slot: NamedSlot, key: PaddedKey): void {
    this.nodes.take(slot, key);
  }

  /**
   * Puts all added nodes into the lists. Sorts them first, so that it can append each to its list:
   * inserting a million one by one takes ten times as long.
   */
  *link(meanwhile: () => Operation<void>): Operation<void> {
    const { nodes, partitions } = this;
    this.bySlot = new SlotMap(nodes, nodes.end);
    const order = new Uint32Array(nodes.end);
    let count = 0;
    for (let node = 1; node < nodes.end; node++) {
      if (node % NODES_BETWEEN_DUTIES === 0) yield* meanwhile();
      if (nodes.slot[node] === 0) continue;
      this.bySlot.add(node);
      order[count++] = node;
    }
    yield* sortByKey(nodes, order.subarray(0, count), meanwhile);
    for (let i = 0; i < count; i++) {
      if (i % NODES_BETWEEN_DUTIES === 0) yield* meanwhile();
      partitions[this.#partitionOf(order[i])].link(order[i]);
    }
  }

  /** The nodes of the next `count` keys, merged from all partitions. */
  collect({ from, reverse, count }: ScanPart): number[] {
    const { nodes, partitions } = this;
    const fronts = partitions
      .map((list) => list.begin(from, reverse))
      .filter((node) => node !== NONE);
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

  orderedSlot(node: number): OrderedSlot {
    const { nodes } = this;
    return { key: nodes.text(node), low: nodes.low[node], high: nodes.high[node] };
  }

  /** Whether applying this change needs its key, because the slot has a new one. */
  wantsKeyOf({ slot, high, rekeyed }: Folded): boolean {
    return !isEmpty(high) && (rekeyed || !this.bySlot.has(slot));
  }

  /**
   * Applies changes; `keys` are those of the changes that need one (`wantsKeyOf`), in order. It
   * removes nodes before it adds any, because a key may move to another slot and must not be in
   * the skiplist twice.
   */
  change(changes: readonly Folded[], keys: readonly PaddedKey[]): void {
    const { nodes } = this;
    const added = changes.filter((change) => this.wantsKeyOf(change));
    invariant(keys.length === added.length, 'a skiplist lacks the key of a new record');
    for (const { slot, low, high, rekeyed } of changes) {
      const node = this.bySlot.get(slot);
      if (node === NONE) continue;
      if (rekeyed || isEmpty(high)) this.#remove(node);
      else {
        nodes.low[node] = low;
        nodes.high[node] = high;
      }
    }
    for (const [i, slot] of added.entries()) {
      const node = nodes.take(slot, keys[i]);
      this.bySlot.add(node);
      this.partitions[this.#partitionOf(node)].insert(node);
    }
  }

  #remove(node: number): void {
    this.bySlot.delete(this.nodes.slot[node]);
    this.partitions[this.#partitionOf(node)].remove(node);
    this.nodes.give(node);
  }

  /** By a hash of the key (section 4.1) that is the same for every table: 32-bit FNV-1a. */
  #partitionOf(node: number): number {
    const { nodes, partitions } = this;
    if (partitions.length === 1) return 0;
    const { u8, at, bytes } = nodes.keyOf(node);
    let hash = 0x811c9dc5;
    for (let i = at; i < at + bytes; i++) hash = Math.imul(hash ^ u8[i], 0x01000193);
    return (hash >>> 0) % partitions.length;
  }
}

/**
 * The skiplist of a pair in this process's memory, which follows the log. It has the keys in order
 * and, for each, its slot and record as of sequence `applied`. It is lost with its process; a new
 * one is built from the hash table and the records in the pool (skiplist-server.ts).
 */
export class SkiplistCopy {
  readonly #pair: PairAccess;
  image: SkiplistImage;
  /** The last sequence of the log that is in the skiplist; -1 before it was built. */
  applied = -1;
  /** The generation of the table that its slots belong to. */
  generation = 0;
  rebuilds = 0;
  /** Whether an operation of this client is applying the log or rebuilding the skiplist. */
  isAdvancing = false;
  /** Counts up while that operation makes progress. */
  progress = 0;

  constructor(pair: PairAccess) {
    this.#pair = pair;
    this.image = this.empty();
  }

  empty(): SkiplistImage {
    const { partitions, seed } = this.#pair.geometry.shape;
    return new SkiplistImage(partitions, seed);
  }

  /** Replaces the skiplist by a rebuilt one, unless an interleaved operation has a later one. */
  install(image: SkiplistImage, generation: number, committed: number): void {
    if (this.generation > generation || this.has(generation, committed)) return;
    this.image = image;
    this.generation = generation;
    this.applied = committed;
  }

  /**
   * Whether the skiplist has all changes of this generation's table up to this sequence. So has one
   * of a later generation, whose table began with all that was committed to the earlier one.
   */
  has(generation: number, committed: number): boolean {
    return this.generation >= generation && this.applied >= committed;
  }

  /** Applies the log up to `target`. False if the table was replaced, or the log overwritten. */
  *followLog(generation: number, target: number): Operation<boolean> {
    while (this.applied >= 0 && this.generation === generation) {
      if (this.applied >= target) return true;
      // Loops if an interleaved operation has applied a part of the log meanwhile.
      const from = this.applied;
      const log = new FoldedLog(this.#pair.geometry, from);
      if (!(yield* log.follow(target))) return false;
      yield* this.#apply(from, target, log.changes);
    }
    return false;
  }

  /** Applies the committed part of the log if that is possible without waiting. */
  *keepUp(): Operation<void> {
    if (this.isAdvancing) return;
    this.isAdvancing = true;
    try {
      const { committed, table } = yield* readState(this.#pair);
      yield* this.followLog(table.generation, committed);
    } finally {
      this.isAdvancing = false;
    }
  }

  /**
   * Takes the skiplist from one sequence to a later one. It reads the keys first. Their records
   * cannot be freed yet, because each is its slot's last one up to a sequence that was committed
   * after this operation began. Then it applies all changes at once, unless an interleaved
   * operation has done so.
   */
  *#apply(from: number, target: number, changes: readonly Folded[]): Operation<void> {
    const image = this.image;
    const keys = yield* readKeys(changes.filter((change) => image.wantsKeyOf(change)));
    if (this.applied !== from || this.image !== image) return;
    image.change(changes, keys);
    this.applied = target;
  }
}
