import { invariant, StepwellError } from '../../errors.ts';
import { RETIRED } from '../../pool/intents/lock-word.ts';
import type { Pool } from '../../pool/pool.ts';
import { HEADER_BYTES, KEY_BYTES_MAX } from '../../records/layout.ts';
import {
  type Address,
  Batch,
  highHalf,
  lowHalf,
  NULL_ADDRESS,
  type Operation,
  Scratch,
  UNIT_BYTES,
} from '../../verbs/index.ts';
import { FreeList } from '../substrates/free-list.ts';
import {
  BOUNDS_AT,
  IDENTITY_AT,
  identityHigh,
  identityLow,
  OWNER_AT,
} from '../substrates/leaf/layout.ts';
import {
  type BoundsPlace,
  LeafClient,
  NOT_OWNED,
  OWNED,
  type Ownership,
  UNKNOWN,
} from '../substrates/leaf/leaf-client.ts';
import { IMAGE_AT } from '../substrates/leaf/leaf-request.ts';
import { outwait, unlock } from '../substrates/leaf/lock-leaf.ts';
import { countItems } from '../substrates/leaf/picture.ts';
import { isLeafStill, isStill, postHeader } from '../substrates/leaf/read-leaf.ts';
import { splitLeaf } from '../substrates/leaf/split-leaf.ts';
import { partOf } from '../traversal/sample.ts';
import {
  copyPivot,
  isLong,
  isNoLeaf,
  pivotAt,
  pivotBlockIn,
  pivotBytesIn,
  siblingIn,
  writePivot,
  writeSibling,
} from './bounds.ts';
import { type ChimeGeometry, type ChimeShape, unitsFor } from './geometry.ts';
import { NodeCache } from './nodes/cache.ts';
import { finishPending } from './nodes/finish-pending.ts';
import { bytesOfNode, checkNode, decodeNode, PackedSeparators } from './nodes/internal-node.ts';
import { areSame, compareKeys } from './nodes/keys.ts';
import {
  addressOfLink,
  INTERNAL,
  isSameLeaf,
  type Link,
  leafLink,
  nodeIdentityHigh,
  nodeIdentityLow,
  TAG_VALUES,
  tagOfLink,
  UP,
} from './nodes/link.ts';
import {
  AT_KEY,
  AT_LAST,
  BELOW_KEY,
  type CachedNode,
  type RoutedRequest,
} from './nodes/node-arena.ts';
import { type LeafBounds, type NodeClient, StepMemory } from './nodes/node-client.ts';
import { internalLink, PATH_MAX, rootLink } from './nodes/node-io.ts';
import { PendingCuts } from './nodes/pending-cuts.ts';
import { keyOf } from './nodes/siblings.ts';
import { ChimeRequest } from './request.ts';
import { Cursors } from './scan/cursor-keys.ts';
import { ItemBlock } from './scan/key-order.ts';
import { LeafOrders } from './scan/leaf-orders.ts';
import { divideByMedian, isHarmless, linkSplit, postNodeAbove } from './split.ts';

/** Most rounds of a split, merge or rebuild. Each round leaves fewer steps to do. */
const ROUNDS_MAX = 10_000;
/** Most runs of ascending keys, in different places, that a client tracks. */
const RUNS_MAX = 4;
/** How often a splitter tries to link the sibling in the node that it remembers. */
const LINK_TRIES = 3;

/** Most idle objects to keep: 64 scans in flight over a network have five requests each. */
const KEPT_MAX = 64 * 5;

/** One client's handle of a CHIME tree. */
export class ChimeTree extends LeafClient<ChimeShape, ChimeRequest> implements NodeClient {
  declare readonly geometry: ChimeGeometry;
  /** Address of the word that links to the root. */
  readonly root: Address;
  readonly cache: NodeCache;
  readonly stepMemories = new FreeList(() => new StepMemory(), KEPT_MAX);
  readonly cursors = new Cursors();
  readonly orders: LeafOrders;
  /** The items of the leaf that a scan is visiting. */
  readonly block: ItemBlock;
  /** Whether ascending keys leave leaves whole: see `divideByMedian`. */
  splitsAtEnd = true;
  readonly appended: Link[] = [];
  readonly idleRequests = new FreeList(() => this.newRequest(), KEPT_MAX);
  readonly cuts = new PendingCuts();
  /** A key on whose path this client has replaced nodes: see `relearnOutdated`. */
  outdated: Uint8Array | undefined;
  /** Internal nodes that this client has rebuilt, and leaves that it has merged. */
  rebuilds = 0;
  merges = 0;
  /** Sum of the items that leaves had when this client split them. */
  entriesAtSplit = 0;

