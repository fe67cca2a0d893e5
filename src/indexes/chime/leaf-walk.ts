import { hasCode, invariant } from '../../errors.ts';
import { HEADER_BYTES } from '../../records/layout.ts';
import { type Address, type Batch, type Operation, Scratch } from '../../verbs/index.ts';
import { descend, leaveGone, reach, refresh } from './descent.ts';
import { SLOTS_AT } from './geometry.ts';
import { type Borders, EVERYTHING, KeyScale } from './key-scale.ts';
import { compareWhole } from './keys.ts';
import { IDENTITY_AT } from './leaf-client.ts';
import { addressOfLink, INTERNAL } from './link.ts';
import { mendWay } from './mend.ts';
import { CURRENT, judge, TAKEN_UP } from './neighbourhood.ts';
import { AT_KEY, AT_LAST, BELOW_KEY, type CachedNode } from './node-book.ts';
import { slotsOf } from './node-io.ts';
import { sureLeaf } from './sure-leaf.ts';
import type { ChimeRequest, ChimeTree } from './tree.ts';

/** A leaf as it was at one time, and the keys of it that count: from `lower` to below `upper`. */
export interface LeafPicture {
  address: Address;
  /** Two halves a slot. */
  slots: Int32Array;
  lower: Uint8Array;
  /** Undefined: there is no higher key. */
  upper: Uint8Array | undefined;
  /** What keys the leaf may have, whether they count or not. */
  borders: Borders;
  scale: KeyScale;
}

const LOWEST = new Uint8Array(0);

/**
 * Goes through the leaves in the order of their keys, or against it. A leaf's range is the one that
 * the way to it says, and never changes; where it ends the next one begins, also when leaves have
 * been split since. So there are no sibling pointers to keep right, and a key has one leaf to be
 * met in.
 */
