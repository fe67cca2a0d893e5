import { hasCode, invariant } from '../../../errors.ts';
import { SECOND_LEAF, writeBytes } from '../../../pool/intents/intent.ts';
import { freeHigh } from '../../../pool/intents/lock-word.ts';
import { INTENT_BYTES } from '../../../pool/layout.ts';
import {
  type Address,
  Batch,
  highHalf,
  NULL_ADDRESS,
  type Operation,
  setWord,
  swapped,
} from '../../../verbs/index.ts';
import { carryOut } from '../../substrates/leaf/change-leaf.ts';
import { hopsOf, isEmpty, itemHigh, setHops } from '../../substrates/leaf/entry.ts';
import { BOUNDS_AT, HEADER_BYTES, ITEM_AT, SEQUENCE_AT } from '../../substrates/leaf/layout.ts';
import { IMAGE_AT, SWAP_AT } from '../../substrates/leaf/leaf-request.ts';
import { letGo, lockLeaf } from '../../substrates/leaf/lock-leaf.ts';
import { makeRoom } from '../../substrates/leaf/make-room.ts';
import { countItems } from '../../substrates/leaf/picture.ts';
import { imageOf, isLeafStill, postEntries } from '../../substrates/leaf/read-leaf.ts';
import {
  copyPivot,
  isLong,
  pivotBlockIn,
  pivotBytesIn,
  siblingIn,
  writeSibling,
} from '../bounds.ts';
import { unitsFor } from '../geometry.ts';
import { isSameLeaf, type Link } from '../nodes/link.ts';
import { AT_KEY } from '../nodes/node-arena.ts';
import type { ChimeRequest } from '../request.ts';
import { addRewrite, countChanged, rewriteBytes } from '../rewrite-leaf.ts';
import type { ChimeTree } from '../tree.ts';

/** Attempts to lock the left leaf; each of them waits. */
const ATTEMPTS_MAX = 20;

/** Two leaves that their parent has marked as a pair. */
export interface LeafPair {
  left: Link;
  right: Link;
  /** The lower bound of the left leaf. */
  lower: Uint8Array;
  /** Items of the right leaf when the pair was read. */
  moves: number;
}

/** The pair's mark in the parent, for use while the left leaf is locked. */
export interface PairMark {
  /** Adds the CAS that sets the mark, behind the lock of the left leaf, or the READ of it. */
  post(batch: Batch): void;
  /** After that batch: whether the parent was in use and had the mark. */
  stands(): boolean;
  /** Removes the mark. */
  drop(): Operation<void>;
  /** Adds the CAS that freezes the parent behind the merge, if there is memory for its copy. */
  postFreezing(batch: Batch): void;
}

/**
 * Merges two leaves (the paper refers to other work for this). The left leaf takes all items, and
 * keeps its address and lower bound; the right leaf is retired.
 *
 *   D[WRITE intent's head; CAS left; READ it whole; CAS mark, or READ it]
 *     -> D[CAS right; READ it whole]
 *     -> D[WRITE block of the intent; intent; left: sequence odd, entries, bounds, replicas,
 *       vacancy, sequence even; right: sequence odd, entries empty, no identity, retired;
 *       unlock left; CAS mark -> frozen]
 *
 * A client that dies before the intent is complete has changed nothing. Returns whether the leaves
 * were merged.
 */