  constructor(pool: Pool, geometry: ChimeGeometry, root: Address, catalog: number) {
    super(geometry, pool, catalog);
    this.root = root;
    this.cache = new NodeCache(pool.reclamation, geometry.shape.cacheKiB * 1024);
    this.orders = new LeafOrders(geometry, this.cache);
    this.block = new ItemBlock(geometry.shape.span);
  }

  newRequest(): ChimeRequest {
    return new ChimeRequest(this.geometry);
  }

  /**
   * A tag for the identity of a new leaf: the epoch. Epochs pass before a block is used again, so
   * two leaves in one block have different tags.
   */
  newTag(): number {
    invariant(this.reclamation.online, 'a leaf is tagged by a client that is in no epoch');
    return this.reclamation.announced % TAG_VALUES;
  }

  giveUpAfter(round: number): void {
    if (round < ROUNDS_MAX) return;
    const reasons = JSON.stringify(this.retries);
    throw new StepwellError('SW_CONTENTION', `gave up after ${round} rounds: ${reasons}`);
  }

  override *begin(request: ChimeRequest): Operation<void> {
    this.cache.begin();
    if (!this.aim(request)) yield* this.reach(request);
  }

  aim(request: ChimeRequest): boolean {
    if (descend(this, request) === undefined || request.leaf === NULL_ADDRESS) return false;
    this.#aimed(request);
    return true;
  }

  *reach(request: ChimeRequest): Operation<void> {
    yield* reach(this, request);
    this.#aimed(request);
  }

