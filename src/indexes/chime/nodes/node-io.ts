import { hasCode, invariant } from '../../../errors.ts';
import {
  type Address,
  Batch,
  CAS_BYTES,
  type Operation,
  Scratch,
  setWord,
  swapped,
  UNIT_BYTES,
} from '../../../verbs/index.ts';
import { unitsBeside } from '../geometry.ts';
import {
  blockSizeOf,
  bytesOfNode,
  CHILDREN_AT,
  checkNode,
  childrenIn,
  cutRoutes,
  decodeNode,
  dropChild,
  encodeNode,
  LINKS_AT,
  type NewChild,
  NODE_SIZE_MAX,
  PAIR_FROZEN,
  PackedSeparators,
  type Routes,
  sizeFor,
  sizeOf,
  splicedBytes,
  spliceNode,
} from './internal-node.ts';
import {
  addressOfLink,
  FROZEN,
  INTERNAL,
  isInternal,
  type Link,
  linkHigh,
  linkLow,
  nodeIdentityHigh,
  nodeIdentityLow,
  sizeOfLink,
  TAG_VALUES,
  UP,
} from './link.ts';
import type { NodeClient, StepMemory } from './node-client.ts';
import { isAtEnd, type KeyAt } from './siblings.ts';

/** Most nodes on a path to a leaf: levels, and replacements that are not linked yet. */
export const PATH_MAX = 1000;

/** An internal node as it was read, and the word that links it into the tree. */
export interface Visit {
  /** Where the link stands: in the node above, or the root link. */
  owner: Address;
  /** The link, without FROZEN. */
  low: number;
  high: number;
  address: Address;
  image: Scratch;
}

/** Reads a node that is linked into the tree, or was when this operation had begun. */
export function* visit(
  { stepMemories }: NodeClient,
  owner: Address,
  { low, high }: Link,
): Operation<Visit> {
  const address = addressOfLink(low, high);
  const bytes = bytesOfNode({ high });
  const image = new Scratch(bytes);
  const memory = stepMemories.take();
  yield memory.batch.clear().read(address, bytes, image, 0);
  stepMemories.give(memory);
  checkNode(image, bytes);
  return { owner, low, high: high & ~FROZEN, address, image };
}

/** A child of a node that was read. */
export interface ChildVisit {
  child: number;
  node: Visit;
}

/** Reads some children of a node in one doorbell. */
export function* visitMany(
  children: readonly number[],
  links: Int32Array,
): Operation<ChildVisit[]> {
  const batch = new Batch();
  const nodes = children.map((child) => {
    const [low, high] = [links[2 * child], links[2 * child + 1] & ~FROZEN];
    const bytes = bytesOfNode({ high });
    const image = new Scratch(bytes);
    const address = addressOfLink(low, high);
    batch.read(address, bytes, image, 0);
    return { child, node: { owner: 0, low, high, address, image } };
  });
  yield batch;
  for (const { node } of nodes) checkNode(node.image, bytesOfNode(node));
  return nodes;
}

export function unitsOfNode(high: number): number {
  return unitsBeside(1 << blockSizeOf(sizeOfLink(high)));
}

/** Whether the node has neither been replaced nor absorbed by its parent. */
export function isInUse(tree: NodeClient, { low, high, image }: Visit): boolean {
  const { seed } = tree.geometry.shape;
  return (
    image.i32[0] === nodeIdentityLow(low, high, seed) &&
    image.i32[1] === nodeIdentityHigh(low, high, seed)
  );
}

export function isAbsorbed({ image }: Visit): boolean {
  return image.i32[0] === 0 && image.i32[1] === UP;
}

/** The replacement of a node that is neither in use nor absorbed. */
export function replacementOf({ image }: Visit): Link {
  return internalLink({ low: image.i32[0], high: image.i32[1] });
}

/** Raises SW_POOL_CORRUPT unless a link that was read leads to an internal node. */
export function internalLink(link: Link): Link {
  const leads = isInternal(link.high) && addressOfLink(link.low, link.high) > 0;
  invariant(leads, 'a link that must lead to an internal node leads to none');
  return link;
}

/** Reads the root link. */
export function* rootLink({ root, stepMemories }: NodeClient): Operation<Link> {
  const memory = stepMemories.take();
  const { batch, swaps } = memory;
  yield batch.clear().read(root, 8, swaps, 0);
  const link = { low: swaps.i32[0], high: swaps.i32[1] };
  stepMemories.give(memory);
  return internalLink(link);
}

