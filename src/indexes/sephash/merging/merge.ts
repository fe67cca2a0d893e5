import { invariant } from '../../../errors.ts';
import { SLOT_SIZE_CLASS } from '../../../records/layout.ts';
import {
  type Address,
  Batch,
  CAS_BYTES,
  highHalf,
  lowHalf,
  type Operation,
  Scratch,
  setWord,
  swapped,
  UNIT_BYTES,
} from '../../../verbs/index.ts';
import { firstEmpty, postHeader, postSlots } from '../operations/lookup.ts';
import { linkSibling } from '../operations/refresh.ts';
import { HEADER_AT, type SepHashRequest, SLOTS_AT } from '../request.ts';
import {
  ENTRY_UNITS_MAX,
  padHigh,
  padLow,
  recordOf,
  SPLITS_PER_ROUND,
  signOf,
  unitsOfEntry,
} from '../segments/entry.ts';
import {
  depthOf,
  epochOf,
  mainOf,
  metaHigh,
  metaLow,
  nextEpoch,
  nextOddEpoch,
  signOfEpoch,
} from '../segments/header.ts';
import {
  allocateMain,
  claimMain,
  type EntryCounts,
  isPoolFull,
  type MainBlock,
} from '../segments/main-blocks.ts';
import {
  blockOfMain,
  MAIN_ENTRIES_MAX,
  MAIN_HEADER_BYTES,
  type MainHeader,
  mainBytes,
  marksAlone,
  parseFpTable,
  parseMainHeader,
  writeMain,
} from '../segments/main-segment.ts';
import type { MemoryInReach, SegmentView } from '../segments/segment-view.ts';
import type { SepHashTable } from '../table.ts';
import { type MergePlan, MergePlanner } from './merge-plan.ts';
import { RecordKeys } from './record-keys.ts';
import { Halves, postHalves } from './split.ts';

/** Records that a splitter reads between two polls of a waiting client: about one a microsecond. */
const RECORDS_PER_POLL = 20;

/** Far more steps than any merge takes. */
const OWN_MERGE_STEPS_MAX = 1_000_000;

/**
 * Merges a segment that an operation found full. The client that took its last entry is about to
 * merge it; if nothing happens for a while, that client is slow or dead, and this one merges. A
 * closed segment only looks full to an insertion, and no client is about to merge it: this
 * operation fills its empty entries with pads first.
 */
export function* mergeFull(table: SepHashTable, request: SepHashRequest): Operation<void> {
  if (yield* awaitOwnMerge(table, request)) return;
  const { batch, words } = request;
  if (request.isShutOut) {
    yield* findRoom(table, request);
    yield* seal(table, request);
    return yield* merge(table, request);
  }
  const { polls, microseconds } = table.patience;
  const longer = Math.floor(recordsToRead(table, request.view) / RECORDS_PER_POLL);
  // After a failure of its own this client knows that no client is about to merge.
  const patience = request.view.mergeFailure === undefined ? polls + longer : 0;
  for (let poll = 0; poll < patience; poll++) {
    // No pause at first: an operation of this client may be about to merge.
    const pause = poll === 0 ? 0 : microseconds;
    yield batch.clear().pause(pause, words).read(request.view.header, 8, words, HEADER_AT);
    if (!request.metaHolds() || (yield* awaitOwnMerge(table, request))) return;
  }
  yield* merge(table, request);
}

/**
 * Makes sure that a closed segment's merge has a block before the segment is padded. Otherwise the
 * segment would stay full, and no deletion could make room in it. Raises SW_POOL_FULL.
 */
function* findRoom(table: SepHashTable, request: SepHashRequest): Operation<void> {
  const { batch, metaLow, metaHigh } = request;
  const header = new Scratch(MAIN_HEADER_BYTES);
  yield batch.clear().read(mainOf(metaLow, metaHigh), MAIN_HEADER_BYTES, header, 0);
  const { count } = parseMainHeader(header, 0);
  yield* claimMain(table, { kept: count, dropped: 0 }, false);
}

/**
 * Waits while another operation of this client merges the segment, and yields instead of sleeping:
 * a sleep would hold up the merge. Returns whether the segment has been merged. If that merge
 * failed with SW_POOL_FULL and there is no more memory now, raises the same error: of many
 * operations that wait for one merge, only one tries.
 */
