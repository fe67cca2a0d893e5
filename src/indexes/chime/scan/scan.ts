import { StepwellError } from '../../../errors.ts';
import type { Operation } from '../../../verbs/index.ts';
import type { IndexScan, IndexWalk, KeyRange, RecordBlock } from '../../contract.ts';
import { type HalfOpenRange, halfOpen, isEmpty, narrowed } from '../../substrates/key-range.ts';
import { CONTENT_AT } from '../../substrates/leaf/layout.ts';
import { adoptInline } from '../../substrates/leaf/read-leaf.ts';
import { compareWhole } from '../nodes/keys.ts';
import type { ChimeRequest } from '../request.ts';
import type { ChimeTree } from '../tree.ts';
import { cursorOf, isCursor } from './cursor-keys.ts';
import type { KeyOrder } from './key-order.ts';
import { addRecords, type LeafItems, type LeafPicture, readItems } from './leaf-items.ts';
import { LeafWalk } from './leaf-walk.ts';

/** Leaves to read in one doorbell, by default. */
const WIDTH = 4;
const WIDTH_MAX = 64;
/** A request that grew for long values is not kept. */
const KEPT_BYTES = 1024 * 1024;
/** Assumed fill of leaves before any was read: about what random insertions leave. */
const FILL = 0.6;
/** Expected share of the first leaf that lies outside of a range that begins within it. */
const FIRST_OUTSIDE = 0.5;

/** Called for each record: the request's found one, its key in `outgoing`. */
type Visit = (request: ChimeRequest, keyBytes: number) => void;
type VisitBlock = (block: RecordBlock) => void;

/** One step, and where the scan stood before it. */
interface Step {
  readonly position: Uint8Array | undefined;
  readonly left: number;
  readonly request: ChimeRequest;
  isTaken: boolean;
}

/**
 * A scan (CHIME section 4.4): the records of a range of keys, ascending or descending, some leaves
 * at a time. Each step is an operation of its own:
 *
 *   D[READ sequence, bounds, entries, identity and sequence] of `width` leaves       1 round trip
 *     -> READ records of longer items                                                2
 *
 * Every key that is present throughout comes exactly once, with a value that was current at some
 * moment of the scan, because the scan meets each key in exactly one leaf. A step that fails does
 * not count: the next one visits its records again.
 */
export class ChimeScan implements IndexScan {
  readonly #tree: ChimeTree;
  readonly #reverse: boolean;
  readonly #limit: number;
  readonly #width: number;
  readonly #whole: HalfOpenRange;
  #range: HalfOpenRange;
  #leaves: LeafWalk;
  #left: number;
  #perLeaf: number;

  constructor(tree: ChimeTree, range: KeyRange) {
    this.#tree = tree;
    this.#reverse = range.reverse ?? false;
    this.#limit = range.limit ?? Number.POSITIVE_INFINITY;
    this.#width = Math.max(1, Math.min(WIDTH_MAX, range.width ?? WIDTH));
    this.#whole = halfOpen(range);
    this.#range = this.#whole;
    this.#perLeaf = Math.max(1, FILL * tree.geometry.shape.span);
    this.#left = this.#limit;
    this.#leaves = this.#walk();
  }

  #walk(): LeafWalk {
    const { from, to } = this.#range;
    const [start, end] = this.#reverse ? [to, from] : [from, to];
    return new LeafWalk(this.#tree, start, this.#reverse, end, this.#tree.orders);
  }

