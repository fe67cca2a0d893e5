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
 * Goes through the leaves in the order of their keys, or against it (CHIME section 4.4). The next
 * leaf begins where the last one's keys ended when it was read, even if leaves were split or merged
 * since. So the walk meets each key in one leaf.
 */
export class LeafWalk {
  readonly #tree: ChimeTree;
  readonly #reverse: boolean;
  /** The walk need not go beyond this key, as far as it can tell before it reads a leaf. */
  readonly #end: Uint8Array | undefined;
  /** Remembered orders, for leaves that need not be verified whole. */
  readonly #orders: LeafOrders | undefined;
  readonly #requests: ChimeRequest[] = [];
  #done: boolean;
  /**
   * Forward the lowest key that has not been passed, undefined at the end. In reverse the lowest
   * that has been passed, undefined at the start.
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

  /** Only before the end. The picture is good until the next call. */
  *next(): Operation<LeafPicture> {
    const [picture] = yield* this.nextGroup(1);
    return picture;
  }

  /**
   * The next leaf for figures: one that does not stand still is as it was read last, and undefined
   * when it is another leaf by now.
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
   * Up to `width` leaves by READs in one doorbell: the next one, and those behind it as far as is
   * remembered of the tree. At least one; good until the next call.
   */
  *nextGroup(width: number): Operation<LeafPicture[]> {
    const tree = this.#tree;
    const first = this.#requestAt(0);
    setKey(first, this.position ?? LOWEST, this.#side());
    yield* tree.begin(first);
    for (let attempt = 1; ; attempt++) {
      const requests = this.#aimBeside(first, width);
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
    this.#requests[i] ??= this.#tree.spareRequests.take();
    return this.#requests[i];
  }

  /** The leaf that the first request is aimed at, and those next to it below the same node. */
  #aimBeside(first: ChimeRequest, width: number): ChimeRequest[] {
    const requests = [first];
    // Where no parent tells its lower bound no parent tells what is beside it.
    if (first.lower !== undefined) return requests;
    const above = first.above as CachedNode;
    const step = this.#reverse ? -1 : 1;
    let right = first;
    for (let i = 1; i < width; i++) {
      const child = first.child + i * step;
      if (child < 0 || child >= above.children) break;
      const lower = above.lowerOf(child);
      // What is between it and the leaf before it on this walk.
      const border = this.#reverse ? (right.lower ?? above.lowerOf(child + 1)) : lower;
      if (this.#isEnd(border) || (above.linkHigh(child) & INTERNAL) !== 0) break;
      const request = this.#requestAt(i);
      const link = { low: above.linkLow(child), high: above.linkHigh(child) };
      this.#tree.aimAt(request, link, lower);
      requests.push(request);
      right = request;
    }
    return requests;
  }

  /** The leaves, from the first one on, whose pictures are good and follow one another. */
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

  /** Where the order of its keys is remembered, its items are left to be verified: `readItems`. */
  #isPicture(request: ChimeRequest): boolean {
    const recalls = this.#orders !== undefined && isStill(request) && isLeafStill(request);
    if (recalls && this.#orders?.recall(request)) return true;
    if (!isPicture(this.#tree, request)) return false;
    request.order.clear(true);
    return true;
  }

  /** Whether a leaf has the keys at the position. */
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

  /** Back to a position of before, which was not the end: what came after it was not used. */
  returnTo(position: Uint8Array | undefined): void {
    this.position = position;
    this.#done = false;
  }

  /** Internal nodes above the leaf that was read last. */
  get height(): number {
    let height = 0;
    let node = this.#tree.cache.top;
    for (; node !== undefined; height++) node = node.node(node.childFor(this.#requestAt(0)));
    return height - 1;
  }

  /** The pictures have been used; what they were read into is for others. */
  release(): void {
    for (const request of this.#requests) this.#tree.spareRequests.give(request);
    this.#requests.length = 0;
  }

  /** Passes a leaf by what is remembered of the tree; only forward. */
  *skip(): Operation<void> {
    const request = this.#requestAt(0);
    const position = this.position ?? LOWEST;
    setKey(request, position, AT_KEY);
    yield* this.#tree.begin(request);
    const upper = (request.above as CachedNode).upperOf(request.child);
    // Or the walk would go in a circle.
    const isAhead = upper === undefined || compareWhole(position, upper) < 0;
    invariant(isAhead, 'the separators of a node are not in order');
    this.#pass({ lower: LOWEST, upper });
  }

  /**
   * Puts the path to a leaf in order, if the pool has room for it, then passes it by what is in the
   * tree and not remembered. Only forward.
   */
  *mendAndSkip(): Operation<void> {
    const position = this.position as Uint8Array;
    yield* finishPending(this.#tree, { u8: position, at: 0, bytes: position.length });
    this.#tree.cache.forget();
    yield* this.skip();
  }
}

/** Whether a leaf's sibling is the one that the parent has there: it ends where that one begins. */
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