function* awaitOwnMerge(table: SepHashTable, request: SepHashRequest): Operation<boolean> {
  const { batch, words, view, metaLow, metaHigh } = request;
  for (let steps = 0; view.mergers > 0 && steps < OWN_MERGE_STEPS_MAX; steps++) {
    yield batch.clear().pause(0, words);
    if (!view.isAt(metaLow, metaHigh)) return true;
  }
  const { mergeFailure } = view;
  if (mergeFailure !== undefined && !hasMoreMemory(table, mergeFailure)) throw mergeFailure.error;
  return false;
}

/** Whether this client may get memory now that it could not get when its merge failed. */
function hasMoreMemory({ allocator }: SepHashTable, failure: MemoryInReach): boolean {
  const { freed, reserveAllowed } = allocator;
  return freed !== failure.freed || reserveAllowed > failure.reserveAllowed;
}

/**
 * How many records the merge reads if it is a split that refills depth bits. That takes
 * milliseconds. A client that does not wait reads them all again, and slows every client down.
 */
function recordsToRead(
  { geometry, techniques }: SepHashTable,
  { depth, count }: SegmentView,
): number {
  const refills = !techniques.depthBits || (depth + 1) % SPLITS_PER_ROUND === 0;
  // A client that only appends does not know the number of entries.
  const splits = count < 0 || count + geometry.slots > geometry.mainLimit;
  return refills && splits ? geometry.mainLimit : 0;
}

/** Merges after taking the last entry: the write has taken effect, so a full pool is no error. */
export function* mergeOwn(table: SepHashTable, request: SepHashRequest): Operation<void> {
  try {
    yield* merge(table, request);
  } catch (error) {
    if (!isPoolFull(error)) throw error;
  }
}

/**
 * Merges a segment that has been sealed. Without a block for the new MainSegment, writes it to the
 * spare place at `spare` (compact.ts), if that is not 0 and the old block is large enough to take
 * the new MainSegment back. Otherwise raises SW_POOL_FULL.
 */
export function mergeSealed(
  table: SepHashTable,
  request: SepHashRequest,
  spare: Address,
): Operation<void> {
  return merge(table, request, spare);
}

function* merge(table: SepHashTable, request: SepHashRequest, spare = 0): Operation<void> {
  const merger = table.idleMergers.pop() ?? new Merger(table);
  const { view } = request;
  view.mergers++;
  request.hasMerged = true;
  try {
    yield* merger.run(request, spare);
  } catch (error) {
    if (isPoolFull(error)) view.noteMergeFailure(error, table.allocator);
    throw error;
  } finally {
    view.mergers--;
  }
  table.idleMergers.push(merger);
}

/** A MainSegment is written once, before the metadata that name it, so its header matches them. */
function checkHeader(
  { suffix, depth, slots, ...main }: MainHeader,
  own: number,
  current: Address,
  marks: number,
): void {
  invariant(depth === own && suffix >>> depth === 0, 'a MainSegment is of another segment');
  invariant(slots === current, 'a MainSegment names another CurSegment');
  const { count, dropped, units } = main;
  const bytes = mainBytes(count + marks + dropped);
  const isBounded = count >= 0 && dropped >= 0 && bytes <= UNIT_BYTES * units;
  invariant(isBounded, 'a MainSegment has more entries than its block');
}

/**
 * One merge or split of a segment (section 4.2.2); reused. Any number of clients may do the same
 * one at the same time and die anywhere. Their input cannot change: the CurSegment is full, and of
 * a MainSegment only the marks change, which a merge does not copy. One CAS on the metadata
 * publishes their output. It replaces the MainSegment and flips the sign in one word, and raises
 * the local depth if it is a split.
 *
 *   D[READ CurSegment; READ Main header; READ metadata] -> READ Main entries
 *     [-> READ records of entries that may have the same key]
 *     [-> READ all records: every fourth split, for their next depth bits]
 *     -> D[WRITE new Main; CAS metadata]
 */
export class Merger {
  readonly #table: SepHashTable;
  readonly #batch = new Batch();
  readonly #words = new Scratch(64);
  readonly #current: Scratch;
  readonly #main = new Scratch(4096);
  readonly #image = new Scratch(4096);
  readonly #planner: MergePlanner;
  readonly #halves: Halves;
  #request: SepHashRequest | undefined;
  /** Whether the merge is for a deletion, which must be possible in a full pool. */
  #forDeletion = false;
  /** The spare place for a MainSegment without a block (compact.ts), or 0. */
  #spare: Address = 0;
  /** Whether the new MainSegment is in the spare place; the old block then stays its home. */
  #isDisplaced = false;
  /** Whether the segment got another CurSegment. */
  #hasMovedSlots = false;

