import { invariant } from '../../errors.ts';
import {
  type Address,
  Batch,
  highHalf,
  lowHalf,
  type Operation,
  Scratch,
} from '../../verbs/index.ts';
import { nextSuffix } from '../substrates/directory.ts';
import { catchUp, linkSibling } from './operations/refresh.ts';
import type { SepHashRequest } from './request.ts';
import { isPad, signOf } from './segments/entry.ts';
import { epochOf, HEADER_BYTES, mainOf, signOfEpoch } from './segments/header.ts';
import {
  blockOfMain,
  fpTableIn,
  MAIN_HEADER_BYTES,
  type MainHeader,
  parseMainHeader,
  withoutMarks,
} from './segments/main-segment.ts';
import type { SepHashTable } from './table.ts';

const ROUNDS_MAX = 10_000;

/**
 * A segment as it was at one moment: for walks, counting and checks, which look at all entries.
 * Entries are pairs of halves.
 */
export class Snapshot {
  readonly #table: SepHashTable;
  readonly #batch = new Batch();
  readonly #slots: Scratch;
  readonly #head = new Scratch(MAIN_HEADER_BYTES);
  readonly #words = new Scratch(HEADER_BYTES);
  /** Finds the segment, and merges it in a compaction. */
  readonly request: SepHashRequest;
  header: Address = 0;
  metaLow = 0;
  metaHigh = 0;
  main!: MainHeader;
  /** The FPTable, which counts marks as entries; valid until the next snapshot. */
  readonly ends: Uint16Array;
  /** The CurSegment's entries except pads, oldest first; valid until the next snapshot. */
  current: Int32Array = new Int32Array(0);
  readonly #entries: Int32Array;
  /** Whether the CurSegment has no empty entry: pads may have filled it. */
  isFull = false;

  constructor(table: SepHashTable) {
    this.#table = table;
    this.#slots = new Scratch(table.geometry.slotsBytes);
    this.#entries = new Int32Array(2 * table.geometry.slots);
    this.request = table.newRequest();
    this.ends = fpTableIn(this.#head, 0);
  }

  /** Reads the segment of keys whose hashes end in this suffix. */
  *take(suffix: number): Operation<void> {
    for (let round = 0; round < ROUNDS_MAX; round++) {
      this.header = this.#table.directory.lookup(suffix);
      yield* this.#readMeta();
      yield* this.#readMain();
      const { suffix: own, depth, sibling } = this.main;
      if ((suffix & (2 ** depth - 1)) !== own) {
        yield* this.#findOther(suffix);
        continue;
      }
      yield* linkSibling(this.#table, own, depth, sibling);
      if (yield* this.#readCurrent()) return;
    }
    return invariant(false, 'a segment was merged during every attempt to read it') as never;
  }

  /** The block of the MainSegment. */
  get mainBlock(): Address {
    return blockOfMain(mainOf(this.metaLow, this.metaHigh), this.main);
  }

  /** Positions that the MainSegment's entries and marks take. */
  get positions(): number {
    return this.main.count + this.#table.geometry.marks;
  }

  /** All entries of the MainSegment, and behind them those that its merge has dropped. */
  entries(): Operation<Int32Array> {
    return this.range(0, this.positions + this.main.dropped);
  }

  /** Reads the entries of the MainSegment at positions [start, end) into `area`. */
  *range(start: number, end: number, area = new Scratch(0)): Operation<Int32Array> {
    if (start === end) return new Int32Array(0);
    const isPart = start < end && end <= this.positions + this.main.dropped;
    invariant(isPart, `entries ${start} to ${end} of segment ${this.main.suffix}`);
    area.ensure(8 * (end - start));
    const from = mainOf(this.metaLow, this.metaHigh) + MAIN_HEADER_BYTES + 8 * start;
    yield this.#batch.clear().read(from, 8 * (end - start), area, 0);
    return withoutMarks(area.i32.subarray(0, 2 * (end - start)));
  }

  *#readMeta(): Operation<void> {
    yield this.#batch.clear().read(this.header, 8, this.#words, 0);
    this.metaLow = lowHalf(this.#words, 0);
    this.metaHigh = highHalf(this.#words, 0);
  }

  *#readMain(): Operation<void> {
    const main = mainOf(this.metaLow, this.metaHigh);
    yield this.#batch.clear().read(main, MAIN_HEADER_BYTES, this.#head, 0);
    this.main = parseMainHeader(this.#head, 0);
  }

  /** The segment was split after the directory was read: reads it again, or links the sibling. */
  *#findOther(suffix: number): Operation<void> {
    this.request.begin();
    this.request.hash.h1 = suffix;
    this.request.view = this.#table.viewAt(this.header);
    this.request.noteFresh(this.metaLow, this.metaHigh);
    yield* catchUp(this.#table, this.request, 1);
  }

  /** False when the segment was merged meanwhile. */
  *#readCurrent(): Operation<boolean> {
    const { slotsBytes, slots } = this.#table.geometry;
    yield this.#batch
      .clear()
      .read(this.main.slots, slotsBytes, this.#slots, 0)
      .read(this.header, HEADER_BYTES, this.#words, 0);
    if (lowHalf(this.#words, 0) !== this.metaLow) return false;
    if (highHalf(this.#words, 0) !== this.metaHigh) return false;
    const sign = signOfEpoch(epochOf(this.metaHigh));
    let at = 0;
    let length = 0;
    for (; at < 8 * slots; at += 8) {
      const high = highHalf(this.#slots, at);
      if (signOf(high) !== sign) break;
      if (isPad(high)) continue;
      this.#entries[length++] = lowHalf(this.#slots, at);
      this.#entries[length++] = high;
    }
    this.isFull = at === 8 * slots;
    this.current = this.#entries.subarray(0, length);
    this.request.view = this.#table.viewAt(this.header);
    this.request.metaLow = this.metaLow;
    this.request.metaHigh = this.metaHigh;
    return true;
  }
}

/**
 * Visits a snapshot of every segment, in the order of reversed suffixes, so that a key that is
 * present throughout is met in spite of splits.
 */
export function* eachSegment(
  table: SepHashTable,
  visit: (snapshot: Snapshot) => Operation<void>,
): Operation<void> {
  const snapshot = new Snapshot(table);
  for (let suffix: number | undefined = 0; suffix !== undefined; ) {
    yield* snapshot.take(suffix);
    const { depth, suffix: own } = snapshot.main;
    yield* visit(snapshot);
    suffix = nextSuffix(own, depth);
  }
}
