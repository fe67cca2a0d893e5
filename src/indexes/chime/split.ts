import { type ErrorCode, hasCode, invariant } from '../../errors.ts';
import { HEADER_BYTES } from '../../records/layout.ts';
import type { Batch, Operation, Scratch } from '../../verbs/index.ts';
import { BOUNDS_AT } from '../substrates/leaf/layout.ts';
import { IMAGE_AT } from '../substrates/leaf/leaf-request.ts';
import { siblingIn } from './bounds.ts';
import {
  childIn,
  childrenIn,
  linkIn,
  linksIn,
  type NewChild,
  NODE_BYTES_MAX,
  PackedSeparators,
  pairIn,
  splicedBytes,
} from './nodes/internal-node.ts';
import { compareKeys, separatorOf } from './nodes/keys.ts';
import { ABSORB, isInternal, isSameLeaf, type Link } from './nodes/link.ts';
import type { NodeClient } from './nodes/node-client.ts';
import { freezePair, NewNodes, publish, swing, type Visit } from './nodes/node-io.ts';
import {
  changeRemembered,
  type Linked,
  postPath,
  type RememberedPath,
  rebuildLinked,
  rememberCopy,
  rememberedPath,
} from './nodes/remembered-path.ts';
import { keyOf, missingSiblings, type Target } from './nodes/siblings.ts';
import type { ChimeRequest } from './request.ts';
import type { KeyOrder } from './scan/key-order.ts';
import { addRecords, type LeafReader, readItems } from './scan/leaf-items.ts';

/** Errors that end only the attempt: another client holds a leaf, or the pool has no memory. */
const HARMLESS: readonly ErrorCode[] = ['SW_CONTENTION', 'SW_POOL_FULL'];

export function isHarmless(error: unknown): boolean {
  return HARMLESS.some((code) => hasCode(error, code));
}

/** How a client splits leaves for keys that ascend. */
interface Appending {
  readonly splitsAtEnd: boolean;
  /** Leaves that its last splits have created for a key above all keys of the old leaf. */
  readonly appended: readonly Link[];
}

const EVERYTHING = {
  range: { from: new Uint8Array(0), to: undefined },
  limit: Number.POSITIVE_INFINITY,
  reverse: false,
  keysOnly: true,
};

/**
 * Divides the keys of a leaf that was read whole: marks those of the upper half, and returns the
 * shortest key between the halves. Undefined for a leaf of fewer than two keys. The paper takes the
 * median of the keys that blocked a hop, but both halves have room anyway. If the new key is above
 * all others, and the leaf is the tree's last or was created by such a split, all keys stay: so
 * ascending keys leave full leaves. One doorbell reads the keys of longer items from their records
 * into `spare`.
 */
export function* divideByMedian(
  { geometry, sums, splitsAtEnd, appended }: LeafReader & Appending,
  request: ChimeRequest,
  spare: ChimeRequest,
): Operation<Uint8Array | undefined> {
  const { order, words, upper } = request;
  const { from: lower, to } = EVERYTHING.range;
  const all = { lower, upper: to };
  order.clear(true);
  const pictures = [{ request, ...all, leaf: all }];
  const [items] = (yield* readItems({ geometry, sums }, pictures, EVERYTHING, spare)) ?? [];
  invariant(items !== undefined, 'an item changes in a leaf that is locked');
  const inline = order.count;
  addRecords(items, spare);
  order.sort(words, spare.incoming);
  if (order.count < 2) return undefined;
  upper.fill(0);
  const keyOf = (one: number) => keyIn(order.isRecord[one] ? spare.incoming : words, order, one);
  const greatest = keyOf(order.sorted[order.count - 1]);
  request.appends = isAboveAll(request, greatest);
  const isRun = () => isLast(request) || appended.some((leaf) => isLeafOf(request, leaf));
  if (splitsAtEnd && request.appends && isRun()) return separatorOf(greatest, ownKey(request));
  const middle = order.count >>> 1;
  for (let i = middle; i < order.count; i++) {
    const one = order.sorted[i];
    const at = one < inline ? order.at[one] : items.records[one - inline].entry;
    upper[geometry.entryOf(at - IMAGE_AT)] = 1;
  }
  return separatorOf(keyOf(order.sorted[middle - 1]), keyOf(order.sorted[middle]));
}

/** Whether the new key is above all keys of the leaf. */
function isAboveAll({ outgoing, keyBytes }: ChimeRequest, greatest: Uint8Array): boolean {
  return compareKeys(outgoing.u8, HEADER_BYTES, keyBytes, greatest, 0, greatest.length) > 0;
}

function isLast({ words }: ChimeRequest): boolean {
  return siblingIn(words, IMAGE_AT + BOUNDS_AT) === undefined;
}

function isLeafOf({ leafLow, leafHigh }: ChimeRequest, { low, high }: Link): boolean {
  return isSameLeaf(low, high, leafLow, leafHigh);
}

export function ownKey({ outgoing, keyBytes }: ChimeRequest): Uint8Array {
  return outgoing.u8.slice(HEADER_BYTES, HEADER_BYTES + keyBytes);
}

function keyIn({ u8 }: Scratch, { at, keyBytes }: KeyOrder, one: number): Uint8Array {
  const from = at[one] + HEADER_BYTES;
  return u8.slice(from, from + keyBytes[one]);
}

