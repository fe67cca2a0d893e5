import { StepwellError } from '../../errors.ts';
import type { Bytes } from '../../records/codec.ts';
import { HEADER_BYTES } from '../../records/layout.ts';
import { type Address, Batch, type Operation } from '../../verbs/index.ts';
import { classOfHead } from '../substrates/record-io.ts';
import { fingerprintOf } from './geometry.ts';
import { countOf } from './hopscotch.ts';
import { KeyScale } from './key-scale.ts';
import { compareWhole, separatorOf } from './keys.ts';
import { thaw } from './leaf-entries.ts';
import { isFrozen } from './leaf-state.ts';
import { type KeyAt, mendWay, rootLink } from './mend.ts';
import { placeIn } from './merge-leaves.ts';
import {
  isInternal,
  isInUse,
  type Link,
  NewNodes,
  publishWritten,
  slotsOf,
  swing,
  type Visit,
  visit,
} from './node-io.ts';
import { frozenSlots } from './plan-node.ts';
import { rebuildLeaf } from './rebuild-leaf.ts';
import { cutAndStack } from './rebuild-node.ts';
import { distanceOf, lengthOf, recordOf, slotHigh, slotLow } from './slot.ts';
import { tidyOnce } from './tidy.ts';
import type { ChimeRequest, ChimeTree } from './tree.ts';

/** Leaves are left with room for insertions; a tree that grew is about as full. */
const FILL = 0.75;

/**
 * Fills an empty tree with records in strictly ascending order of their keys (not in the paper):
 * leaf by leaf, then the internal nodes, and at last one CAS makes all of it the tree. A round trip
 * a leaf. Until then nobody sees anything of it, and a client that dies leaves nothing but memory
 * for a sweep. Returns how many records there were.
 *
 * Raises SW_INVALID_ARGUMENT when the tree is not empty, or for a key that is not above the one
 * before it: then, and when the iterable throws or the pool is full, nothing is stored.
 */
export function* bulkLoad(
  tree: ChimeTree,
  entries: Iterable<readonly [Bytes, Bytes]>,
  version: number,
): Operation<number> {
  tree.cache.begin();
  yield* emptyRoot(tree);
  const load = new Load(tree, version);
  try {
    for (const [key, value] of entries) yield* load.add(key, value);
    yield* load.publish();
    return load.records;
  } catch (error) {
    yield* load.giveUp();
    throw error;
  }
}

/** The root when it is a leaf without entries. */
function* emptyRoot(tree: ChimeTree) {
  for (let round = 1; ; round++) {
    tree.giveUpAfter(round);
    const root = yield* visit(tree, tree.root, yield* rootLink(tree));
    if (isInUse(tree, root) && isInternal(root.high)) {
      // Deletions may have left empty leaves: they become one, from the lowest on.
      if (yield* tidyOnce(tree, LOWEST)) continue;
      throw notEmpty();
    }
    if (isInUse(tree, root) && !isFrozen(tree, root)) {
      // A claim is no entry: who dies leaves it behind for ever.
      const slots = slotsOf(tree, root);
      thaw(slots);
      if (countOf(slots) === 0) return root;
      throw notEmpty();
    }
    // Somebody has begun to replace it, and may have died: what comes of it tells.
    yield* mendWay(tree, LOWEST, -1);
  }
}

function notEmpty(): StepwellError {
  return new StepwellError('SW_INVALID_ARGUMENT', 'only an empty store can be loaded in order');
}

const LOWEST: KeyAt = { u8: new Uint8Array(0), at: 0, bytes: 0 };

class Load {
  readonly #tree: ChimeTree;
  readonly #version: number;
  readonly #nodes: NewNodes;
  readonly #links: number[] = [];
  readonly #separators: Uint8Array[] = [];
  readonly #scale = new KeyScale();
  /** Each has one record of the leaf that is being filled. */
  readonly #requests: ChimeRequest[] = [];
  #slots: Int32Array;
  #inLeaf = 0;
  #last: Uint8Array | undefined;
  /** Whether others may have seen all of it: then nothing may be given back any more. */
  #exposed = false;
  records = 0;

