import type { Operation } from '../../verbs/index.ts';
import type { IndexScan, KeyRange } from '../contract.ts';
import { countBySlots } from './count-leaves.ts';
import { countOf } from './hopscotch.ts';
import type { KeyOrder } from './key-order.ts';
import { common, type HalfOpenRange, halfOpen, isEmpty, narrowed } from './key-range.ts';
import { compareWhole } from './keys.ts';
import { type LeafPicture, LeafWalk } from './leaf-walk.ts';
import { type Part, planScan } from './scan-plan.ts';
import { placesIn, RecordReads } from './scan-records.ts';
import type { ChimeRequest, ChimeTree } from './tree.ts';

/** Leaves that are read in one doorbell when nobody says. */
const WIDTH = 4;
const WIDTH_MAX = 64;
/** A request that grew for long values is not kept. */
const KEPT_BYTES = 1024 * 1024;
/** How full leaves are taken to be before any was read: as random insertion leaves them. */
const FILL = 0.6;
/** Which part of the first leaf is likely to lie outside of a range that begins within it. */
const FIRST_OUTSIDE = 0.5;

/** Called for each record: the request's found one, its key in `outgoing`. */
type Visit = (request: ChimeRequest, keyBytes: number) => void;

/** One step, and where the scan stood before it. */
interface Step {
  readonly position: Uint8Array | undefined;
  readonly left: number;
  readonly request: ChimeRequest;
  isTaken: boolean;
}