  constructor(table: SepHashTable) {
    this.#table = table;
    this.#current = new Scratch(table.geometry.slotsBytes);
    const keys = new RecordKeys(table.geometry.shape.seed);
    this.#planner = new MergePlanner(keys);
    this.#halves = new Halves(table, keys);
  }

  /** Merges the segment if it still has this metadata and is full. */
  *run(request: SepHashRequest, spare: Address = 0): Operation<void> {
    const { view, metaLow: low, metaHigh: high, slots } = request;
    this.#forDeletion = request.forDeletion;
    this.#spare = spare;
    this.#isDisplaced = false;
    this.#hasMovedSlots = false;
    if (!(yield* this.#readHeads(view, low, high, slots))) return;
    const header = parseMainHeader(this.#main, 0);
    checkHeader(header, depthOf(high), slots, this.#table.geometry.marks);
    // The next MainSegment names no sibling, so the directory must know it first.
    yield* linkSibling(this.#table, header.suffix, header.depth, header.sibling);
    const old = yield* this.#readMain(mainOf(low, high), header);
    const current = this.#current.i32.subarray(0, 2 * this.#table.geometry.slots);
    const plan = yield* this.#planner.plan(old.entries, current);
    invariant(plan.kept.length / 2 < MAIN_ENTRIES_MAX, 'a MainSegment with too many entries');
    const { won, splits } = yield* this.#publish(view, low, high, header, plan);
    if (!won) return;
    // If this client dies, what it retires here is lost until a sweep.
    const dropped = splits ? [old.dropped, plan.dropped] : [old.dropped];
    if (!this.#isDisplaced) this.#retireBlock(blockOfMain(mainOf(low, high), header), header.units);
    if (splits || this.#hasMovedSlots) this.#retireBlock(slots, this.#table.geometry.slotsUnits);
    for (const entries of dropped) this.#retireShort(entries);
    for (const entries of dropped) yield* this.#retireLong(entries);
    if (splits) yield* this.#tellDirectory(header);
  }

  /** Whether the segment still has this metadata and all its entries are full. */
  *#readHeads(view: SegmentView, low: number, high: number, slots: Address): Operation<boolean> {
    const { slotsBytes } = this.#table.geometry;
    yield this.#batch
      .clear()
      .read(slots, slotsBytes, this.#current, 0)
      .read(mainOf(low, high), MAIN_HEADER_BYTES, this.#main, 0)
      .read(view.header, 8, this.#words, 0);
    if (lowHalf(this.#words, 0) !== low || highHalf(this.#words, 0) !== high) {
      view.note(lowHalf(this.#words, 0), highHalf(this.#words, 0));
      return false;
    }
    const sign = signOfEpoch(epochOf(high));
    for (let at = 0; at < slotsBytes; at += 8) {
      if (signOf(highHalf(this.#current, at)) !== sign) return false;
    }
    return true;
  }

  /** The entries, with the marks among them, and the dropped ones. */
  *#readMain(
    main: Address,
    { dropped, ...header }: MainHeader,
  ): Operation<{ entries: Int32Array; dropped: Int32Array }> {
    const { marks } = this.#table.geometry;
    if (header.count + dropped === 0) {
      return { entries: marksAlone(marks), dropped: new Int32Array(0) };
    }
    const count = header.count + marks;
    const bytes = 8 * (count + dropped);
    this.#main.ensure(bytes);
    yield this.#batch.clear().read(main + MAIN_HEADER_BYTES, bytes, this.#main, 0);
    const { i32 } = this.#main;
    return {
      entries: i32.subarray(0, 2 * count),
      dropped: i32.slice(2 * count, 2 * (count + dropped)),
    };
  }

  /**
   * A MainSegment that has grown too long is split. In a full pool a deletion does whatever there
   * is memory for: it writes two MainSegments of half the size, or one that is longer than it
   * should be.
   */
  *#publish(
    view: SegmentView,
    low: number,
    high: number,
    header: MainHeader,
    plan: MergePlan,
  ): Operation<{ won: boolean; splits: boolean }> {
    const canSplit = header.depth < this.#table.directory.maxDepth;
    const { mainLimit, marks } = this.#table.geometry;
    const splits = canSplit && plan.kept.length / 2 - marks > mainLimit;
    const publish = (split: boolean) =>
      split
        ? this.#publishSplit(view, low, high, header, plan)
        : this.#publishMerge(view, low, high, header, plan);
    try {
      return { won: yield* publish(splits), splits };
    } catch (error) {
      if (!this.#forDeletion || !canSplit || !isPoolFull(error)) throw error;
      return { won: yield* publish(!splits), splits: !splits };
    }
  }

  /**
   * A merge without a split. The CurSegment stays, and the new epoch's sign makes its entries count
   * as empty. Without the technique of signs a CurSegment of zeros replaces it, and the next epoch
   * has the sign that the first one had.
   */
  *#publishMerge(
    view: SegmentView,
    low: number,
    high: number,
    header: MainHeader,
    { kept, dropped }: MergePlan,
  ): Operation<boolean> {
    const { suffix, depth } = header;
    const { marks } = this.#table.geometry;
    const counts = { kept: kept.length / 2 - marks, dropped: dropped.length / 2 };
    const { address: main, units, home } = yield* this.#place(mainOf(low, high), header, counts);
    const fresh = yield* this.#freshSlots(main, units, home);
    const slots = fresh === 0 ? header.slots : fresh;
    const fields = { suffix, depth, slots, sibling: 0, units, home };
    const bytes = writeMain(this.#image, fields, kept, dropped, marks);
    invariant(bytes <= UNIT_BYTES * units, 'a MainSegment is longer than its block');
    const epoch = fresh === 0 ? nextEpoch(epochOf(high)) : nextOddEpoch(epochOf(high));
    const closes = !this.#table.geometry.hasRoom(units, counts.kept);
    this.#batch.clear().write(main, bytes, this.#image, 0);
    const { zeros } = this.#halves;
    if (fresh !== 0) this.#batch.write(slots, zeros.u8.length, zeros, 0);
    const desiredHigh = metaHigh(main, depth, epoch, closes);
    yield this.#postSwap(this.#batch, view.header, [low, high, metaLow(main), desiredHigh]);
    if (!this.#swapped(view)) {
      if (home === 0) this.#giveBack(main, units);
      if (fresh !== 0) this.#giveBack(fresh, this.#table.geometry.slotsUnits);
      return false;
    }
    this.#isDisplaced = home !== 0;
    this.#hasMovedSlots = fresh !== 0;
    this.#table.merges++;
    this.#learn(view, metaLow(main), desiredHigh, { ...fields, count: counts.kept });
    return true;
  }

  /**
   * A block for the new MainSegment, or the spare place. In the spare place it keeps the old one's
   * block as its home, if that is large enough. A segment that is already there needs a block.
   */
  *#place(old: Address, header: MainHeader, counts: EntryCounts): Operation<MainBlock> {
    try {
      return yield* allocateMain(this.#table, counts, this.#forDeletion);
    } catch (error) {
      const fits = counts.kept + counts.dropped <= this.#table.geometry.homeEntries(header.units);
      const mayDisplace = this.#spare !== 0 && header.home === 0 && fits;
      if (!mayDisplace || !isPoolFull(error)) throw error;
      return { address: this.#spare, units: header.units, home: old };
    }
  }

  #allocate(units: number): Operation<Address> {
    return this.#table.allocator.allocate(this.#table.catalog, units);
  }

  /**
   * The block of a new CurSegment, or 0 to keep the old one. A deletion that finds no block keeps
   * it too: then the sign empties its entries, even without the technique of signs.
   */
  *#freshSlots(main: Address, mainUnits: number, home: Address): Operation<Address> {
    if (this.#table.techniques.signs || home !== 0) return 0;
    try {
      return yield* this.#allocate(this.#table.geometry.slotsUnits);
    } catch (error) {
      if (this.#forDeletion && isPoolFull(error)) return 0;
      this.#giveBack(main, mainUnits);
      throw error;
    }
  }

  /** Puts back a block that no other client has seen. */
  #giveBack(address: Address, units: number): void {
    this.#table.allocator.sizeClass(this.#table.catalog, units).cache.push(address);
  }

  /** A merge that splits the segment: each half gets a new CurSegment of zeros. */
  *#publishSplit(
    view: SegmentView,
    low: number,
    high: number,
    header: MainHeader,
    { kept }: MergePlan,
  ): Operation<boolean> {
    const halves = this.#halves;
    yield* halves.divide(kept, header.depth);
    // Before the split: without memory for the directory, no client could find the sibling.
    if (yield* this.#table.directory.deepen(header.depth)) this.#table.doublings++;
    yield* halves.allocate(this.#forDeletion);
    const desired = postHalves(halves, this.#batch.clear(), header, epochOf(high));
    yield this.#postSwap(this.#batch, view.header, [low, high, desired.low, desired.high]);
    if (!this.#swapped(view)) {
      halves.giveBack();
      return false;
    }
    this.#table.merges++;
    this.#table.splits++;
    view.note(desired.low, desired.high);
    return true;
  }

  *#tellDirectory({ suffix, depth }: MainHeader): Operation<void> {
    const { sibling } = this.#halves;
    this.#halves.forget();
    yield* this.#table.directory.link(suffix, depth, sibling);
  }

  #postSwap(batch: Batch, header: Address, words: [number, number, number, number]): Batch {
    const [, before, low, high] = words;
    // The epoch makes sure that the same metadata do not recur while an operation may expect them.
    const isNext = mainOf(low, high) > 0 && epochOf(high) !== epochOf(before);
    invariant(isNext && depthOf(high) - depthOf(before) <= 1, 'a merge does not change the epoch');
    invariant(depthOf(high) >= depthOf(before), 'the local depth of a segment decreases');
    setWord(this.#words, 0, words[0], words[1]);
    setWord(this.#words, 8, words[2], words[3]);
    return batch.cas(header, this.#words, 0);
  }

  /** Whether this client's CAS published. If not, notes the metadata that another one published. */
  #swapped(view: SegmentView): boolean {
    if (swapped(this.#words, 0)) return true;
    view.note(lowHalf(this.#words, 16), highHalf(this.#words, 16));
    return false;
  }

  #learn(
    view: SegmentView,
    low: number,
    high: number,
    fields: { suffix: number; count: number; slots: Address; sibling: Address },
  ): void {
    const cache = this.#table.cacheOf(fields.count, () => parseFpTable(this.#image, 0));
    view.learn(low, high, fields, cache);
    view.noteOffset(0);
  }

  #retireBlock(address: Address, units: number): void {
    this.#table.reclamation.retire(address, units, this.#table.catalog);
  }

  /** Retires the records of dropped entries that contain the record's length. */
  #retireShort(entries: Int32Array): void {
    for (let at = 0; at < entries.length; at += 2) {
      const units = unitsOfEntry(entries[at + 1]);
      if (units === ENTRY_UNITS_MAX) continue;
      this.#retireBlock(recordOf(entries[at], entries[at + 1]), SLOT_SIZE_CLASS[units]);
    }
  }

  /** Retires the records of the other dropped entries, after reading each record's length. */
  *#retireLong(entries: Int32Array): Operation<void> {
    const { records } = this.#table;
    for (let at = 0; at < entries.length; at += 2) {
      if (unitsOfEntry(entries[at + 1]) < ENTRY_UNITS_MAX) continue;
      const record = recordOf(entries[at], entries[at + 1]);
      this.#request ??= this.#table.newRequest();
      yield* records.adopt(this.#request, record, ENTRY_UNITS_MAX);
      for (const { address, units } of yield* records.foundBlocks(this.#request, record)) {
        this.#retireBlock(address, units);
      }
    }
  }
}

/**
 * Fills empty entries with pads, so that the segment can be merged: 2 round trips. CASes execute in
 * their order, so entries are filled in order. A CAS fails if another client has filled the entry.
 */
export function* seal(table: SepHashTable, request: SepHashRequest): Operation<void> {
  const { batch, words } = request;
  yield postHeader(request, postSlots(table, request, batch.clear()));
  if (!request.metaHolds()) return;
  const { slots } = table.geometry;
  const swaps = new Scratch(CAS_BYTES * slots);
  batch.clear();
  for (let slot = firstEmpty(request, 0, slots); slot < slots; slot++) {
    const from = SLOTS_AT + 8 * slot;
    const at = CAS_BYTES * slot;
    setWord(swaps, at, lowHalf(words, from), highHalf(words, from));
    setWord(swaps, at + 8, padLow(request.epoch), padHigh(request.sign));
    batch.cas(request.slots + 8 * slot, swaps, at);
  }
  if (batch.length > 0) yield batch;
}
