import { StepwellError } from '../../errors.ts';
import { INTENT_BYTES } from '../../pool/layout.ts';
import type { Bytes } from '../../records/codec.ts';
import { HEADER_BYTES } from '../../records/layout.ts';
import {
  type Address,
  Batch,
  NULL_ADDRESS,
  type Operation,
  Scratch,
  UNIT_BYTES,
} from '../../verbs/index.ts';
import { carryOut, encodeItem } from '../substrates/leaf/change-leaf.ts';
import {
  hopsOf,
  isEmpty,
  isIndirect,
  itemHigh,
  linesOf,
  recordOf,
  setHops,
} from '../substrates/leaf/entry.ts';
import { BOUNDS_AT } from '../substrates/leaf/layout.ts';
import { prepareItem } from '../substrates/leaf/leaf-operations.ts';
import { IMAGE_AT } from '../substrates/leaf/leaf-request.ts';
import { letGo, lockLeaf } from '../substrates/leaf/lock-leaf.ts';
import { makeRoom } from '../substrates/leaf/make-room.ts';
import { countItems } from '../substrates/leaf/picture.ts';
import { imageOf, prepare } from '../substrates/leaf/read-leaf.ts';
import { newLeaf, writeReplicas } from '../substrates/leaf/split-leaf.ts';
import { isLong, siblingIn, writePivot, writeSibling } from './bounds.ts';
import { unitsFor } from './geometry.ts';
import { mergeOnce } from './merge/merge-underfull.ts';
import { finishPending } from './nodes/finish-pending.ts';
import { PackedSeparators } from './nodes/internal-node.ts';
import { compareWhole, separatorOf } from './nodes/keys.ts';
import { addressOfLink, isInternal, isSameLeaf, type Link, leafLink } from './nodes/link.ts';
import {
  freeze,
  isInUse,
  NewNodes,
  publish,
  rootLink,
  routesOf,
  swing,
  visit,
} from './nodes/node-io.ts';
import { cutAndStack } from './nodes/rebuild-node.ts';
import type { KeyAt } from './nodes/siblings.ts';
import type { ChimeRequest } from './request.ts';
import { addRewrite, noteVacancy, rewriteBytes } from './rewrite-leaf.ts';
import type { ChimeTree } from './tree.ts';

/** How full to make leaves: later insertions need room. */
const FILL = 0.75;
const LOWEST: KeyAt = { u8: new Uint8Array(0), at: 0, bytes: 0 };

/**
 * Fills an empty tree with records in strictly ascending order of their keys (not in the paper).
 * Writes the leaves one by one, a round trip each, as a chain of siblings that no other client
 * knows. Then one intent on the empty leaf gives it the first records and the link to the chain: a
 * split with many siblings, all or nothing. Last, the root is replaced by nodes that have all
 * leaves. Returns the number of records.
 *
 * Raises SW_INVALID_ARGUMENT if the tree is not empty, or for a key that is not above the previous
 * one. Then, and if the iterable throws or the pool is full, nothing is stored.
 */
export function* bulkLoad(
  tree: ChimeTree,
  entries: Iterable<readonly [Bytes, Bytes]>,
  version: number,
): Operation<number> {
  const load = new Load(tree, yield* onlyLeaf(tree), version);
  try {
    for (const [key, value] of entries) yield* load.add(key, value);
    yield* load.publish();
    return load.records;
  } catch (error) {
    yield* load.giveUp();
    throw error;
  }
}

/** The only leaf of a tree. Whether it is empty is certain only under its lock. */
function* onlyLeaf(tree: ChimeTree): Operation<Link> {
  for (let round = 1; ; round++) {
    tree.giveUpAfter(round);
    const root = yield* visit(tree, tree.root, yield* rootLink(tree));
    if (isInUse(tree, root)) {
      const { links } = routesOf(root);
      const [low, high] = links;
      if (links.length === 2 && !isInternal(high)) return { low, high };
      // Deletions may have left several empty leaves: merges them, the lowest first.
      if (yield* mergeOnce(tree, LOWEST)) continue;
      throw notEmpty();
    }
    // Another client has begun to replace the root, and may have died: finish that first.
    yield* finishPending(tree, LOWEST);
  }
}