  get done(): boolean {
    if (this.#left <= 0 || this.#leaves.done || isEmpty(this.#range)) return true;
    const { position } = this.#leaves;
    if (position === undefined) return false;
    const { from, to } = this.#range;
    if (this.#reverse) return compareWhole(position, from) <= 0;
    return to !== undefined && compareWhole(position, to) >= 0;
  }

  /** Forward: the lowest key that the scan has not passed; undefined at the end. */
  get position(): Uint8Array | undefined {
    return this.#leaves.position;
  }

  seek(key: Uint8Array): void {
    this.#range = narrowed(this.#whole, key, this.#reverse);
    this.#left = this.#limit;
    this.#leaves = this.#walk();
  }

  *next(visit: Visit, keysOnly = false, visitBlock?: VisitBlock): Operation<void> {
    if (this.done) return;
    const step = this.#beginStep();
    try {
      const all = yield* this.#readStep(step, this.#left, keysOnly);
      for (const items of all) {
        if (this.#left > 0)
          yield* this.#visitLeaf(items, step.request, visit, keysOnly, visitBlock);
      }
      this.#learn(all);
      step.isTaken = true;
    } finally {
      this.#endStep(step);
    }
  }

  /** As `next` without a limit, but only counts. */
  *countNext(): Operation<number> {
    if (this.done) return 0;
    const step = this.#beginStep();
    try {
      const all = yield* this.#readStep(step, Number.POSITIVE_INFINITY, true);
      let count = 0;
      for (const items of all) {
        addRecords(items, step.request);
        const { first, end } = items.picture.request.order;
        count += end - first;
      }
      step.isTaken = true;
      return count;
    } finally {
      this.#endStep(step);
    }
  }

  /** Reads the items of the next leaves. Forgets orders that fail, so each fails at most once. */
  *#readStep(step: Step, limit: number, keysOnly: boolean): Operation<LeafItems[]> {
    const wanted = { range: this.#range, limit, reverse: this.#reverse, keysOnly };
    const width = limit === Number.POSITIVE_INFINITY ? this.#width : this.#leavesNeeded();
    for (let attempt = 1; ; attempt++) {
      const pictures = yield* this.#leaves.nextGroup(width);
      const all = yield* readItems(this.#tree, pictures, wanted, step.request);
      if (all !== undefined) return all;
      this.#tree.count('changing', attempt, pictures[0].request);
      for (const { request } of pictures) this.#tree.orders.forget(request);
      this.#leaves.returnTo(step.position);
    }
  }

  #beginStep(): Step {
    const { position } = this.#leaves;
    const request = this.#tree.idleRequests.take();
    return { position, left: this.#left, request, isTaken: false };
  }

  /** A step that failed, or that its caller gave up, does not count: the next one repeats it. */
  #endStep({ position, left, request, isTaken }: Step): void {
    if (!isTaken) {
      this.#leaves.returnTo(position);
      this.#left = left;
    }
    this.#leaves.release();
    if (request.incoming.u8.length <= KEPT_BYTES) this.#tree.idleRequests.give(request);
  }

  *#visitLeaf(
    items: LeafItems,
    request: ChimeRequest,
    visit: Visit,
    keysOnly: boolean,
    visitBlock: VisitBlock | undefined,
  ): Operation<void> {
    const { order, words } = items.picture.request;
    addRecords(items, request);
    order.sort(words, request.incoming);
    const { block } = this.#tree;
    const isPlain = visitBlock !== undefined && items.records.length === 0;
    if (isPlain && block.fill(words, order, this.#reverse, this.#left)) {
      this.#left -= block.count;
      visitBlock(block);
      return;
    }
    let done = this.#visitFrom(items.picture, request, order, 0, visit, keysOnly);
    // Only chained values need more verbs.
    while (done < order.end - order.first && this.#left > 0) {
      yield* this.#tree.records.complete(request);
      this.#left--;
      visit(request, request.keyBytes);
      done = this.#visitFrom(items.picture, request, order, done + 1, visit, keysOnly);
    }
  }

  /**
   * Visits the items of a leaf from one on, all that are wanted, or up to one whose value must be
   * read first. Returns its number. No generator: this is the loop of every scan.
   */
  #visitFrom(
    picture: LeafPicture,
    request: ChimeRequest,
    keys: KeyOrder,
    from: number,
    visit: Visit,
    keysOnly: boolean,
  ): number {
    const { sorted, at, keyBytes, isRecord, first, end } = keys;
    const { words } = picture.request;
    const { seed } = this.#tree.geometry.shape;
    for (let i = from; i < end - first && this.#left > 0; i++) {
      const one = sorted[this.#reverse ? end - 1 - i : first + i];
      if (isRecord[one] === 0) {
        request.adoptKeyBytes(words, at[one] + CONTENT_AT, keyBytes[one]);
        adoptInline(request, words, at[one]);
      } else {
        request.adoptKey(request.incoming, at[one], keyBytes[one], seed);
        if (!keysOnly && request.found.isChained) return i;
        if (!keysOnly) this.#tree.records.check(request);
      }
      this.#left--;
      visit(request, keyBytes[one]);
    }
    return end - first;
  }

  /** Updates the estimate of records per leaf, by which the next step chooses its width. */
  #learn(all: readonly LeafItems[]): void {
    if (this.#left === Number.POSITIVE_INFINITY) return;
    let count = 0;
    for (const { picture, records } of all) {
      count += Math.max(picture.request.order.count, records.length);
    }
    this.#perLeaf = Math.max(1, (this.#perLeaf + count / all.length) / 2);
  }

  #leavesNeeded(): number {
    const { from, to } = this.#range;
    const { position } = this.#leaves;
    const begins = this.#reverse ? position === to : position === from;
    const open = this.#reverse ? to === undefined : from.length === 0;
    const leaves = this.#left / this.#perLeaf + (begins && !open ? FIRST_OUTSIDE : 0);
    return Math.min(this.#width, Math.ceil(leaves));
  }
}

/** A walk over all records, or those of a range: a scan from the lowest key, a leaf at a time. */
export class ChimeWalk implements IndexWalk {
  readonly #tree: ChimeTree;
  readonly #range: KeyRange;
  #scan: ChimeScan;
  /** A cursor whose key has not been found yet; else 0. */
  #from: number;

  /** Raises SW_INVALID_ARGUMENT for an invalid cursor. */
  constructor(tree: ChimeTree, cursor: number, range: KeyRange = {}) {
    if (!isCursor(cursor)) {
      throw new StepwellError('SW_INVALID_ARGUMENT', `not a cursor of this store: ${cursor}`);
    }
    this.#tree = tree;
    this.#from = cursor;
    this.#range = { lower: range.lower, upper: range.upper, width: 1 };
    this.#scan = new ChimeScan(tree, this.#range);
  }

  get done(): boolean {
    return this.#scan.done;
  }

  get cursor(): number {
    const { position } = this.#scan;
    if (this.#from !== 0) return this.#from;
    if (position === undefined || this.#scan.done) return 0;
    return this.#tree.cursors.give(position, this.#tree.geometry.shape.seed);
  }

  *next(
    visit: (request: ChimeRequest, keyBytes: number) => void,
    keysOnly = false,
  ): Operation<void> {
    if (this.#from !== 0) {
      const key = yield* findPosition(this.#tree, this.#from);
      this.#from = 0;
      // Also back: a cursor may be from a walk of another range.
      this.#scan.seek(key);
    }
    yield* this.#scan.next(visit, keysOnly);
  }
}

const LOWEST = new Uint8Array(0);

/**
 * The key that a cursor stands for: one that this client gave out, else a separator that it
 * remembers, else one in the tree. A merge of leaves may have removed the separator at which
 * another client's walk stopped. The walk then starts again, so that it misses nothing.
 */
function* findPosition(tree: ChimeTree, cursor: number): Operation<Uint8Array> {
  const given = tree.cursors.recall(cursor);
  if (given !== undefined) return given;
  const { seed } = tree.geometry.shape;
  const leaves = new LeafWalk(tree, LOWEST);
  while (leaves.position !== undefined) {
    if (cursorOf(leaves.position, seed) === cursor) return leaves.position;
    yield* leaves.skip();
  }
  // The separator may belong to a sibling that its parent does not link yet.
  const fresh = new LeafWalk(tree, LOWEST);
  while (fresh.position !== undefined) {
    const { position } = fresh;
    if (cursorOf(position, seed) === cursor) return position;
    yield* fresh.finishPathAndSkip();
  }
  return LOWEST;
}