  /** Called once the request has the link of a leaf, and of the next leaf if the parent has one. */
  #aimed(request: ChimeRequest): void {
    const { leaf, leafHigh, nextLow, nextHigh } = request;
    const { seed } = this.geometry.shape;
    const tag = tagOfLink(leafHigh);
    request.lower = undefined;
    // An earlier operation may have read this pivot, and its block may have been re-used since.
    request.longPivot = undefined;
    request.idLow = identityLow(leaf, tag, seed);
    request.idHigh = identityHigh(leaf, tag, seed);
    // A header replica tells whether the leaf owns the key only if the parent has a next leaf.
    request.readsBounds = isNoLeaf(nextLow, nextHigh);
  }

  /** Points the request at a leaf, by its link and lower bound instead of by a parent. */
  aimAt(request: ChimeRequest, { low, high }: Link, lower?: Uint8Array): void {
    request.leafLow = low;
    request.leafHigh = high;
    request.leaf = addressOfLink(low, high);
    request.nextLow = 0;
    request.nextHigh = 0;
    this.#aimed(request);
    request.lower = lower;
  }

  /**
   * Sibling-based validation (CHIME section 4.2.3): a leaf whose sibling is the next child of its
   * parent ends where that child begins. That holds for any version of the parent. Otherwise the
   * leaf's pivot tells.
   */
  owns(request: ChimeRequest): Ownership {
    const { words, readsBounds, nextLow, nextHigh, home } = request;
    const { geometry } = this;
    const inImage = readsBounds ? BOUNDS_AT : geometry.replicaAt(geometry.replicaOf(home));
    const at = IMAGE_AT + inImage;
    const [low, high] = [lowHalf(words, at), highHalf(words, at)];
    if (isNoLeaf(low, high)) return OWNED;
    if (!isNoLeaf(nextLow, nextHigh) && isSameLeaf(low, high, nextLow, nextHigh)) return OWNED;
    return readsBounds ? this.#isBelowPivot(request) : UNKNOWN;
  }

  #isBelowPivot(request: ChimeRequest): Ownership {
    const { words, side, outgoing, keyBytes, longPivot } = request;
    if (side === AT_LAST) return NOT_OWNED;
    const at = IMAGE_AT + BOUNDS_AT;
    const bytes = pivotBytesIn(words, at);
    let [pivot, from] = [words.u8, pivotAt(at)];
    if (isLong(bytes)) {
      if (longPivot?.block !== pivotBlockIn(words, at)) return UNKNOWN;
      [pivot, from] = [longPivot.bytes, 0];
    }
    const order = compareKeys(outgoing.u8, HEADER_BYTES, keyBytes, pivot, from, bytes);
    return order < 0 || (order === 0 && side === BELOW_KEY) ? OWNED : NOT_OWNED;
  }

  *learnBounds(request: ChimeRequest): Operation<void> {
    if (!request.readsBounds) request.readsBounds = true;
    else yield* this.#readLongPivot(request);
  }

  *#readLongPivot(request: ChimeRequest): Operation<void> {
    const { words } = request;
    const at = IMAGE_AT + BOUNDS_AT;
    const block = pivotBlockIn(words, at);
    const bytes = pivotBytesIn(words, at);
    invariant(bytes <= KEY_BYTES_MAX, `the pivot of the leaf at ${request.leaf} is ${bytes} long`);
    const image = new Scratch(Math.ceil(bytes / UNIT_BYTES) * UNIT_BYTES);
    yield new Batch().read(block, image.u8.length, image, 0);
    request.longPivot = { bytes: image.u8.slice(0, bytes), block };
  }

  /**
   * To be called when the cache led to a leaf that does not own the key: the parent has more leaves
   * by now, or lacks some (half-split validation), or the leaf was merged. Beyond the parent's last
   * leaf, the search follows siblings one by one, because a full pool may lack many links.
   */
  *redirect(request: ChimeRequest, attempt: number): Operation<void> {
    this.count('otherLeaf', attempt, request);
    const { leafLow, leafHigh, words } = request;
    const sibling = isLeafStill(request) ? siblingIn(words, IMAGE_AT + BOUNDS_AT) : undefined;
    const pivot = sibling && (yield* this.pivotOf(request));
    if (sibling !== undefined && request.lower !== undefined) {
      this.aimAt(request, sibling, pivot);
      return;
    }
    yield* refresh(this, request);
    yield* this.begin(request);
    const isSame = () => isSameLeaf(leafLow, leafHigh, request.leafLow, request.leafHigh);
    if (!isSame()) return;
    // Only at attempts 1, 2, 4, 8 …: while another client works on it, or in a damaged tree, every
    // attempt would find the same.
    const isTime = (attempt & (attempt - 1)) === 0 && request.side === AT_KEY;
    if (isTime && (yield* finishPending(this, keyOf(request)))) {
      yield* refresh(this, request);
      yield* this.begin(request);
      if (!isSame()) return;
    }
    if (sibling !== undefined) this.aimAt(request, sibling, pivot);
    else this.#aimLeft(request);
  }

  /** The items of a merged leaf are in the leaf before it, under the same parent. */
  #aimLeft(request: ChimeRequest): void {
    const { child, words, leaf } = request;
    const at = IMAGE_AT + IDENTITY_AT;
    const isErased = lowHalf(words, at) === 0 && highHalf(words, at) === 0;
    invariant(isErased || isLeafStill(request), `there is no leaf at ${leaf}`);
    const above = request.above as CachedNode;
    if (child === 0) return;
    const left = { low: above.linkLow(child - 1), high: above.linkHigh(child - 1) };
    this.aimAt(request, left, above.lowerOf(child - 1));
  }

  *aimAtPlace(request: ChimeRequest, place: number): Operation<number> {
    for (let round = 1; ; round++) {
      this.giveUpAfter(round);
      this.cache.begin();
      const rest = goToPlace(this.cache, place, request);
      // Goes to the child by the lowest key that it may have.
      request.keyBytes = request.above?.copyLower(request.child, request.outgoing) ?? 0;
      request.side = AT_KEY;
      if (this.aim(request)) return rest;
      yield* this.reach(request);
    }
  }

  /** Whether the leaf ends where the cached parent says: at the next leaf or at its own bound. */
  isAsAimed(request: ChimeRequest): boolean {
    const { words, nextLow, nextHigh } = request;
    const at = IMAGE_AT + BOUNDS_AT;
    const [low, high] = [lowHalf(words, at), highHalf(words, at)];
    if (!isLeafStill(request)) return false;
    if (isNoLeaf(low, high)) return true;
    if (!isNoLeaf(nextLow, nextHigh)) return isSameLeaf(low, high, nextLow, nextHigh);
    const bytes = pivotBytesIn(words, at);
    const upper = (request.above as CachedNode).upperOf(request.child);
    const pivot = words.u8.subarray(pivotAt(at), pivotAt(at) + bytes);
    return isLong(bytes) || areSame(pivot, upper);
  }

  relearn(request: ChimeRequest): Operation<void> {
    return refresh(this, request);
  }

  *makeRoom(request: ChimeRequest): Operation<boolean> {
    request.hasMerged = true;
    try {
      // A block for a long pivot must be claimed first, and no memory is claimed under a lock.
      if (request.pivotUnits > 0) yield* unlock(request);
      const split = yield* splitLeaf(this, request);
      if (split === undefined) return false;
      if (split.sibling === NULL_ADDRESS) return true;
      try {
        yield* this.#linkSibling(request, split.sibling);
      } catch (error) {
        // The item is stored, and a later write links the sibling.
        if (!split.hasItem || !isHarmless(error)) throw error;
      }
      return split.hasItem;
    } finally {
      if (request.pathRead !== undefined) this.stepMemories.give(request.pathRead.memory);
      request.pathRead = undefined;
    }
  }

  *#linkSibling(request: ChimeRequest, sibling: Address): Operation<void> {
    for (let tries = 1; ; tries++) {
      const { rebuilds } = this;
      if (yield* linkSplit(this, request)) return;
      // If this client has published a copy, `finishPending` must link it. If not, another client
      // has probably replaced the node first.
      const isOvertaken = this.rebuilds === rebuilds && !this.allocator.isUsedUp;
      if (!isOvertaken || tries === LINK_TRIES) break;
      yield* refresh(this, request);
      yield* this.begin(request);
      const { leaf, nextLow, nextHigh } = request;
      if (leaf === sibling || addressOfLink(nextLow, nextHigh) === sibling) return;
    }
    yield* finishPending(this, keyOf(request));
    yield* refresh(this, request);
  }

  maySplit(): boolean {
    return true;
  }

  postAhead(request: ChimeRequest, batch: Batch): void {
    postNodeAbove(this, request, batch);
  }

  isUpper({ outgoing, keyBytes, newPivot }: ChimeRequest): boolean {
    const pivot = newPivot as Uint8Array;
    return compareKeys(outgoing.u8, HEADER_BYTES, keyBytes, pivot, 0, pivot.length) >= 0;
  }

  *prepareSplit(request: ChimeRequest): Operation<void> {
    const { pivotUnits: units } = request;
    if (units === 0) return;
    request.newPivotBlock = yield* this.allocator.allocate(this.catalog, units);
  }

  *divide(request: ChimeRequest): Operation<boolean> {
    const spare = this.idleRequests.take();
    const pivot = yield* divideByMedian(this, request, spare);
    this.idleRequests.give(spare);
    if (pivot === undefined) return false;
    request.newPivot = pivot;
    this.entriesAtSplit += countItems(this, request);
    if (!isLong(pivot.length)) return true;
    const units = unitsFor(pivot.length);
    if (request.newPivotBlock !== NULL_ADDRESS && request.pivotUnits === units) return true;
    // No block is allocated under a lock. The next attempt allocates one before it takes the lock.
    request.wantedUnits = units;
    return false;
  }

  writeBounds(
    request: ChimeRequest,
    sibling: Address,
    tag: number,
    lower: BoundsPlace,
    upper: BoundsPlace,
  ): void {
    const { words, newPivot, newPivotBlock } = request;
    const at = IMAGE_AT + BOUNDS_AT;
    const older = highHalf(words, at);
    invariant(newPivot !== undefined, 'a split has no pivot');
    writeSibling(upper.memory, upper.at, siblingIn(words, at), older);
    copyPivot(words, at, upper.memory, upper.at);
    writeSibling(lower.memory, lower.at, leafLink(sibling, tag), older);
    writePivot(lower.memory, lower.at, newPivot, newPivotBlock);
    request.newChild = { link: leafLink(sibling, tag), separator: newPivot };
    if (!request.appends) return;
    this.appended.push(leafLink(sibling, tag));
    if (this.appended.length > RUNS_MAX) this.appended.shift();
  }

  postBounds(request: ChimeRequest, batch: Batch): void {
    const { newPivot, newPivotBlock } = request;
    if (newPivot === undefined || !isLong(newPivot.length)) return;
    const image = new Scratch(Math.ceil(newPivot.length / UNIT_BYTES) * UNIT_BYTES);
    image.u8.set(newPivot);
    batch.write(newPivotBlock, image.u8.length, image, 0);
    // The block belongs to the leaf from now on.
    request.newPivotBlock = NULL_ADDRESS;
  }

  endSplit(request: ChimeRequest): void {
    const { newPivotBlock, pivotUnits: units, wantedUnits } = request;
    if (newPivotBlock !== NULL_ADDRESS) this.allocator.discard(this.catalog, units, newPivotBlock);
    request.newPivotBlock = NULL_ADDRESS;
    request.newPivot = undefined;
    request.pivotUnits = wantedUnits;
    request.wantedUnits = 0;
  }

  *readBounds({ low, high }: Link): Operation<LeafBounds | undefined> {
    const probe = this.idleRequests.take();
    try {
      this.aimAt(probe, { low, high });
      for (let attempt = 1; ; attempt++) {
        yield postHeader(probe, probe.batch.clear());
        if (!isLeafStill(probe)) return undefined;
        if (isStill(probe)) return yield* this.boundsIn(probe);
        this.count('changing', attempt - probe.looks, probe);
        yield* outwait(this, probe, attempt);
      }
    } finally {
      this.idleRequests.give(probe);
    }
  }

  /** The bounds in the request's image, which was read consistently. */
  *boundsIn(probe: ChimeRequest): Operation<LeafBounds> {
    const at = IMAGE_AT + BOUNDS_AT;
    const { words } = probe;
    const sibling = siblingIn(words, at);
    if (sibling === undefined) return { sibling, pivot: undefined };
    return { sibling, pivot: yield* this.pivotOf(probe) };
  }

  /** The pivot of the request's leaf, which must not be the last one. */
  *pivotOf(request: ChimeRequest): Operation<Uint8Array> {
    const { words } = request;
    const at = IMAGE_AT + BOUNDS_AT;
    const bytes = pivotBytesIn(words, at);
    if (!isLong(bytes)) return words.u8.slice(pivotAt(at), pivotAt(at) + bytes);
    if (request.longPivot?.block !== pivotBlockIn(words, at)) yield* this.#readLongPivot(request);
    return (request.longPivot as { bytes: Uint8Array }).bytes;
  }

  *isMerged({ low, high }: Link): Operation<boolean> {
    const probe = this.idleRequests.take();
    const { words } = probe;
    yield probe.batch.clear().read(addressOfLink(low, high) + OWNER_AT, 8, words, IMAGE_AT);
    this.idleRequests.give(probe);
    return lowHalf(words, IMAGE_AT) === RETIRED.low && highHalf(words, IMAGE_AT) === RETIRED.high;
  }
}

