import { hasCode, invariant } from '../../../errors.ts';
import { HEADER_BYTES } from '../../../records/layout.ts';
import { highHalf, lowHalf, type Operation } from '../../../verbs/index.ts';
import { BOUNDS_AT } from '../../substrates/leaf/layout.ts';
import { IMAGE_AT } from '../../substrates/leaf/leaf-request.ts';
import { isPicture } from '../../substrates/leaf/picture.ts';
import { isLeafStill, isStill, postBracket } from '../../substrates/leaf/read-leaf.ts';
import { lookAgain } from '../../substrates/leaf/search-leaf.ts';
import { finishPending } from '../nodes/finish-pending.ts';
import { compareWhole } from '../nodes/keys.ts';
import { INTERNAL, isSameLeaf } from '../nodes/link.ts';
import { AT_KEY, AT_LAST, BELOW_KEY, type CachedNode } from '../nodes/node-arena.ts';
import type { ChimeRequest } from '../request.ts';
import type { ChimeTree } from '../tree.ts';
import type { LeafPicture } from './leaf-items.ts';
import type { LeafOrders } from './leaf-orders.ts';

const LOWEST = new Uint8Array(0);

/**
 * Goes through the leaves in ascending or descending order of their keys (CHIME section 4.4). The
 * next leaf begins where the last one's keys ended when it was read, even if leaves were split or
 * merged since. So the walk meets each key in exactly one leaf.
 */
export class LeafWalk {
  readonly #tree: ChimeTree;
  readonly #reverse: boolean;
  /** The walk reads no leaf that the cached nodes show to be wholly beyond this key. */
  readonly #end: Uint8Array | undefined;
  /** Remembered key orders. A leaf whose order is remembered need not be verified as a whole. */
  readonly #orders: LeafOrders | undefined;
  readonly #requests: ChimeRequest[] = [];
  #done: boolean;
  /**
   * Forward: the lowest key not yet passed, undefined at the end. In reverse: the lowest key passed
   * so far, undefined at the start.
   */
  position: Uint8Array | undefined;

  constructor(
    tree: ChimeTree,
    position: Uint8Array | undefined,
    reverse = false,
    end: Uint8Array | undefined = undefined,
    orders: LeafOrders | undefined = undefined,
  ) {
    this.#tree = tree;
    this.#orders = orders;
    this.#reverse = reverse;
    this.#end = end;
    this.position = position;
    this.#done = !reverse && position === undefined;
  }

  get done(): boolean {
    return this.#done;
  }

  /** The next leaf, unless the walk is done. The picture is valid until the next call. */
  *next(): Operation<LeafPicture> {
    const [picture] = yield* this.nextGroup(1);
    return picture;
  }

  /**
   * The next leaf, for estimates: if writers keep interfering, it settles for an inconsistent read.
   * Undefined if the block is no longer that leaf.
   */
  *nextAsItIs(): Operation<ChimeRequest | undefined> {
    try {
      return (yield* this.next()).request;
    } catch (error) {
      if (!hasCode(error, 'SW_CONTENTION')) throw error;
    }
    yield* this.skip();
    const request = this.#requestAt(0);
    return isLeafStill(request) ? request : undefined;
  }

  /**
   * Reads the next leaves in one doorbell: up to `width`, as far as the cached parent shows which
   * leaves follow, and at least one. The pictures are valid until the next call.
   */
  *nextGroup(width: number): Operation<LeafPicture[]> {
    const tree = this.#tree;
    const first = this.#requestAt(0);
    setKey(first, this.position ?? LOWEST, this.#side());
    yield* tree.begin(first);
    for (let attempt = 1; ; attempt++) {
      const requests = this.#followingLeaves(first, width);
      const { batch } = first;
      batch.clear();
      for (const request of requests) this.#post(request, batch);
      yield batch;
      const pictures = yield* this.#accept(requests);
      if (pictures.length > 0) return pictures;
      yield* lookAgain(tree, first, attempt);
    }
  }

  #post(request: ChimeRequest, batch: ChimeRequest['batch']): void {
    request.readsBounds = true;
    postBracket(this.#tree, request, 0, this.#tree.geometry.shape.span, batch);
  }

  #side(): typeof AT_KEY | typeof BELOW_KEY | typeof AT_LAST {
    if (!this.#reverse) return AT_KEY;
    return this.position === undefined ? AT_LAST : BELOW_KEY;
  }

  #requestAt(i: number): ChimeRequest {
    this.#requests[i] ??= this.#tree.idleRequests.take();
    return this.#requests[i];
  }

  /** Requests for the first one's leaf and for the leaves that follow it under the same parent. */
  #followingLeaves(first: ChimeRequest, width: number): ChimeRequest[] {
    const requests = [first];
    // A request has a lower bound if no cached parent tells it; then none tells what follows.
    if (first.lower !== undefined) return requests;
    const above = first.above as CachedNode;
    const step = this.#reverse ? -1 : 1;
    let before = first;
    for (let i = 1; i < width; i++) {
      const child = first.child + i * step;
      if (child < 0 || child >= above.children) break;
      const lower = above.lowerOf(child);
      // The separator between this leaf and the one before it on this walk.
      const border = this.#reverse ? (before.lower ?? above.lowerOf(child + 1)) : lower;
      if (this.#isEnd(border) || (above.linkHigh(child) & INTERNAL) !== 0) break;
      const request = this.#requestAt(i);
      const link = { low: above.linkLow(child), high: above.linkHigh(child) };
      this.#tree.aimAt(request, link, lower);
      requests.push(request);
      before = request;
    }
    return requests;
  }