/**
 * Links the sibling of the request's leaf, which this operation has split, by the cached path:
 *
 *   (D[READ identity of the node above; READ node; READ its identity]) -> see `rebuildNode`
 *
 * If the leaf stayed locked, the READs were in a batch in front of the split. False if the path is
 * out of date, or more has to be done. If another client was faster, `ChimeTree.makeRoom` reads the
 * path again and repeats this; otherwise, or if the pool is full, `finishPending` does the rest. If
 * the node is cut in two, a later write has the level above absorb the cut: see `absorbCut`.
 */
export function* linkSplit(tree: NodeClient, request: ChimeRequest): Operation<boolean> {
  const { pathRead: read } = request;
  request.pathRead = undefined;
  const path = read?.path ?? rememberedPath(tree, request);
  if (path === undefined) return false;
  // The split came after the READ of the node: so it counts as a look at the leaf's siblings.
  const seen = read && request.newChild;
  return yield* changeRemembered(
    tree,
    path,
    (node) => linkInto(tree, request, path, node, seen),
    read,
  );
}

/** Adds the READs of the node to which `linkSplit` will add the sibling. */
export function postNodeAbove(tree: NodeClient, request: ChimeRequest, batch: Batch): void {
  const path = rememberedPath(tree, request);
  if (path === undefined) return;
  request.pathRead = postPath(tree, path, tree.stepMemories.take(), batch);
}

function* linkInto(
  tree: NodeClient,
  request: ChimeRequest,
  path: RememberedPath,
  node: Visit,
  seen: NewChild | undefined,
): Operation<boolean> {
  const target = { key: keyOf(request), upper: path.parent.upperOf(path.child) };
  const onlyMissing = seen && isAllMissing(request, node, target) ? seen : undefined;
  const linked =
    (yield* spliceSiblings(tree, node, target, onlyMissing)) ??
    (yield* rebuildLinked(tree, node, target));
  if (linked === undefined) return false;
  rememberCopy(tree, path, linked.to, linked.routes);
  if (node.owner === tree.root || (linked.to.high & ABSORB) === 0) return true;
  // Two such levels are absorbed at once: otherwise the path could grow without bound.
  const isBelowCut = (path.parent.high & ABSORB) !== 0 && path.parent !== tree.cache.top?.node(0);
  if (!isBelowCut) tree.cuts.add(ownKey(request));
  return !isBelowCut;
}

/**
 * Whether a node lacks nothing but the split's sibling: under the lock, the leaf ended where the
 * node's next child begins.
 */
function isAllMissing(request: ChimeRequest, { image }: Visit, { key, upper }: Target): boolean {
  const child = childIn(image, key.u8, key.at, key.bytes);
  const leaf = linkIn(image, child);
  if (!isLeafOf(request, leaf)) return false;
  const next = siblingIn(request.words, IMAGE_AT + BOUNDS_AT);
  if (child + 1 === childrenIn(image)) return next === undefined && upper === undefined;
  const { low, high } = linkIn(image, child + 1);
  return next !== undefined && isSameLeaf(next.low, next.high, low, high);
}

/**
 * A faster `rebuildNode` for most splits: the node has room for the missing siblings, and no pair
 * of its children is marked. Undefined for other splits, and if another client was faster (then the
 * node may be frozen).
 *
 * `onlyMissing`: the sibling, if the node is known to lack nothing else. In a full pool this reads
 * the siblings before it freezes the node, to claim memory for all of them. None can be merged in
 * between: this version of the node does not link them, so no pair with them is marked.
 */
function* spliceSiblings(
  tree: NodeClient,
  node: Visit,
  { key, upper }: Target,
  onlyMissing: NewChild | undefined,
): Operation<Linked | undefined> {
  const { image } = node;
  const children = childrenIn(image);
  const { fanout } = tree.geometry.shape;
  const isMarked = pairIn(image) !== 0;
  if (isInternal(linkIn(image, 0).high) || isMarked || children >= fanout) return undefined;
  const child = childIn(image, key.u8, key.at, key.bytes);
  const unmarked = { links: linksIn(image), separators: PackedSeparators.of([]), pair: 0 };
  const look = () => missingSiblings(tree, unmarked, child, upper);
  const fits = (added: readonly NewChild[]) => {
    return children + added.length <= fanout && splicedBytes(image, added) <= NODE_BYTES_MAX;
  };
  const nodes = new NewNodes(tree);
  try {
    const isFull = tree.allocator.isUsedUp;
    const early = onlyMissing ? [onlyMissing] : isFull ? yield* look() : undefined;
    if (early !== undefined && !fits(early)) return undefined;
    yield* nodes.reserveCopy(node, early);
    if (!(yield* freezePair(tree, node, 0))) return undefined;
    const added = early ?? (yield* look());
    if (!fits(added)) return undefined;
    const { link, routes } = yield* nodes.spliced(image, child, added);
    if (!(yield* publish(tree, node, nodes, link))) return undefined;
    tree.rebuilds++;
    return (yield* swing(tree, node, link, [node])) ? { to: link, routes } : undefined;
  } finally {
    nodes.discard();
  }
}