function notEmpty(): StepwellError {
  return new StepwellError('SW_INVALID_ARGUMENT', 'only an empty store can be loaded in order');
}

interface Block {
  address: Address;
  units: number;
}

class Load {
  readonly #tree: ChimeTree;
  readonly #version: number;
  readonly #nodes: NewNodes;
  /** The tree's empty leaf, with the image that it will get. */
  readonly #first: ChimeRequest;
  /** The leaf that is being filled; at first it is `#first`. */
  #leaf: ChimeRequest;
  readonly #links: number[] = [];
  readonly #separators: Uint8Array[] = [];
  /** One for each record of the leaf that is being filled. */
  readonly #requests: ChimeRequest[] = [];
  /** Blocks of leaves and pivots. Blocks of records are found through the leaves. */
  readonly #blocks: Block[] = [];
  #inLeaf = 0;
  #last: Uint8Array | undefined;

  /** Whether other clients may have seen the chain. Then nothing may be freed. */
  #exposed = false;
  records = 0;

  constructor(tree: ChimeTree, first: Link, version: number) {
    this.#tree = tree;
    this.#version = version;
    this.#nodes = new NewNodes(tree);
    this.#first = tree.newRequest();
    this.#leaf = this.#first;
    this.#begin(this.#first, first);
  }

