import type { Operation } from '../../verbs/index.ts';
import type { IndexScan, KeyRange } from '../contract.ts';
import { countBySlots } from './count-leaves.ts';
import { common, type HalfOpenRange, halfOpen, isEmpty, narrowed } from './key-range.ts';
import { compareWhole } from './keys.ts';
import { type LeafPicture, LeafWalk } from './leaf-walk.ts';
import { compareEntries, type Entry, holds, readRecords } from './scan-records.ts';
import type { ChimeRequest, ChimeTree } from './tree.ts';

/** Leaves that are read in one doorbell when nobody says. */
const WIDTH = 4;
const WIDTH_MAX = 64;
/** A request that grew for long values is not kept. */
const KEPT_BYTES = 1024 * 1024;
/** How full leaves are taken to be before any was read: as random insertion leaves them. */
const FILL = 0.6;

/**
 * A scan (CHIME section 4.4): the records of a range of keys in their order, or against it, those
 * of some leaves at a time. Each step is an operation of its own:
 *
 *   D[READ leaf; READ first word] of `width` leaves -> READ their records        2 round trips
 *
 * Empty slots are not followed, and a limited scan reads no more leaves than it is likely to need.
 * Which entries of a leaf are in the range only their records tell.
 *
 * Every key that is present throughout comes exactly once, with a value that was current at some
 * moment of the scan: it has one leaf to be met in, and one slot of that leaf while it is there.
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
    return new LeafWalk(this.#tree, this.#reverse ? to : from, this.#reverse);
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

  *next(
    visit: (request: ChimeRequest, keyBytes: number) => void,
    keysOnly = false,
  ): Operation<void> {
    if (this.done) return;
    this.#tree.cache.begin();
    const request = this.#tree.spareRequests.take();
    try {
      yield* this.#visitNext(request, visit, keysOnly);
    } finally {
      this.#leaves.release();
      if (request.incoming.u8.length <= KEPT_BYTES) this.#tree.spareRequests.give(request);
    }
  }

  /**
   * As `next` without a limit, but only counts: of leaves that are in the range as a whole, the
   * slots in use, in one round trip; of others, and where two slots may be of one key, the keys.
   */
  *countNext(): Operation<number> {
    if (this.done) return 0;
    this.#tree.cache.begin();
    const request = this.#tree.spareRequests.take();
    try {
      const leaves = yield* this.#leaves.nextGroup(this.#width);
      const counts = leaves.map((leaf) => countBySlots(leaf, this.#range));
      const doubtful = leaves.filter((_, i) => counts[i] === undefined);
      const entries = yield* readRecords(request, doubtful, true);
      const read = this.#inOrder(request.incoming.u8, entries, doubtful).length;
      return counts.reduce<number>((sum, count = 0) => sum + count, read);
    } finally {
      this.#leaves.release();
      this.#tree.spareRequests.give(request);
    }
  }

  *#visitNext(
    request: ChimeRequest,
    visit: (request: ChimeRequest, keyBytes: number) => void,
    keysOnly: boolean,
  ): Operation<void> {
    const leaves = yield* this.#leaves.nextGroup(this.#leavesNeeded());
    const entries = yield* readRecords(request, leaves, keysOnly);
    const { u8 } = request.incoming;
    const wanted = this.#inOrder(u8, entries, leaves);
    this.#perLeaf = Math.max(1, (this.#perLeaf + entries.length / leaves.length) / 2);
    const { seed } = this.#tree.geometry.shape;
    for (const { at, keyBytes } of wanted) {
      request.adoptKey(request.incoming, at, keyBytes, seed);
      if (!keysOnly) yield* this.#tree.records.complete(request);
      visit(request, keyBytes);
      if (--this.#left <= 0) return;
    }
  }

  #leavesNeeded(): number {
    return Math.min(this.#width, Math.ceil(this.#left / this.#perLeaf));
  }

  /** The entries that count, each key once. */
  #inOrder(u8: Uint8Array, entries: Entry[], leaves: readonly LeafPicture[]): Entry[] {
    const ranges = leaves.map(({ lower, upper }) =>
      common({ from: lower, to: upper }, this.#range),
    );
    const inRange = entries.filter((entry) => holds(ranges[entry.leaf], u8, entry));
    inRange.sort((a, b) => compareEntries(u8, a, b));
    // A key that was removed and came back while the leaf was being read may stand there twice.
    const once = inRange.filter(
      (entry, i) => i === 0 || compareEntries(u8, inRange[i - 1], entry) !== 0,
    );
    return this.#reverse ? once.reverse() : once;
  }
}