  constructor(tree: ChimeTree, version: number) {
    this.#tree = tree;
    this.#version = version;
    this.#nodes = new NewNodes(tree);
    this.#slots = new Int32Array(2 * tree.geometry.shape.span);
  }

  *add(key: Bytes, value: Bytes): Operation<void> {
    const tree = this.#tree;
    const { span, seed } = tree.geometry.shape;
    this.#requests[this.#inLeaf] ??= tree.newRequest();
    const request = this.#requests[this.#inLeaf];
    tree.records.encode(request, key, value, seed, this.#version);
    const bytes = request.outgoing.u8.slice(HEADER_BYTES, HEADER_BYTES + request.keyBytes);
    if (this.#last !== undefined && compareWhole(this.#last, bytes) >= 0) {
      throw outOfOrder(this.#last, bytes, this.records + 1);
    }
    yield* tree.records.allocate(request);
    this.#inLeaf++;
    if (this.#inLeaf > FILL * span || !this.#place(request)) {
      const separator = separatorOf(this.#last as Uint8Array, bytes);
      yield* this.#endLeaf(this.#inLeaf - 1, separator);
      this.#separators.push(separator);
      // The record that did not fit is the first of the next leaf.
      const first = this.#requests.indexOf(request);
      [this.#requests[0], this.#requests[first]] = [request, this.#requests[0]];
      this.#inLeaf = 1;
      this.#place(request);
    }
    this.#last = bytes;
    this.records++;
  }

  /** Without its hint: where the leaf ends is not known yet. */
  #place({ block, hash, headUnits }: ChimeRequest): boolean {
    const { geometry } = this.#tree;
    const high = slotHigh(block, fingerprintOf(hash.h1), headUnits, 0, 0);
    const entry = { low: slotLow(block), high, home: geometry.homeOf(hash.h2) };
    const slots = this.#slots.slice();
    if (!placeIn(slots, entry, geometry.shape.neighbourhood)) return false;
    this.#slots = slots;
    return true;
  }

  /**
   * What the leaf's slots say of its records, now that its borders are known: hints, and blocks in
   * the order of the slots, so that a scan finds records side by side that it reads in that order.
   */
  #settle(count: number, upper: Uint8Array | undefined): void {
    const lower = this.#separators[this.#separators.length - 1] ?? LOWEST.u8;
    const scale = this.#scale.set({ lower, upper });
    const slots = this.#slots;
    const byBlock = new Map<Address, ChimeRequest>();
    for (const request of this.#requests.slice(0, count)) byBlock.set(request.block, request);
    const bySlot: ChimeRequest[] = [];
    const words: number[] = [];
    for (let i = 0; i < slots.length; i += 2) {
      const request = byBlock.get(recordOf(slots[i], slots[i + 1]));
      if (request === undefined) continue;
      bySlot.push(request);
      words.push(i);
    }
    lineUp(bySlot);
    bySlot.forEach(({ block, hash, headUnits, outgoing, keyBytes }, number) => {
      const i = words[number];
      const hint = scale.hintOf(outgoing.u8, HEADER_BYTES, HEADER_BYTES + keyBytes);
      const distance = distanceOf(slots[i + 1]);
      slots[i] = slotLow(block);
      slots[i + 1] = slotHigh(block, fingerprintOf(hash.h1), headUnits, distance, hint);
    });
  }

  /** Writes the records of a leaf, and the leaf, whose keys are below `upper`. */
  *#endLeaf(count: number, upper: Uint8Array | undefined): Operation<void> {
    const tree = this.#tree;
    this.#settle(count, upper);
    const { low, high } = this.#nodes.leafAt(yield* this.#nodes.allocateLeaf(), this.#slots);
    const batch = new Batch();
    for (let i = 0; i < count; i++) tree.records.post(this.#requests[i], batch);
    yield this.#nodes.post(batch);
    for (let i = 0; i < count; i++) this.#requests[i].forgetBlock();
    this.#links.push(low, high);
    this.#slots = new Int32Array(this.#slots.length);
    this.#inLeaf -= count;
  }

  /** Replaces the empty root by all of it. */
  *publish(): Operation<void> {
    if (this.records === 0) return;
    const tree = this.#tree;
    yield* this.#endLeaf(this.#inLeaf, undefined);
    const links = Int32Array.from(this.#links);
    const top = yield* this.#topOf({ low: links[0], high: links[1] }, links);
    const batch = this.#nodes.post(new Batch());
    if (batch.length > 0) yield batch;
    for (let round = 1; ; round++) {
      tree.giveUpAfter(round);
      const root = yield* emptyRoot(tree);
      const entries = countOf(yield* frozenSlots(tree, root));
      if (entries > 0) yield* rebuildLeaf(tree, root, -1);
      else if (yield* this.#expose(root, top)) {
        yield* swing(tree, root, top, [root]);
        return tree.cache.forget();
      }
    }
  }

  /** Also when the CAS raises: it may have been done. */
  *#expose(root: Visit, top: Link): Operation<boolean> {
    this.#exposed = true;
    this.#exposed = yield* publishWritten(this.#tree, root, top);
    if (this.#exposed) this.#nodes.keep();
    return this.#exposed;
  }

  *#topOf(only: Link, links: Int32Array): Operation<Link> {
    if (links.length === 2) return only;
    const routes = { links, separators: this.#separators };
    return yield* cutAndStack(this.#tree, this.#nodes, routes, 0, true);
  }

  /** Gives back what nobody has seen. */
  *giveUp(): Operation<void> {
    if (this.#exposed) return;
    const { records, geometry, allocator, catalog } = this.#tree;
    for (const request of this.#requests) records.discard(request);
    const request = this.#tree.newRequest();
    for (let leaf = 0; leaf < this.#links.length; leaf += 2) {
      const link = { low: this.#links[leaf], high: this.#links[leaf + 1] };
      const slots = slotsOf(this.#tree, yield* visit(this.#tree, 0, link));
      for (let i = 0; i < slots.length; i += 2) {
        if (slots[i] === 0 && slots[i + 1] === 0) continue;
        const record = recordOf(slots[i], slots[i + 1]);
        yield* records.adopt(request, record, lengthOf(slots[i + 1]), geometry.shape.seed);
        for (const { address, units } of yield* records.foundBlocks(request, record)) {
          allocator.sizeClass(catalog, units).cache.push(address);
        }
      }
    }
    this.#nodes.discard();
  }
}

/** Shares the blocks of some records out among them anew, in ascending order by size. */
function lineUp(requests: readonly ChimeRequest[]): void {
  const blocks = new Map<number, Address[]>();
  for (const { block, headUnits } of requests) {
    const size = classOfHead(headUnits);
    blocks.set(size, [...(blocks.get(size) ?? []), block]);
  }
  for (const same of blocks.values()) same.sort((a, b) => b - a);
  for (const request of requests) {
    request.block = blocks.get(classOfHead(request.headUnits))?.pop() as Address;
  }
}

/** Keys are shown as text, cut short, where they are text. */
function outOfOrder(last: Uint8Array, key: Uint8Array, number: number): StepwellError {
  const shown = (bytes: Uint8Array) =>
    JSON.stringify(Buffer.from(bytes.subarray(0, 40)).toString());
  const order = compareWhole(last, key) === 0 ? 'is there twice' : `comes behind ${shown(last)}`;
  const text = `record ${number} is out of order: the key ${shown(key)} ${order}`;
  return new StepwellError('SW_INVALID_ARGUMENT', text);
}