export class LeafWalk {
  readonly #tree: ChimeTree;
  readonly #reverse: boolean;
  /** What lies behind it is not wanted, as far as one can tell before it is read. */
  readonly #end: Uint8Array | undefined;
  readonly #places: Place[] = [];
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
  ) {
    this.#tree = tree;
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
   * Up to `width` leaves by READs in one doorbell (CHIME section 4.4, scan): the next one, and
   * those behind it as far as is remembered of the tree. At least one; good until the next call.
   */
  *nextGroup(width: number): Operation<LeafPicture[]> {
    for (let attempt = 1; ; attempt++) {
      const places = yield* this.#aim(width);
      const [{ request }] = places;
      const batch = request.batch.clear();
      for (const place of places) place.post(batch);
      yield batch;
      const verdictOf = (place: Place) => judge(this.#tree, place.request);
      const good = places.findIndex((place) => verdictOf(place) !== CURRENT);
      if (good !== 0) {
        const pictures = places.slice(0, good < 0 ? places.length : good).map((p) => p.picture());
        this.#pass(pictures[pictures.length - 1]);
        return pictures;
      }
      if (verdictOf(places[0]) === TAKEN_UP) return [yield* this.#readSurely(request)];
      yield* leaveGone(this.#tree, request, attempt);
    }
  }

  /** A leaf that its parent is taking up. */
  *#readSurely(request: ChimeRequest): Operation<LeafPicture> {
    const tree = this.#tree;
    const at = this.position;
    const { leaf, lower, upper } = yield* sureLeaf(tree, request);
    yield* refresh(tree, request);
    const range = this.#reverse ? { lower, upper: at } : { lower: at ?? LOWEST, upper };
    this.#pass(range);
    const borders = { lower, upper };
    const scale = new KeyScale().set(borders);
    return { address: leaf.address, slots: slotsOf(tree, leaf), ...range, borders, scale };
  }

  /** The next leaves, and their ranges: at once, for what is remembered may change meanwhile. */
  *#aim(width: number): Operation<Place[]> {
    const tree = this.#tree;
    const places: Place[] = [];
    let at = this.position;
    for (let i = 0; i < width; i++) {
      this.#places[i] ??= tree.sparePlaces.take();
      const place = this.#places[i];
      if (i === 0 || !place.aimBeside(places[i - 1], this.#reverse)) {
        this.#setKey(place.request, at);
        if (!place.aimAtKey()) {
          if (i > 0) break;
          yield* reach(tree, place.request);
          invariant(place.aimAtKey(), 'the way to a leaf was forgotten while it was being read');
        }
      }
      if (this.#reverse) place.upper = at;
      else place.lower = at ?? LOWEST;
      places.push(place);
      at = this.#reverse ? place.lower : place.upper;
      if (at === undefined || at.length === 0 || this.#isEnd(at)) break;
    }
    return places;
  }

  #isEnd(position: Uint8Array): boolean {
    if (this.#end === undefined) return false;
    const order = compareWhole(position, this.#end);
    return this.#reverse ? order <= 0 : order >= 0;
  }

  #setKey(request: ChimeRequest, key: Uint8Array | undefined): void {
    setKey(request, key ?? LOWEST);
    if (this.#reverse) request.side = key === undefined ? AT_LAST : BELOW_KEY;
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
    for (; node !== undefined; height++) node = node.node(node.childFor(this.#places[0].request));
    return height - 1;
  }

  /** The pictures have been used; what they were read into is for others. */
  release(): void {
    for (const place of this.#places) this.#tree.sparePlaces.give(place);
    this.#places.length = 0;
  }

  /** Passes a leaf without reading it, as far as is remembered of the tree. */
  *skip(): Operation<void> {
    const [{ lower, upper }] = yield* this.#aim(1);
    this.#pass({ lower, upper });
  }

  /**
   * Puts the way to a leaf in order, if the pool has room for it, then passes it by what is in the
   * tree and not remembered. Only forward.
   */
  *mendAndSkip(): Operation<void> {
    const position = this.position as Uint8Array;
    try {
      yield* mendWay(this.#tree, { u8: position, at: 0, bytes: position.length }, -1);
    } catch (error) {
      if (!hasCode(error, 'SW_POOL_FULL')) throw error;
    }
    this.#tree.cache.forget();
    yield* this.skip();
  }
}

/** One leaf of a group: the request that goes to it, and what is read of it. */
export class Place {
  readonly #tree: ChimeTree;
  readonly request: ChimeRequest;
  readonly #image: Scratch;
  readonly #slots: Int32Array;
  lower: Uint8Array = LOWEST;
  upper: Uint8Array | undefined;
  #borders: Borders = EVERYTHING;
  readonly #scale = new KeyScale();

  constructor(tree: ChimeTree) {
    this.#tree = tree;
    this.request = tree.newRequest();
    const { leafBytes } = tree.geometry;
    this.#image = new Scratch(leafBytes);
    this.#slots = this.#image.i32.subarray(SLOTS_AT >> 2, leafBytes >> 2);
  }

  /** The request's leaf and its range; false when the way is not remembered. */
  aimAtKey(): boolean {
    const { request } = this;
    const above = descend(this.#tree, request);
    if (above === undefined || request.leaf === 0) return false;
    this.#aimAt(above, request.child);
    return true;
  }

  /** The leaf next to another one's below the same node; false when there is none. */
  aimBeside(other: Place, reverse: boolean): boolean {
    const { child } = other.request;
    const parent = other.request.above as CachedNode;
    const next = reverse ? child - 1 : child + 1;
    if (next < 0 || next > parent.separators.length) return false;
    if ((parent.linkHigh(next) & INTERNAL) !== 0) return false;
    const { lower, upper } = other.#borders;
    if (reverse) this.#aimAt(parent, next, { lower: parent.lowerOf(next), upper: lower });
    else this.#aimAt(parent, next, { lower: upper as Uint8Array, upper: parent.upperOf(next) });
    return true;
  }

  #aimAt(parent: CachedNode, child: number, borders = parent.bordersOf(child)): void {
    const { request } = this;
    this.#borders = borders;
    this.lower = borders.lower;
    this.upper = borders.upper;
    this.#tree.cache.measure(parent, child, this.#scale);
    request.above = parent;
    request.child = child;
    request.leafLow = parent.linkLow(child);
    request.leafHigh = parent.linkHigh(child);
    request.leaf = addressOfLink(request.leafLow, request.leafHigh);
  }

  /** The first word is read last: of its own leaf, whatever was frozen meanwhile. */
  post(batch: Batch): void {
    const { leaf, words } = this.request;
    batch.read(leaf, this.#tree.geometry.leafBytes, this.#image, 0);
    batch.read(leaf, 8, words, IDENTITY_AT);
    this.request.checked = true;
  }

  picture(): LeafPicture {
    const { lower, upper } = this;
    const borders = this.#borders;
    const scale = this.#scale;
    const slots = this.#slots;
    return { address: this.request.leaf, slots, lower, upper, borders, scale };
  }
}

function setKey(request: ChimeRequest, key: Uint8Array): void {
  request.outgoing.ensure(HEADER_BYTES + key.length);
  request.outgoing.u8.set(key, HEADER_BYTES);
  request.keyBytes = key.length;
  request.side = AT_KEY;
}