export function routesOf({ image }: Visit): Routes {
  return decodeNode(image);
}

/**
 * Freezes a node by CAS: its pair, and above other internal nodes its links, so that no CAS in
 * flight can change them any more. Links to leaves never change. Tries again whenever another
 * client changes a word, because that client's operation has then succeeded. Returns the node's
 * final contents.
 */
export function* freeze(tree: NodeClient, { address, image }: Visit): Operation<Routes> {
  const { links, separators } = decodeNode(image);
  const pair = image.i32.slice(CHILDREN_AT >> 2, LINKS_AT >> 2);
  const hasLeaves = !isInternal(links[1]);
  const words = hasLeaves ? pair : Int32Array.of(...pair, ...links);
  // The pair's word stands right in front of the links.
  yield* freezeAt(
    tree,
    (i) => address + CHILDREN_AT + 8 * i,
    words,
    (i) => (i === 0 ? PAIR_FROZEN : FROZEN),
  );
  // A node with other children is another node.
  invariant(words[0] === links.length / 2, 'the number of children of a node has changed');
  if (!hasLeaves) links.set(words.subarray(2));
  for (let i = 1; i < links.length; i += 2) links[i] &= ~FROZEN;
  return { links, separators, pair: words[1] & ~PAIR_FROZEN };
}

/** As `freeze`, for a node above leaves that was read with this mark. False if that has changed. */
export function* freezePair(
  tree: NodeClient,
  { address, image }: Visit,
  pair: number,
): Operation<boolean> {
  const children = childrenIn(image);
  const [open, frozen] = [
    { low: children, high: pair },
    { low: children, high: pair | PAIR_FROZEN },
  ];
  return yield* swap(tree, address + CHILDREN_AT, open, frozen);
}

/** Sets a bit in the high halves of words at any addresses. */
export function* freezeAt(
  tree: NodeClient,
  addressOf: (i: number) => Address,
  words: Int32Array,
  bitOf: (i: number) => number,
): Operation<void> {
  const memory = tree.stepMemories.take();
  memory.swaps.ensure((CAS_BYTES * words.length) / 2);
  try {
    for (let round = 1; postFreezing(addressOf, words, bitOf, memory); round++) {
      tree.giveUpAfter(round);
      yield memory.batch;
      noteFrozen(words, bitOf, memory.swaps);
    }
  } finally {
    tree.stepMemories.give(memory);
  }
}

/** False when all words are frozen. */
function postFreezing(
  addressOf: (i: number) => Address,
  words: Int32Array,
  bitOf: (i: number) => number,
  { batch, swaps }: StepMemory,
): boolean {
  batch.clear();
  for (let i = 0; 2 * i < words.length; i++) {
    const [low, high] = [words[2 * i], words[2 * i + 1]];
    if ((high & bitOf(i)) !== 0) continue;
    setWord(swaps, CAS_BYTES * i, low, high);
    setWord(swaps, CAS_BYTES * i + 8, low, high | bitOf(i));
    batch.cas(addressOf(i), swaps, CAS_BYTES * i);
  }
  return batch.length > 0;
}

function noteFrozen(words: Int32Array, bitOf: (i: number) => number, swaps: Scratch): void {
  for (let i = 0; 2 * i < words.length; i++) {
    if ((words[2 * i + 1] & bitOf(i)) !== 0) continue;
    const old = (CAS_BYTES * i + 16) >> 2;
    const frozen = swapped(swaps, CAS_BYTES * i) ? bitOf(i) : 0;
    words[2 * i] = swaps.i32[old];
    words[2 * i + 1] = swaps.i32[old + 1] | frozen;
  }
}

interface NodeBlock {
  address: Address;
  /** The logarithm of its units. */
  size: number;
}

/** Logarithm of the largest block, in units, that a smaller node may take: 16 KiB. */
const LARGER_MAX = 8;

/** Enough bytes for most children: the link, the separator and its end. */
const CHILD_BYTES = 64;

/** Nodes that no other client knows yet: written, then linked or given back all together. */
export class NewNodes {
  readonly #tree: NodeClient;
  readonly #blocks: NodeBlock[] = [];
  /** Reserved blocks that no node uses yet. */
  readonly #spare: NodeBlock[] = [];
  readonly #writes: { address: Address; bytes: number; image: Scratch; at: number }[] = [];
  /** Lent by the tree; it holds the images of nodes while there is room. */
  #memory: StepMemory | undefined;
  #imagesEnd = 0;