export function* mergeLeaves(tree: ChimeTree, pair: LeafPair, mark: PairMark): Operation<boolean> {
  const { allocator, catalog, geometry } = tree;
  const units = unitsFor(intentBytes(tree, geometry.shape.span));
  const request = tree.idleRequests.take();
  const right = tree.idleRequests.take();
  /** Has the left leaf as it was. */
  const old = tree.idleRequests.take();
  let block = NULL_ADDRESS;
  try {
    if (intentBytes(tree, pair.moves) > INTENT_BYTES) {
      block = yield* orNone(() => allocator.allocate(catalog, units));
    }
    // In a full pool a nearly empty leaf must be merged without a block for the intent. A pair
    // whose intent is too long loses its mark below, because the mark holds up all other pairs of
    // the parent.
    const bytes = block === NULL_ADDRESS ? INTENT_BYTES : intentBytes(tree, pair.moves);
    request.intent.ensure(bytes);
    if (!(yield* lockLeft(tree, request, pair, block, mark))) return false;
    if (!isSibling(request, pair.right)) return false;
    if (!(yield* tryRight(tree, request, right, pair.right))) return false;
    const before = old.words.i32;
    before.set(request.words.i32.subarray(0, (IMAGE_AT + geometry.leafBytes) >> 2));
    const items = countItems(tree, right);
    if (!(yield* fit(tree, request, right)) || mergeBytes(tree, request, before, items) > bytes) {
      yield* mark.drop();
      yield* releaseRight(right);
      return false;
    }
    const pivotBlock = longPivotOf(request);
    invariant(request.leaf !== right.leaf, 'a leaf is merged into itself');
    write(tree, request, right, before);
    yield* carryOut(tree, request, block, undefined, (batch) => mark.postFreezing(batch));
    if (pivotBlock !== undefined) {
      tree.reclamation.retire(pivotBlock.address, pivotBlock.units, catalog);
    }
    tree.merges++;
    return true;
  } finally {
    if (block !== NULL_ADDRESS) allocator.discard(catalog, units, block);
    yield* letGo(tree, request);
    tree.idleRequests.give(request);
    tree.idleRequests.give(right);
    tree.idleRequests.give(old);
  }
}

function* orNone(allocate: () => Operation<Address>): Operation<Address> {
  try {
    return yield* allocate();
  } catch (error) {
    if (!hasCode(error, 'SW_POOL_FULL')) throw error;
    return NULL_ADDRESS;
  }
}

/** Bytes of the intent if `moves` items come from the right leaf and no item has to hop. */
function intentBytes({ geometry }: ChimeTree, moves: number): number {
  const changed = Math.min(geometry.shape.span, 2 * moves);
  return rewriteBytes(geometry, changed) + clearedBytes(moves);
}

/** Bytes of the intent for the merge that the left leaf's image shows. */
function mergeBytes(
  tree: ChimeTree,
  left: ChimeRequest,
  before: Int32Array,
  moves: number,
): number {
  const changed = countChanged(tree, left, before);
  return rewriteBytes(tree.geometry, changed) + clearedBytes(moves);
}

/** Bytes of the intent for the right leaf: its sequence, each item, identity and owner. */
function clearedBytes(items: number): number {
  return (items + 3) * writeBytes(8);
}

function* lockLeft(
  tree: ChimeTree,
  request: ChimeRequest,
  { left, lower }: LeafPair,
  block: Address,
  mark: PairMark,
): Operation<boolean> {
  // Like an operation on the leaf's lowest key, which stays in this leaf as long as it exists.
  request.setKey(lower, tree.geometry.shape.seed);
  request.side = AT_KEY;
  tree.aimAt(request, left, lower);
  const { leaf } = request;
  const blocks = block === NULL_ADDRESS ? [] : [block];
  const postMark = (batch: Batch) => mark.post(batch);
  for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
    const isLocked = yield* lockLeaf(tree, request, attempt, blocks, postMark);
    // Behind a CAS that failed, the mark may have been set all the same.
    if (!mark.stands() || request.leaf !== leaf) return false;
    if (isLocked) return true;
  }
  return false;
}

function isSibling({ words }: ChimeRequest, right: Link): boolean {
  const sibling = siblingIn(words, IMAGE_AT + BOUNDS_AT);
  return sibling !== undefined && isSameLeaf(sibling.low, sibling.high, right.low, right.high);
}

/** D[CAS owner; READ header and entries], with the left leaf's lock word. Never waits. */
function* tryRight(
  tree: ChimeTree,
  left: ChimeRequest,
  right: ChimeRequest,
  link: Link,
): Operation<boolean> {
  tree.aimAt(right, link);
  const { words, idLow, idHigh, leaf, batch } = right;
  setWord(words, SWAP_AT, idLow, freeHigh(idHigh));
  setWord(words, SWAP_AT + 8, left.ownLow, left.ownHigh);
  batch.clear().cas(leaf, words, SWAP_AT).read(leaf, HEADER_BYTES, words, IMAGE_AT);
  yield postEntries(tree, right, 0, tree.geometry.shape.span, batch);
  if (!swapped(words, SWAP_AT)) return false;
  invariant(isLeafStill(right), 'a leaf is locked by the free word of another one');
  return true;
}