/**
 * Goes down the cached internal nodes towards the key's leaf, see `NodeArena.descend`. Undefined
 * when not even the root link is cached.
 */
function descend({ cache }: NodeClient, request: RoutedRequest): CachedNode | undefined {
  request.leaf = 0;
  const { top } = cache;
  request.above = top?.descend(request);
  return request.above;
}

/**
 * Goes down to the key's leaf and reads the nodes that are not cached (CHIME section 4.4: 0 to h
 * round trips).
 */
function* reach(tree: NodeClient, request: RoutedRequest): Operation<void> {
  for (let step = 0; step < PATH_MAX; step++) {
    const node = descend(tree, request);
    if (node !== undefined && request.leaf !== 0) return;
    if (node === undefined) yield* loadRootLink(tree);
    else if (!(yield* loadChild(tree, node, request.child))) yield* refresh(tree, request);
  }
  invariant(false, 'the path to a leaf does not end');
}

/**
 * Caches the root link. If another operation of this client was faster, keeps its link, and with it
 * the nodes that have been read below.
 */
function* loadRootLink(tree: NodeClient): Operation<void> {
  const top = yield* readRootLink(tree);
  if (tree.cache.top === undefined) tree.cache.top = top;
}

/** Reads the root link, as a node that is not in the cache yet. */
function* readRootLink(tree: NodeClient): Operation<CachedNode> {
  const { low, high } = yield* rootLink(tree);
  const links = Int32Array.of(low, high);
  return tree.cache.remember({ links, separators: PackedSeparators.of([]) });
}