  constructor(tree: NodeClient) {
    this.#tree = tree;
  }

  *#take(size: number): Operation<NodeBlock> {
    const spare = this.#spare.findIndex((block) => block.size >= size);
    if (spare >= 0) return this.#spare.splice(spare, 1)[0];
    const block = yield* this.#allocate(size);
    this.#blocks.push(block);
    return block;
  }

  /** Claims a block ahead, so that a change that has begun does not fail for lack of it. */
  *reserve(size: number): Operation<void> {
    const block = yield* this.#allocate(size);
    this.#blocks.push(block);
    this.#spare.push(block);
  }

  get hasReserve(): boolean {
    return this.#spare.length > 0;
  }

  /** Claims a block for a copy of a node with these children, or if unknown with one more. */
  reserveCopy({ image }: Visit, added?: readonly NewChild[]): Operation<void> {
    const more = added === undefined ? CHILD_BYTES : 0;
    const size = sizeFor(splicedBytes(image, added ?? []) + more);
    return this.reserve(Math.min(size, NODE_SIZE_MAX));
  }

  /** Claims blocks for all nodes that these routes take: see `cutAndStack`. */
  *reserveFor(routes: Routes, key: KeyAt): Operation<void> {
    for (let level = routes; ; ) {
      const ascends = isAtEnd(level, key);
      const { nodes, between } = cutRoutes(level, this.#tree.geometry.shape.fanout, ascends);
      // All of the largest size, because the routes may still change a little.
      const size = Math.max(...nodes.map(sizeOf));
      for (let i = 0; i < nodes.length; i++) yield* this.reserve(size);
      if (nodes.length === 1) return;
      const separators = PackedSeparators.of(between);
      level = { links: new Int32Array(2 * nodes.length), separators, pair: 0 };
    }
  }

  /**
   * Takes a larger block if there is none of this size: each size needs a chunk, and a full pool
   * may have none for a size that the tree has not used yet.
   */
  *#allocate(nodeSize: number): Operation<NodeBlock> {
    const { allocator, catalog } = this.#tree;
    const size = blockSizeOf(nodeSize);
    let first: unknown;
    for (let larger = size; larger === size || larger <= LARGER_MAX; larger++) {
      try {
        return {
          address: yield* allocator.allocate(catalog, unitsBeside(1 << larger)),
          size: larger,
        };
      } catch (error) {
        if (!hasCode(error, 'SW_POOL_FULL')) throw error;
        first ??= error;
      }
    }
    throw first;
  }

  *internal(routes: Routes, flags: number): Operation<Link> {
    return (yield* this.#encoded(sizeOf(routes), flags, (image, at) =>
      encodeNode(routes, image, at),
    )).link;
  }

  /** A copy of a node that was read, with more leaves behind one of its own; and its routes. */
  *spliced(
    old: Scratch,
    child: number,
    added: readonly NewChild[],
  ): Operation<{ link: Link; routes: Routes }> {
    const size = sizeFor(splicedBytes(old, added));
    const { link, image, at } = yield* this.#encoded(size, 0, (image, at) =>
      spliceNode(old, child, added, image, at),
    );
    return { link, routes: decodeNode(image, at) };
  }

  /** A copy of a node that was read, without one of its leaves (not the first); and its routes. */
  *without(old: Scratch, child: number, flags: number): Operation<{ link: Link; routes: Routes }> {
    const size = sizeFor(splicedBytes(old, []));
    const { link, image, at } = yield* this.#encoded(size, flags, (image, at) =>
      dropChild(old, child, image, at),
    );
    return { link, routes: decodeNode(image, at) };
  }

  *#encoded(
    size: number,
    flags: number,
    encode: (image: Scratch, at: number) => void,
  ): Operation<{ link: Link; image: Scratch; at: number }> {
    invariant(size <= NODE_SIZE_MAX, 'a node is too long');
    const block = yield* this.#take(size);
    const bytes = UNIT_BYTES << size;
    const { image, at } = this.#room(bytes);
    encode(image, at);
    const link = this.#write(block, size, INTERNAL | flags, image, at);
    return { link, image, at };
  }

  #room(bytes: number): { image: Scratch; at: number } {
    this.#memory ??= this.#tree.stepMemories.take();
    const { images } = this.#memory;
    const at = this.#imagesEnd;
    if (at + bytes > images.u8.length) return { image: new Scratch(bytes), at: 0 };
    this.#imagesEnd = at + bytes;
    return { image: images, at };
  }

  #write(
    { address, size: blockSize }: NodeBlock,
    size: number,
    flags: number,
    image: Scratch,
    at: number,
  ): Link {
    const { reclamation, geometry } = this.#tree;
    invariant(reclamation.online, 'a node is made without an epoch for its tag');
    const low = linkLow(address);
    // The block is freed by the size in the link. So if it is a larger one, the link says its size.
    const said = blockSize > blockSizeOf(size) ? blockSize : size;
    const high = linkHigh(address, flags, said, reclamation.announced % TAG_VALUES);
    const { seed } = geometry.shape;
    setWord(image, at, nodeIdentityLow(low, high, seed), nodeIdentityHigh(low, high, seed));
    this.#writes.push({ address, bytes: UNIT_BYTES << size, image, at });
    return { low, high };
  }

  /** Adds the WRITEs of the nodes that have not been posted. */
  post(batch: Batch): Batch {
    for (const { address, bytes, image, at } of this.#writes) {
      batch.write(address, bytes, image, at);
    }
    this.#writes.length = 0;
    return batch;
  }

  /** Leaves the nodes to the tree, and gives back blocks that were reserved and not used. */
  keep(): void {
    this.#giveBack(this.#spare);
  }

  discard(): void {
    this.#giveBack(this.#blocks);
  }

  #giveBack(blocks: readonly NodeBlock[]): void {
    const { allocator, catalog, stepMemories } = this.#tree;
    for (const { address, size } of blocks) {
      allocator.sizeClass(catalog, unitsBeside(1 << size)).cache.push(address);
    }
    if (this.#memory !== undefined) stepMemories.give(this.#memory);
    this.#memory = undefined;
    this.#imagesEnd = 0;
    this.#blocks.length = 0;
    this.#spare.length = 0;
    this.#writes.length = 0;
  }
}