/**
 * A scan (CHIME section 4.4): the records of a range of keys in their order, or against it, those
 * of some leaves at a time. Each step is an operation of its own:
 *
 *   D[READ leaf; READ first word] of `width` leaves -> READ their records        2 round trips
 *
 * Empty slots are not followed, and a limited scan reads no more leaves than it is likely to need.
 * Which entries of a leaf are in the range their hints tell but for a few, and which come first;
 * when those that do have not been enough, others are read of the same pictures of the leaves.
 *
 * Every key that is present throughout comes exactly once, with a value that was current at some
 * moment of the scan: it has one leaf to be met in, and one slot of that leaf while it is there. A
 * step that fails is not taken: who goes on all the same meets again what it has visited.
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
    return new LeafWalk(this.#tree, start, this.#reverse, end);
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

  *next(visit: Visit, keysOnly = false): Operation<void> {
    if (this.done) return;
    const step = this.#beginStep();
    try {
      yield* this.#visitNext(step.request, visit, keysOnly);
      step.isTaken = true;
    } finally {
      this.#endStep(step);
    }
  }

  /**
   * As `next` without a limit, but only counts: the slots in use whose hints say that they are in
   * the range, in one round trip; of others, and where two slots may be of one key, the keys.
   */
  *countNext(): Operation<number> {
    if (this.done) return 0;
    const step = this.#beginStep();
    try {
      const leaves = yield* this.#leaves.nextGroup(this.#width);
      const counts = leaves.map((leaf) => countBySlots(leaf, this.#range));
      const open = counts.flatMap(({ open }) => open ?? []);
      const read = yield* this.#countKeys(step.request, open);
      step.isTaken = true;
      return counts.reduce((sum, { count }) => sum + count, read);
    } finally {
      this.#endStep(step);
    }
  }

  #beginStep(): Step {
    this.#tree.cache.begin();
    const { position } = this.#leaves;
    const request = this.#tree.spareRequests.take();
    return { position, left: this.#left, request, isTaken: false };
  }

  /** A step that failed, or that its caller gave up, was none: the next one begins where it did. */
  #endStep({ position, left, request, isTaken }: Step): void {
    if (!isTaken) {
      this.#leaves.returnTo(position);
      this.#left = left;
    }
    this.#leaves.release();
    if (request.incoming.u8.length <= KEPT_BYTES) this.#tree.spareRequests.give(request);
  }

  /** Of parts of leaves, the keys in the range; only those are read that the parts say. */
  *#countKeys(request: ChimeRequest, parts: readonly Part[]): Operation<number> {
    const bench = this.#tree.spareBenches.take();
    let count = 0;
    try {
      const leaves = parts.map(({ leaf }) => leaf);
      const reads = new RecordReads(request, leaves, bench.keys, true);
      for (const part of parts) reads.post(part);
      yield* this.#visitParts(request, bench.keys, reads, () => count++, true);
      return count;
    } finally {
      this.#tree.spareBenches.give(bench);
    }
  }

  *#visitNext(request: ChimeRequest, visit: Visit, keysOnly: boolean): Operation<void> {
    const leaves = yield* this.#leaves.nextGroup(this.#leavesNeeded());
    const bench = this.#tree.spareBenches.take();
    const { keys, histogram } = bench;
    try {
      const first = new RecordReads(request, leaves, keys, keysOnly);
      const rest = planScan(leaves, this.#range, this.#left, this.#reverse, histogram, first);
      yield* this.#visitParts(request, keys, first, visit, keysOnly);
      if (this.#left > 0 && rest.length > 0) {
        const reads = new RecordReads(request, leaves, keys, keysOnly);
        for (const part of rest) reads.post(part);
        yield* this.#visitParts(request, keys, reads, visit, keysOnly);
      }
      if (!this.done) this.#learn(leaves);
    } finally {
      this.#tree.spareBenches.give(bench);
    }
  }

  /** How full leaves are, for the next step, which the limit may end. */
  #learn(leaves: readonly LeafPicture[]): void {
    if (this.#left === Number.POSITIVE_INFINITY) return;
    const entries = leaves.reduce((sum, { slots }) => sum + countOf(slots), 0);
    this.#perLeaf = Math.max(1, (this.#perLeaf + entries / leaves.length) / 2);
  }

  /** Reads what was posted of some parts, and visits what of it is in the range. */
  *#visitParts(
    request: ChimeRequest,
    keys: KeyOrder,
    reads: RecordReads,
    visit: Visit,
    keysOnly: boolean,
  ): Operation<void> {
    yield* reads.read();
    const { parts, ends } = reads;
    for (let part = 0; part < parts.length && this.#left > 0; part++) {
      const run = this.#placesOf(request, parts[part], keys, ends[part - 1] ?? 0, ends[part]);
      let done = this.#visitFrom(request, keys, run, 0, visit, keysOnly);
      // Only for values behind links it needs more verbs.
      while (done < run.end - run.begin && this.#left > 0) {
        yield* this.#tree.records.complete(request);
        this.#left--;
        visit(request, request.keyBytes);
        done = this.#visitFrom(request, keys, run, done + 1, visit, keysOnly);
      }
    }
  }

  /** Sorts the records of a part; those that count are behind one another then. */
  #placesOf(
    { incoming }: ChimeRequest,
    part: Part,
    keys: KeyOrder,
    first: number,
    end: number,
  ): { begin: number; end: number } {
    if (first === end) return { begin: first, end };
    const { lower, upper, scale } = part.leaf;
    keys.sort(incoming, first, end, scale);
    const range = common({ from: lower, to: upper }, this.#range);
    return placesIn(range, incoming.u8, keys, part, first, end);
  }

  /**
   * Visits the records of a run from a number of it on, all that are wanted, or up to one whose
   * value must be read first. Returns its number. No generator: this is the loop of every scan.
   */
  #visitFrom(
    request: ChimeRequest,
    keys: KeyOrder,
    { begin, end }: { begin: number; end: number },
    from: number,
    visit: Visit,
    keysOnly: boolean,
  ): number {
    const { incoming } = request;
    const { records, geometry } = this.#tree;
    const { seed } = geometry.shape;
    const { sorted, at, keyBytes } = keys;
    const count = end - begin;
    for (let i = from; i < count && this.#left > 0; i++) {
      const place = this.#reverse ? end - 1 - i : begin + i;
      // A key that was removed and came back while the leaf was being read may stand there twice.
      if (keys.hasRepeats && place > begin && keys.isRepeated(incoming, place)) continue;
      const number = sorted[place];
      request.adoptKey(incoming, at[number], keyBytes[number], seed);
      if (!keysOnly) {
        if (request.foundChained) return i;
        records.check(request);
      }
      this.#left--;
      visit(request, keyBytes[number]);
    }
    return count;
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
