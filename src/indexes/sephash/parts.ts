import {
  type Address,
  Batch,
  highHalf,
  lowHalf,
  type Operation,
  Scratch,
} from '../../verbs/index.ts';
import type { IndexShape } from '../contract.ts';
import { type IndexPicture, type PicturePart, pictureOf, spread } from '../picture.ts';
import { suffixOf } from '../substrates/directory.ts';
import { SuffixOrder } from '../traversal/part-orders.ts';
import type { Parts } from '../traversal/parts.ts';
import { partOf } from '../traversal/sample.ts';
import { noteRecords, visitRecords } from '../traversal/visit-records.ts';
import { MergePlanner } from './merging/merge-plan.ts';
import { RecordKeys } from './merging/record-keys.ts';
import type { SepHashRequest } from './request.ts';
import {
  ENTRY_UNITS_MAX,
  fingerprintOf,
  isPad,
  recordOf,
  signOf,
  unitsOfEntry,
} from './segments/entry.ts';
import { epochOf, mainOf, signOfEpoch } from './segments/header.ts';
import { FINGERPRINTS, MAIN_LINE_BYTES, parseMainHeader } from './segments/main-segment.ts';
import { eachSegment, Snapshot } from './snapshot.ts';
import type { SepHashTable } from './table.ts';

/** Entries after which a part ends; with smaller CurSegments, for tests, it ends sooner. */
const ENTRIES_PER_PART_MAX = 24;

/**
 * Walks a segment some fingerprints at a time, and yields each key's newest record. Neither the
 * fingerprint nor the suffix of a key ever changes. With `isWhole` a part is a segment with all
 * records that it names, including those that the next merge will retire.
 */
export class SepHashParts implements Parts<SepHashRequest> {
  readonly order: SuffixOrder;
  readonly unitsMax = ENTRY_UNITS_MAX;
  readonly #table: SepHashTable;
  readonly #isWhole: boolean;
  readonly #snapshot: Snapshot;
  readonly #planner: MergePlanner;
  /** Buffers that are used again, because every eviction takes a sample. */
  readonly #main = new Scratch(0);
  readonly #recent: Int32Array;
  readonly #recentOf = new Uint16Array(FINGERPRINTS);
  #entries: readonly Int32Array[] = [];

  /** Raises SW_INVALID_ARGUMENT for an invalid cursor. */
  constructor(table: SepHashTable, cursor = 0, isWhole = false) {
    this.order = new SuffixOrder({ end: FINGERPRINTS, step: 1 }, cursor);
    this.#table = table;
    this.#isWhole = isWhole;
    this.#snapshot = new Snapshot(table);
    this.#planner = new MergePlanner(new RecordKeys(table.geometry.shape.seed));
    this.#recent = new Int32Array(2 * table.geometry.slots);
  }