/**
 * Replaces a node: writes the replacement, and CASes the node's first word from its identity to the
 * link of the replacement. If several clients try, one succeeds.
 */
export function* publish(
  tree: NodeClient,
  old: Visit,
  nodes: NewNodes,
  to: Link,
): Operation<boolean> {
  invariant((to.high & (FROZEN | UP)) === 0, 'a node is replaced by one that is being replaced');
  const published = yield* swap(tree, old.address, identityOf(tree, old), internalLink(to), nodes);
  if (published) nodes.keep();
  else nodes.discard();
  return published;
}

/**
 * Marks a node as absorbed by its frozen parent. False if the node was replaced first.
 */
export function absorb(tree: NodeClient, node: Visit): Operation<boolean> {
  return swap(tree, node.address, identityOf(tree, node), { low: 0, high: UP });
}

export function identityOf(tree: NodeClient, { low, high }: Link): Link {
  const { seed } = tree.geometry.shape;
  return { low: nodeIdentityLow(low, high, seed), high: nodeIdentityHigh(low, high, seed) };
}

/**
 * Links a node's replacement in its place. The client whose CAS succeeds then retires the node, and
 * the nodes that it had absorbed (`gone`); if the client dies in between, a sweep frees them. False
 * if the link has changed, or is frozen.
 */
export function* swing(
  tree: NodeClient,
  old: Visit,
  to: Link,
  gone: readonly Link[],
): Operation<boolean> {
  invariant(old.owner > 0 && (to.high & FROZEN) === 0, 'a node is linked in no place');
  if (!(yield* swap(tree, old.owner, old, to))) return false;
  for (const { low, high } of gone) {
    const units = unitsOfNode(high);
    tree.reclamation.retire(addressOfLink(low, high), units, tree.catalog);
  }
  return true;
}

/** D[WRITE nodes; CAS] */
function* swap(
  tree: NodeClient,
  address: Address,
  expected: Link,
  desired: Link,
  nodes?: NewNodes,
): Operation<boolean> {
  const memory = tree.stepMemories.take();
  try {
    const { batch, swaps } = memory;
    setWord(swaps, 0, expected.low, expected.high);
    setWord(swaps, 8, desired.low, desired.high);
    batch.clear();
    nodes?.post(batch);
    yield batch.cas(address, swaps, 0);
    return swapped(swaps, 0);
  } finally {
    tree.stepMemories.give(memory);
  }
}

export function linkAddress(node: Address, child: number): Address {
  return node + LINKS_AT + 8 * child;
}