function* releaseRight({ words, leaf, idLow, idHigh }: ChimeRequest): Operation<void> {
  setWord(words, SWAP_AT, idLow, freeHigh(idHigh));
  yield new Batch().write(leaf, 8, words, SWAP_AT);
}

/**
 * Puts the right leaf's items into the left leaf's image: at the entries they had, so that a full
 * leaf fits into an empty one, or by hopping. False if there is no room.
 */
function* fit(tree: ChimeTree, left: ChimeRequest, right: ChimeRequest): Operation<boolean> {
  const { geometry } = tree;
  const { span } = geometry.shape;
  const [here, there] = [countItems(tree, left), countItems(tree, right)];
  if (here > 0 && there > 0 && 4 * (here + there) > 3 * span) return false;
  for (let home = 0; home < span; home++) {
    // The hop bitmap that names an item shows its home: no key has to be hashed.
    for (let hops = hopsOf(right.words, imageOf(tree, home)); hops !== 0; hops &= hops - 1) {
      const away = 31 - Math.clz32(hops & -hops);
      // Items get new checksums in the left leaf. A damaged item must not come to look intact.
      if (!isWhole(tree, right, home, away)) return false;
      left.home = home;
      const from = geometry.after(home, away);
      const isFree = isEmpty(itemHigh(left.words, imageOf(tree, from)));
      const free = isFree ? from : yield* makeRoom(tree, left);
      if (free < 0) return false;
      takeItem(tree, left, free, right, from);
      const homeEntry = imageOf(tree, home);
      const distance = geometry.distance(home, free);
      setHops(left.words, homeEntry, hopsOf(left.words, homeEntry) | (1 << distance));
    }
  }
  return true;
}

function isWhole(tree: ChimeTree, right: ChimeRequest, home: number, away: number): boolean {
  const { geometry, sums } = tree;
  const { words, idLow, idHigh } = right;
  if (away >= geometry.shape.neighbourhood) return false;
  return sums.holds(words, imageOf(tree, geometry.after(home, away)), idLow, idHigh);
}

function takeItem(
  tree: ChimeTree,
  { words, idLow, idHigh }: ChimeRequest,
  entry: number,
  right: ChimeRequest,
  from: number,
): void {
  const to = imageOf(tree, entry);
  const source = imageOf(tree, from) >> 2;
  const hops = hopsOf(words, to);
  const count = tree.geometry.entryBytes >> 2;
  for (let i = 0; i < count; i++) words.i32[(to >> 2) + i] = right.words.i32[source + i];
  setHops(words, to, hops);
  tree.sums.seal(words, to, idLow, idHigh);
}

/** The block of the left leaf's long pivot, which the merge replaces. */
function longPivotOf({ words }: ChimeRequest): { address: Address; units: number } | undefined {
  const at = IMAGE_AT + BOUNDS_AT;
  const bytes = pivotBytesIn(words, at);
  if (!isLong(bytes)) return undefined;
  return { address: pivotBlockIn(words, at), units: unitsFor(bytes) };
}

/** Adds all WRITEs except the release of the left leaf. */
function write(tree: ChimeTree, left: ChimeRequest, right: ChimeRequest, before: Int32Array): void {
  const { intent } = left;
  intent.setLeaf(SECOND_LEAF, right.leaf, right.idLow, right.idHigh);
  const bounds = IMAGE_AT + BOUNDS_AT;
  addRewrite(tree, left, before, (memory, at) => {
    writeSibling(memory, at, siblingIn(right.words, bounds), highHalf(left.words, bounds));
    copyPivot(right.words, bounds, memory, at);
  });
  const sequence = (IMAGE_AT + SEQUENCE_AT) >> 2;
  const { i32 } = right.words;
  invariant((i32[sequence] & 1) === 0, 'the sequence of a locked leaf is odd');
  intent.addWord(SECOND_LEAF, right.leaf + SEQUENCE_AT, i32[sequence] + 1, i32[sequence + 1]);
  for (let entry = 0; entry < tree.geometry.shape.span; entry++) {
    if (isEmpty(itemHigh(right.words, imageOf(tree, entry)))) continue;
    const there = right.leaf + tree.geometry.entryAt(entry) + ITEM_AT;
    intent.addWord(SECOND_LEAF, there, 0, 0);
  }
  intent.addRetirement(SECOND_LEAF);
}