  *read(): Operation<void> {
    const { suffix, at } = this.order.position;
    const snapshot = this.#snapshot;
    yield* snapshot.take(suffix);
    const end = this.#isWhole ? FINGERPRINTS : this.#partEnd(at);
    this.#entries = this.#isWhole
      ? [snapshot.current, yield* snapshot.entries()]
      : [yield* this.#newest(at, end)];
    this.order.arrive(snapshot.main.depth, end);
  }

  /**
   * Reads the part of a segment that begins with `fingerprint`, for a sample. It wraps around after
   * the highest fingerprint: otherwise samples would meet the lowest ones less often than others.
   */
  *readFrom(suffix: number, fingerprint: number): Operation<void> {
    yield* this.#snapshot.take(suffix);
    const end = this.#partEnd(fingerprint);
    const entries = yield* this.#newest(fingerprint, end);
    this.#entries = [entries];
    const missing = this.#enough - (entries.length >> 1);
    if (end < FINGERPRINTS || missing <= 0 || fingerprint === 0) return;
    const lowest = Math.min(fingerprint, this.#partEnd(0, missing));
    // The next plan overwrites this one.
    this.#entries = [entries.slice(), yield* this.#newest(0, lowest)];
  }

  eachSlot(visit: (record: Address, units: number, isClaim: boolean) => void): void {
    for (const entries of this.#entries) {
      for (let at = 0; at < entries.length; at += 2) {
        visit(recordOf(entries[at], entries[at + 1]), unitsOfEntry(entries[at + 1]), false);
      }
    }
  }

  isHere({ hash }: SepHashRequest): boolean {
    return this.order.holds(hash.h1);
  }

  /** Whether a key with this hash belongs to the segment that was read. */
  isOfSegment(hash: number): boolean {
    const { suffix, depth } = this.#snapshot.main;
    return suffixOf(hash, depth) === suffix;
  }

  eachBlock(visit: (address: Address) => void): void {
    const { header, main, mainBlock } = this.#snapshot;
    for (const block of [header, main.slots, mainBlock]) visit(block);
  }

  get #enough(): number {
    return Math.min(ENTRIES_PER_PART_MAX, this.#table.geometry.slots);
  }

  #partEnd(from: number, enough = this.#enough): number {
    const { ends, current } = this.#snapshot;
    const { geometry } = this.#table;
    const recent = this.#recentOf.fill(0);
    for (let at = 1; at < current.length; at += 2) recent[fingerprintOf(current[at])]++;
    let entries = 0;
    let end = from;
    do {
      entries += recent[end] + ends[end] - (end === 0 ? 0 : ends[end - 1]);
      if (geometry.hasMark(end)) entries--;
      end++;
    } while (end < FINGERPRINTS && entries < enough);
    return end;
  }

  /** The entries of fingerprints [from, end) that hold the newest record of a key. */
  *#newest(from: number, end: number): Operation<Int32Array> {
    const { ends, current } = this.#snapshot;
    const recent = this.#recent;
    let length = 0;
    for (let at = 0; at < current.length; at += 2) {
      const fingerprint = fingerprintOf(current[at + 1]);
      if (fingerprint < from || fingerprint >= end) continue;
      recent[length++] = current[at];
      recent[length++] = current[at + 1];
    }
    const first = from === 0 ? 0 : ends[from - 1];
    const main = yield* this.#snapshot.range(first, ends[end - 1], this.#main);
    return (yield* this.#planner.plan(main, recent.subarray(0, length))).kept;
  }
}

/**
 * `Index.sample`: a place is some fingerprints of a segment. A sample must meet only the newest
 * record of a key, so it reads the whole CurSegment besides the entries of Main. Buffers for that
 * are large, so `idle` ones are used again.
 */
export function* sampleRecords(
  table: SepHashTable,
  idle: SepHashParts[],
  request: SepHashRequest,
  places: readonly number[],
  enough: number,
  visit: (request: SepHashRequest, keyBytes: number) => void,
): Operation<void> {
  const parts = idle.pop() ?? new SepHashParts(table);
  let met = 0;
  const count = (one: SepHashRequest, keyBytes: number) => {
    met++;
    visit(one, keyBytes);
  };
  const isHere = ({ hash }: SepHashRequest) => parts.isOfSegment(hash.h1);
  for (let i = 0; i < places.length && met < enough; i++) {
    const { part: suffix, rest } = partOf(places[i], 2 ** table.directory.depth);
    yield* parts.readFrom(suffix, partOf(rest, FINGERPRINTS).part);
    request.candidates.count = 0;
    noteRecords(parts, request);
    yield* visitRecords(table.records, request, isHere, count, true);
  }
  // Not after a failure: answers to READs in flight may still arrive in the buffers.
  idle.push(parts);
}

/**
 * Counts the keys: the entries that a merge of every segment would leave. Records are read only
 * where entries of a CurSegment may have the same key as others.
 */
export function* shapeOf(table: SepHashTable): Operation<IndexShape> {
  const planner = new MergePlanner(new RecordKeys(table.geometry.shape.seed));
  let records = 0;
  let segments = 0;
  yield* eachSegment(table, function* (snapshot) {
    const entries = yield* snapshot.range(0, snapshot.positions);
    records += (yield* planner.plan(entries, snapshot.current)).kept.length / 2;
    segments++;
  });
  return {
    globalDepth: table.directory.depth,
    subtables: segments,
    slots: segments * (table.geometry.mainLimit + table.geometry.slots),
    records,
  };
}

/** Draws some segments. It counts a MainSegment's entries even if later ones replace them. */
export function* paint(table: SepHashTable, partsMax: number): Operation<IndexPicture> {
  const { directory } = table;
  const segments = directory.subtables();
  const shown: PicturePart[] = [];
  for (const segment of spread(segments, partsMax)) {
    const part = yield* drawSegment(table, segment);
    if (part !== undefined) shown.push(part);
  }
  const layer = { parts: 'segments', cell: 'entry of the CurSegment', total: segments.length };
  return pictureOf([{ ...layer, isExact: true, shown }], directory.depth);
}

/** Undefined when the segment was merged between the READs. */
function* drawSegment(
  { geometry }: SepHashTable,
  header: Address,
): Operation<PicturePart | undefined> {
  const words = new Scratch(16);
  yield new Batch().read(header, 8, words, 0);
  const main = new Scratch(MAIN_LINE_BYTES);
  const [low, high] = [lowHalf(words, 0), highHalf(words, 0)];
  yield new Batch().read(mainOf(low, high), MAIN_LINE_BYTES, main, 0);
  const { count, suffix, depth, slots } = parseMainHeader(main, 0);
  const entries = new Scratch(geometry.slotsBytes);
  yield new Batch().read(slots, geometry.slotsBytes, entries, 0).read(header, 8, words, 8);
  if (lowHalf(words, 8) !== low || highHalf(words, 8) !== high) return undefined;
  const sign = signOfEpoch(epochOf(high));
  const cells = Array.from({ length: geometry.slots }, (_, i) => {
    const entry = highHalf(entries, 8 * i);
    return signOf(entry) === sign && !isPad(entry) ? 1 : 0;
  });
  const current = cells.reduce<number>((sum, cell) => sum + cell, 0);
  const { mainLimit, slots: ofCurrent } = geometry;
  return {
    name: suffix.toString(2).padStart(depth, '0'),
    suffix,
    depth,
    used: count + current,
    slots: mainLimit + ofCurrent,
    cells,
    bars: [
      { name: 'MainSegment', used: count, slots: mainLimit },
      { name: 'CurSegment', used: current, slots: ofCurrent },
    ],
  };
}
