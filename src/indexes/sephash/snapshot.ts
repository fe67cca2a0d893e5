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
import { HEADER_AT, type SepHashRequest } from './request.ts';
import { isPad, signOf, tagOf } from './segments/entry.ts';
import { canSetBit, completeBit, doubt, wantsBit } from './segments/filter.ts';
import { epochOf, filterWordOf, HEADER_BYTES, mainOf, signOfEpoch } from './segments/header.ts';
import {
  blockOfMain,
  fpTableIn,
  MAIN_HEADER_BYTES,
  type MainHeader,
  parseMainHeader,
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
  /** The header as it was when one of its filter words was doubtful. */
  readonly #seen = new Scratch(HEADER_BYTES);
  /** Finds the segment, and sets filter bits of entries that lack them. */
  readonly request: SepHashRequest;
  header: Address = 0;
  metaLow = 0;
  metaHigh = 0;
  main!: MainHeader;
  /** The FPTable; valid until the next snapshot. */
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

  /** All entries of the MainSegment. */
  entries(): Operation<Int32Array> {
    return this.range(0, this.main.count + this.main.dropped);
  }

  /**
   * Reads some entries of the MainSegment into `area`; behind them are those that its merge has
   * dropped.
   */
  *range(start: number, end: number, area = new Scratch(0)): Operation<Int32Array> {
    if (start === end) return new Int32Array(0);
    const isPart = start < end && end <= this.main.count + this.main.dropped;
    invariant(isPart, `entries ${start} to ${end} of segment ${this.main.suffix}`);
    area.ensure(8 * (end - start));
    const from = mainOf(this.metaLow, this.metaHigh) + MAIN_HEADER_BYTES + 8 * start;
    yield this.#batch.clear().read(from, 8 * (end - start), area, 0);
    return area.i32.subarray(0, 2 * (end - start));
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
    return yield* this.#completeBits();
  }

  /**
   * Entries whose writers died before they had set the filter's bit count from now on. False if a
   * filter word may be of a later epoch: then the caller reads everything again.
   */
  *#completeBits(): Operation<boolean> {
    const { request } = this;
    request.view = this.#table.viewAt(this.header);
    request.metaLow = this.metaLow;
    request.metaHigh = this.metaHigh;
    for (let at = 0; at < HEADER_BYTES; at += 8) this.#copyHeaderWord(at);
    for (let at = 1; at < this.current.length; at += 2) {
      request.tag = tagOf(this.current[at]);
      if (!wantsBit(this.#table, request)) continue;
      if (!canSetBit(request) && !this.#wasSeen(request)) {
        this.#seen.u8.set(this.#words.u8.subarray(0, HEADER_BYTES));
        return false;
      }
      yield* completeBit(this.#table, request);
    }
    return true;
  }

  /** Whether the previous read had the same filter word and metadata. */
  #wasSeen(request: SepHashRequest): boolean {
    const { words } = request;
    for (const at of [0, filterWordOf(request.tag >>> 8)]) {
      if (lowHalf(this.#seen, at) !== lowHalf(words, HEADER_AT + at)) return false;
      if (highHalf(this.#seen, at) !== highHalf(words, HEADER_AT + at)) return false;
    }
    doubt(request);
    request.trusted = true;
    return true;
  }

  #copyHeaderWord(at: number): void {
    const { words } = this.request;
    words.i32[(HEADER_AT + at) >> 2] = lowHalf(this.#words, at);
    words.i32[(HEADER_AT + at + 4) >> 2] = highHalf(this.#words, at);
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