/**
 * Reads an internal node and caches it. False when its block may hold something else by now,
 * because the cached parent's link is too old.
 *
 * The batch reads the first word again after the node. If that is still the node's identity, all of
 * the node was read from it. A link that `isKnown` leads to the node, or to one that was replaced
 * during this operation and names its replacement.
 */
function* loadChild(tree: NodeClient, parent: CachedNode, child: number): Operation<boolean> {
  const { low, high } = internalLink({ low: parent.linkLow(child), high: parent.linkHigh(child) });
  const known = tree.cache.isKnown(parent, child);
  const { epoch } = tree.cache;
  const address = addressOfLink(low, high);
  const bytes = bytesOfNode({ high });
  const image = new Scratch(bytes + 8);
  const memory = tree.stepMemories.take();
  const batch = memory.batch.clear().read(address, bytes, image, 0);
  if (!known) batch.read(address, 8, image, bytes);
  yield batch;
  tree.stepMemories.give(memory);
  const first = (known ? 0 : bytes) >> 2;
  const firstLow = image.i32[first];
  const firstHigh = image.i32[first + 1];
  const { seed } = tree.geometry.shape;
  const isNode =
    firstLow === nodeIdentityLow(low, high, seed) &&
    firstHigh === nodeIdentityHigh(low, high, seed);
  if (!isNode && !known) return false;
  // Another operation of this client may have changed the cached link meanwhile.
  if (!parent.leadsTo(child, low, high)) return true;
  if (isNode || (firstLow === 0 && firstHigh === UP)) {
    checkNode(image, bytes);
    parent.setNode(child, tree.cache.remember(decodeNode(image), { low, high }));
    parent.know(child, epoch);
  } else {
    const to = internalLink({ low: firstLow, high: firstHigh });
    parent.relink(child, to.low, to.high, epoch);
  }
  return true;
}