  /** Pictures of as many leaves, from the first one on, as were read whole and are adjacent. */
  *#accept(requests: readonly ChimeRequest[]): Operation<LeafPicture[]> {
    const tree = this.#tree;
    const pictures: LeafPicture[] = [];
    for (let i = 0; i < requests.length; i++) {
      const request = requests[i];
      if (!this.#isPicture(request)) break;
      const lower = request.lower ?? (request.above as CachedNode).lowerOf(request.child);
      const next = this.#reverse ? requests[i - 1] : requests[i + 1];
      const upper = leadsTo(request, next) ? next.lower : (yield* tree.boundsIn(request)).pivot;
      if (!this.#follows(lower, upper)) break;
      const at = this.position;
      const range = this.#reverse ? { lower, upper: at } : { lower: at ?? LOWEST, upper };
      pictures.push({ request, ...range, leaf: { lower, upper } });
      this.#pass(range);
      if (this.#done) break;
    }
    return pictures;
  }

  /**
   * Whether the leaf was read consistently. If the order of its keys is remembered, `readItems`
   * verifies only the items that it returns.
   */
  #isPicture(request: ChimeRequest): boolean {
    const recalls = this.#orders !== undefined && isStill(request) && isLeafStill(request);
    if (recalls && this.#orders?.recall(request)) return true;
    if (!isPicture(this.#tree, request)) return false;
    request.order.clear(true);
    return true;
  }

  /** Whether the position is within a leaf's bounds. */
  #follows(lower: Uint8Array, upper: Uint8Array | undefined): boolean {
    const at = this.position;
    if (at === undefined) return upper === undefined;
    const [above, below] = [compareWhole(lower, at), upper && compareWhole(at, upper)];
    if (this.#reverse) return above < 0 && (below === undefined || below <= 0);
    return above <= 0 && (below === undefined || below < 0);
  }

  #isEnd(position: Uint8Array): boolean {
    if (this.#end === undefined) return false;
    const order = compareWhole(position, this.#end);
    return this.#reverse ? order <= 0 : order >= 0;
  }

  #pass({ lower, upper }: { lower: Uint8Array; upper: Uint8Array | undefined }): void {
    this.position = this.#reverse ? lower : upper;
    this.#done = this.#reverse ? lower.length === 0 : upper === undefined;
  }

  /** Goes back to an earlier position, because the caller could not use what came after it. */
  returnTo(position: Uint8Array | undefined): void {
    this.position = position;
    this.#done = false;
  }

  /** How many internal nodes are above the leaf that was read last. */
  get height(): number {
    let height = 0;
    let node = this.#tree.cache.top;
    for (; node !== undefined; height++) node = node.node(node.childFor(this.#requestAt(0)));
    return height - 1;
  }

  /** Gives back the requests, once the caller no longer needs their pictures. */
  release(): void {
    for (const request of this.#requests) this.#tree.idleRequests.give(request);
    this.#requests.length = 0;
  }

  /** Passes a leaf without reading it, by the cached separators. Only forward. */
  *skip(): Operation<void> {
    const request = this.#requestAt(0);
    const position = this.position ?? LOWEST;
    setKey(request, position, AT_KEY);
    yield* this.#tree.begin(request);
    const upper = (request.above as CachedNode).upperOf(request.child);
    // Otherwise the walk would go in a circle.
    const isAhead = upper === undefined || compareWhole(position, upper) < 0;
    invariant(isAhead, 'the separators of a node are not in order');
    this.#pass({ lower: LOWEST, upper });
  }

  /**
   * Finishes pending splits and merges on the path to a leaf, if the pool has room for that. Then
   * passes the leaf by the tree's separators instead of the cached ones. Only forward.
   */
  *finishPathAndSkip(): Operation<void> {
    const position = this.position as Uint8Array;
    yield* finishPending(this.#tree, { u8: position, at: 0, bytes: position.length });
    this.#tree.cache.forget();
    yield* this.skip();
  }
}

/** Whether a leaf's sibling link names the next leaf, so that it ends where that one begins. */
function leadsTo({ words }: ChimeRequest, next: ChimeRequest | undefined): next is ChimeRequest {
  if (next?.lower === undefined) return false;
  const at = IMAGE_AT + BOUNDS_AT;
  return isSameLeaf(lowHalf(words, at), highHalf(words, at), next.leafLow, next.leafHigh);
}

function setKey(request: ChimeRequest, key: Uint8Array, side: ChimeRequest['side']): void {
  request.outgoing.ensure(HEADER_BYTES + key.length);
  request.outgoing.u8.set(key, HEADER_BYTES);
  request.keyBytes = key.length;
  request.side = side;
}