  /** Turns the image of a request into an empty leaf. */
  #begin(leaf: ChimeRequest, link: Link): void {
    const { geometry } = this.#tree;
    this.#tree.aimAt(leaf, link);
    const image = new Scratch(geometry.leafBytes);
    newLeaf(geometry, leaf.leaf, link.high >>> 16, image);
    leaf.words.u8.set(image.u8.subarray(0, geometry.leafBytes), IMAGE_AT);
    leaf.known = geometry.shape.span;
    this.#links.push(link.low, link.high);
  }

  *add(key: Bytes, value: Bytes): Operation<void> {
    const tree = this.#tree;
    const { span } = tree.geometry.shape;
    this.#requests[this.#inLeaf] ??= tree.newRequest();
    const request = this.#requests[this.#inLeaf];
    tree.records.encode(request, key, value, this.#version);
    const bytes = request.outgoing.u8.slice(HEADER_BYTES, HEADER_BYTES + request.keyBytes);
    if (this.#last !== undefined && compareWhole(this.#last, bytes) >= 0) {
      throw outOfOrder(this.#last, bytes, this.records + 1);
    }
    prepare(tree, request);
    yield* prepareItem(tree, request);
    this.#inLeaf++;
    if (this.#inLeaf > FILL * span || !(yield* this.#place(request))) {
      const separator = separatorOf(this.#last as Uint8Array, bytes);
      yield* this.#endLeaf(this.#inLeaf - 1, separator);
      this.#separators.push(separator);
      // The record that did not fit is the first of the next leaf.
      const first = this.#requests.indexOf(request);
      [this.#requests[0], this.#requests[first]] = [request, this.#requests[0]];
      this.#inLeaf = 1;
      yield* this.#place(request);
    }
    this.#last = bytes;
    this.records++;
  }

  *#place(request: ChimeRequest): Operation<boolean> {
    const tree = this.#tree;
    const leaf = this.#leaf;
    const { words } = leaf;
    leaf.home = request.home;
    const free = yield* makeRoom(tree, leaf);
    if (free < 0) return false;
    request.idLow = leaf.idLow;
    request.idHigh = leaf.idHigh;
    encodeItem(tree, request, words, imageOf(tree, free), this.#version);
    const homeEntry = imageOf(tree, leaf.home);
    const distance = tree.geometry.distance(leaf.home, free);
    setHops(words, homeEntry, hopsOf(words, homeEntry) | (1 << distance));
    return true;
  }

  /** Writes a leaf's records and, except for the first leaf, the leaf. Begins the next one. */
  *#endLeaf(count: number, pivot: Uint8Array | undefined): Operation<void> {
    const { records } = this.#tree;
    const leaf = this.#leaf;
    const batch = new Batch();
    for (let i = 0; i < count; i++) {
      if (!this.#requests[i].inline) records.post(this.#requests[i], batch);
    }
    if (pivot !== undefined) yield* this.#link(leaf, pivot, batch);
    if (leaf !== this.#first) this.#post(leaf, batch);
    if (batch.length > 0) yield batch;
    for (let i = 0; i < count; i++) this.#requests[i].record.forgetBlock();
    this.#inLeaf -= count;
  }

  #post(leaf: ChimeRequest, batch: Batch): void {
    const { geometry } = this.#tree;
    noteVacancy(this.#tree, leaf.words);
    const image = new Scratch(geometry.leafBytes);
    image.u8.set(leaf.words.u8.subarray(IMAGE_AT, IMAGE_AT + geometry.leafBytes));
    writeReplicas(geometry, image);
    batch.write(leaf.leaf, geometry.leafBytes, image, 0);
  }

  /** Gives a leaf its pivot and the link to a new sibling, which is filled next. */
  *#link(leaf: ChimeRequest, pivot: Uint8Array, batch: Batch): Operation<void> {
    const tree = this.#tree;
    const address = yield* this.#allocate(tree.geometry.leafUnits);
    const next = leafLink(address, tree.newTag());
    const block = isLong(pivot.length) ? yield* this.#writeLongPivot(pivot, batch) : NULL_ADDRESS;
    const at = IMAGE_AT + BOUNDS_AT;
    writeSibling(leaf.words, at, next, 0);
    writePivot(leaf.words, at, pivot, block);
    this.#leaf = tree.newRequest();
    this.#begin(this.#leaf, next);
  }

  *#writeLongPivot(pivot: Uint8Array, batch: Batch): Operation<Address> {
    const block = yield* this.#allocate(unitsFor(pivot.length));
    const image = new Scratch(Math.ceil(pivot.length / UNIT_BYTES) * UNIT_BYTES);
    image.u8.set(pivot);
    batch.write(block, image.u8.length, image, 0);
    return block;
  }

  *#allocate(units: number): Operation<Address> {
    const address = yield* this.#tree.allocator.allocate(this.#tree.catalog, units);
    this.#blocks.push({ address, units });
    return address;
  }

  /** Links the new leaves and nodes into the tree. */
  *publish(): Operation<void> {
    if (this.records === 0) {
      yield* this.#fillFirst();
      return;
    }
    const tree = this.#tree;
    yield* this.#endLeaf(this.#inLeaf, undefined);
    const routes = {
      links: Int32Array.from(this.#links),
      separators: PackedSeparators.of(this.#separators),
      pair: 0,
    };
    const top = yield* cutAndStack(tree, this.#nodes, routes, 0, true);
    const batch = this.#nodes.post(new Batch());
    if (batch.length > 0) yield batch;
    yield* this.#fillFirst();
    if (!(yield* this.#replaceRoot(top))) yield* this.#linkAll();
    tree.cache.forget();
  }

  /** Locks the only leaf, checks that it is still empty, and writes its records and sibling. */
  *#fillFirst(): Operation<void> {
    const tree = this.#tree;
    const { allocator, catalog, geometry } = tree;
    const [low, high] = this.#links;
    const bytes = rewriteBytes(geometry, geometry.shape.span);
    const units = unitsFor(bytes);
    const request = tree.newRequest();
    let block = NULL_ADDRESS;
    try {
      if (bytes > INTENT_BYTES) block = yield* allocator.allocate(catalog, units);
      request.intent.ensure(bytes);
      request.setKey(LOWEST.u8, geometry.shape.seed);
      tree.aimAt(request, { low, high });
      const blocks = block === NULL_ADDRESS ? [] : [block];
      for (let attempt = 1; !(yield* lockLeaf(tree, request, attempt, blocks)); ) attempt++;
      const isOnly =
        isSameLeaf(low, high, request.leafLow, request.leafHigh) &&
        siblingIn(request.words, IMAGE_AT + BOUNDS_AT) === undefined;
      if (!isOnly || countItems(tree, request) > 0) throw notEmpty();
      if (this.records > 0) yield* this.#rewrite(request, block);
    } finally {
      if (block !== NULL_ADDRESS) allocator.discard(catalog, units, block);
      yield* letGo(tree, request);
    }
  }

  *#rewrite(request: ChimeRequest, block: Address): Operation<void> {
    const tree = this.#tree;
    const { geometry } = tree;
    const first = this.#first.words;
    const end = (IMAGE_AT + geometry.leafBytes) >> 2;
    const before = request.words.i32.slice(0, end);
    const entries = (IMAGE_AT + geometry.entryAt(0)) >> 2;
    request.words.i32.set(first.i32.subarray(entries, end), entries);
    const bounds = IMAGE_AT + BOUNDS_AT;
    addRewrite(tree, request, before, (memory, at) => {
      for (let i = 0; i < geometry.entryAt(0) - BOUNDS_AT && i < 32; i += 4) {
        memory.i32[(at + i) >> 2] = first.i32[(bounds + i) >> 2];
      }
    });
    this.#exposed = true;
    yield* carryOut(tree, request, block);
  }

  /** Replaces the root by the new nodes. False if it is no longer the node above the one leaf. */
  *#replaceRoot(top: Link): Operation<boolean> {
    const tree = this.#tree;
    const root = yield* visit(tree, tree.root, yield* rootLink(tree));
    const [low, high] = this.#links;
    const { links } = routesOf(root);
    const isSame =
      links.length === 2 &&
      links[0] === low &&
      addressOfLink(links[0], links[1]) === addressOfLink(low, high);
    if (!isInUse(tree, root) || !isSame) return this.#discardNodes();
    yield* freeze(tree, root);
    if (!(yield* publish(tree, root, this.#nodes, top))) return false;
    yield* swing(tree, root, top, [root]);
    return true;
  }

  #discardNodes(): false {
    this.#nodes.discard();
    return false;
  }

  /** Links siblings step by step, because other clients have begun to. */
  *#linkAll(): Operation<void> {
    for (const key of this.#separators) {
      if (!(yield* finishPending(this.#tree, { u8: key, at: 0, bytes: key.length }))) return;
    }
  }

  /** Frees everything, unless other clients may have seen it. */
  *giveUp(): Operation<void> {
    if (this.#exposed) return;
    const { records } = this.#tree;
    for (const request of this.#requests) records.discard(request);
    // The last leaf was never written, and its records were just given back.
    for (let leaf = 0; leaf + 2 < this.#links.length; leaf += 2) {
      const [low, high] = [this.#links[leaf], this.#links[leaf + 1]];
      yield* this.#giveBackRecords(addressOfLink(low, high), leaf === 0);
    }
    const { allocator, catalog } = this.#tree;
    for (const { address, units } of this.#blocks) allocator.discard(catalog, units, address);
    this.#nodes.discard();
  }

  *#giveBackRecords(leaf: Address, isFirst: boolean): Operation<void> {
    const { records, geometry, allocator, catalog } = this.#tree;
    let image = this.#first.words;
    if (!isFirst) {
      image = new Scratch(IMAGE_AT + geometry.leafBytes);
      yield new Batch().read(leaf, geometry.leafBytes, image, IMAGE_AT);
    }
    const request = this.#tree.newRequest();
    for (let entry = 0; entry < geometry.shape.span; entry++) {
      const at = imageOf(this.#tree, entry);
      const item = itemHigh(image, at);
      if (isEmpty(item) || !isIndirect(item)) continue;
      const record = recordOf(image, at);
      yield* records.adopt(request, record, linesOf(image, at));
      for (const { address, units } of yield* records.foundBlocks(request, record)) {
        allocator.discard(catalog, units, address);
      }
    }
  }
}

/** Shows keys as text, cut to 40 bytes. */
function outOfOrder(last: Uint8Array, key: Uint8Array, number: number): StepwellError {
  const shown = (bytes: Uint8Array) =>
    JSON.stringify(Buffer.from(bytes.subarray(0, 40)).toString());
  const order = compareWhole(last, key) === 0 ? 'occurs twice' : `comes after ${shown(last)}`;
  const text = `record ${number} is out of order: the key ${shown(key)} ${order}`;
  return new StepwellError('SW_INVALID_ARGUMENT', text);
}