/**
 * Reads the path to the key's leaf again, from the root down, because the cached path is out of
 * date. Keeps the other cached nodes. Other operations of this client go down the old path until
 * the new one is there: if a node were missing meanwhile, each of them would read it.
 */
function* refresh(tree: NodeClient, request: RoutedRequest): Operation<void> {
  const top = yield* readRootLink(tree);
  let older = tree.cache.top;
  let node = top;
  for (let step = 0; step < PATH_MAX; step++) {
    const child = node.childFor(request);
    if ((node.linkHigh(child) & INTERNAL) === 0) {
      if (node === top) tree.cache.top = top;
      return;
    }
    const before = node.node(child);
    yield* loadChild(tree, node, child);
    const next = node.node(child);
    if (next === undefined || next === before) continue;
    if (node === top) older = tree.cache.top;
    older &&= olderNode(older, request);
    if (older) next.inherit(older);
    if (node === top) tree.cache.top = top;
    node = next;
  }
  invariant(false, 'the path to a leaf does not end');
}

function olderNode(older: CachedNode, request: RoutedRequest): CachedNode | undefined {
  return older.node(older.childFor(request));
}

/**
 * Points a request at a place in [0, 1), as far down as nodes are cached: at a child of the lowest
 * cached node. The children of a node divide its range equally, so a leaf under a node with few
 * children is sampled more often than one under a full node. Returns the place within the child.
 */
function goToPlace({ top }: NodeCache, place: number, request: RoutedRequest): number {
  let at = place;
  request.above = undefined;
  for (let node = top; node !== undefined; node = node.node(request.child)) {
    const { part, rest } = partOf(at, node.children);
    request.above = node;
    request.child = part;
    at = rest;
  }
  return at;
}
