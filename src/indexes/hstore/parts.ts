import { hasCode } from '../../errors.ts';
import { SLOT_UNITS_MAX } from '../../records/layout.ts';
import { type Address, Frame, type Operation } from '../../verbs/index.ts';
import type { Clearing } from '../contract.ts';
import { type IndexPicture, type PicturePart, pictureOf } from '../picture.ts';
import { RangeOrder } from '../traversal/part-orders.ts';
import type { Parts } from '../traversal/parts.ts';
import { partOf, visitSample } from '../traversal/sample.ts';
import type { HStoreRequest, HStoreTable } from './client/table.ts';
import { clearBucket } from './client/write.ts';
import type { Pair } from './pair.ts';
import { readState, TableLost } from './protocol/pair-state.ts';
import { BUCKET_BYTES, type NamedSlot, recordOf, SLOTS, unitsOfSlot } from './protocol/slot.ts';
import { readBuckets, STEP_BUCKETS } from './protocol/table-reader.ts';
import { blockOfTurn, type RecordBlock } from './protocol/turn.ts';
import { waitingRequests, waitingScans } from './recovery/abandoned-requests.ts';
import { restoreTable } from './recovery/rebuild-table.ts';

/** The most steps in a part that finds no record. */
const EMPTY_STEPS = 64;

/**
 * The buckets of all pairs with their chains, some at a time. A position counts buckets of a table
 * that has grown as far as it can. So if a table grows during a walk, the same keys are still
 * behind each position. With `whole`, the parts include blocks that unanswered requests name.
 */
export class HStoreParts implements Parts<HStoreRequest> {
  readonly order: RangeOrder;
  readonly #table: HStoreTable;
  readonly #request: HStoreRequest;
  readonly #isWhole: boolean;
  /** Blocks that unanswered requests name, and blocks of the last turns' records. */
  #waiting: Address[] = [];
  slots: NamedSlot[] = [];
  chained: Address[] = [];
  /** How often it met a lost table. */
  restored = 0;

  /** Raises SW_INVALID_ARGUMENT for an invalid cursor. */
  constructor(table: HStoreTable, cursor = 0, whole = false) {
    const { bucketsMax } = table.shape;
    this.#table = table;
    this.#isWhole = whole;
    this.#request = table.newRequest();
    this.order = new RangeOrder(table.pairs.length * bucketsMax, STEP_BUCKETS, cursor, bucketsMax);
  }

  *read(): Operation<void> {
    const { order } = this;
    this.slots = [];
    this.chained = [];
    order.next = order.position;
    this.#waiting = [];
    if (this.#isWhole && order.position === 0) yield* this.#readWaiting();
    for (let step = 0; step < EMPTY_STEPS && this.slots.length === 0; step++) {
      if (order.next === order.end) break;
      this.chained.push(...(yield* this.#readBuckets()));
    }
  }

  /** Before the tables, because the record of a request that is answered meanwhile goes there. */
  *#readWaiting(): Operation<void> {
    const note = (block: Address) => this.#waiting.push(block);
    for (const pair of this.#table.pairs) {
      const record = yield* recordBlock(pair);
      if (record) note(record.address);
      yield* eachWaiting(this.#table, pair, note);
    }
  }

  /** Waits for a new table if this one is lost. Its keys have the same positions. */
  *#readBuckets(): Operation<ReadonlySet<Address>> {
    const { pairs, shape } = this.#table;
    const { order } = this;
    const pair = pairs[Math.floor(order.next / shape.bucketsMax)];
    for (;;) {
      const { geometry } = pair;
      const { buckets } = geometry;
      const positions = shape.bucketsMax / buckets;
      const first = Math.floor((order.next % shape.bucketsMax) / positions);
      const count = Math.min(STEP_BUCKETS, buckets - first);
      this.slots.length = 0;
      try {
        const note = (slot: NamedSlot) => this.slots.push(slot);
        const chained = yield* readBuckets(geometry, first, count, this.#request, note);
        order.next += count * positions - (order.next % positions);
        return chained;
      } catch (error) {
        if (!(error instanceof TableLost)) throw error;
        this.restored++;
        yield* restoreTable(pair, error.generation);
      }
    }
  }

  eachSlot(visit: (record: Address, units: number, isClaim: boolean) => void): void {
    for (const slot of this.slots) visit(recordOf(slot), unitsOfSlot(slot.high), false);
  }

  eachBlock(visit: (address: Address) => void): void {
    for (const block of this.#waiting) visit(block);
    for (const bucket of this.chained) visit(bucket);
  }
}

type Visit = (address: Address) => void;

/** `Index.clearing`: the buckets that have a record, one after the other. */
export class HStoreClearing implements Clearing {
  readonly #table: HStoreTable;
  readonly #parts: HStoreParts;
  readonly #request: HStoreRequest;
  readonly #keptCodec: number;
  /** Buckets with records that are still to be cleared, in the pair's table of `#generation`. */
  #buckets: Address[] = [];
  #pair: Pair;
  #generation = 0;

  constructor(table: HStoreTable, keptCodec: number) {
    this.#table = table;
    this.#parts = new HStoreParts(table);
    this.#request = table.newRequest();
    this.#keptCodec = keptCodec;
    this.#pair = table.pairs[0];
  }

  get done(): boolean {
    return this.#buckets.length === 0 && this.#parts.order.done;
  }

  *next(): Operation<number> {
    if (this.#buckets.length === 0) yield* this.#read();
    const bucket = this.#buckets.at(-1);
    if (bucket === undefined) return 0;
    const named = { bucket, generation: this.#generation, keptCodec: this.#keptCodec };
    const removed = yield* clearBucket(this.#table, this.#pair, this.#request, named);
    this.#buckets.pop();
    return removed;
  }

  *#read(): Operation<void> {
    const { pairs, shape } = this.#table;
    const { order } = this.#parts;
    const generations = pairs.map(({ geometry }) => geometry.generation);
    yield* this.#parts.read();
    // All slots of a part are of the pair that was read last.
    const number = Math.floor((order.next - 1) / shape.bucketsMax);
    order.pass();
    this.#pair = pairs[number];
    this.#generation = generations[number];
    // Otherwise the slots may be of either table.
    if (this.#generation !== this.#pair.geometry.generation) return;
    const buckets = this.#parts.slots.map(({ slot }) => slot - (slot % BUCKET_BYTES));
    this.#buckets = [...new Set(buckets)];
  }
}

/** The block with the record of a pair's last turn, unless that is in a client's own place. */
export function* recordBlock(pair: Pair): Operation<RecordBlock | undefined> {
  const block = blockOfTurn((yield* readState(pair)).turn);
  return block.address === 0 || pair.geometry.isOwnRecord(block.address) ? undefined : block;
}

/** Visits the blocks of records that unanswered requests name, and the blocks of scans. */
export function* eachWaiting(table: HStoreTable, pair: Pair, visit: Visit): Operation<void> {
  for (const { block, units } of yield* waitingRequests(pair)) {
    yield* visitRecord(table, block, units, visit);
  }
  for (const block of yield* waitingScans(pair)) visit(block);
}

function* visitRecord(
  table: HStoreTable,
  record: Address,
  units: number,
  visit: Visit,
): Operation<void> {
  visit(record);
  if (units < SLOT_UNITS_MAX) return;
  const request = table.newRequest();
  yield* table.records.adopt(request, record, units);
  const blocks = yield* table.records.foundBlocks(request, record);
  for (const { address } of blocks) visit(address);
}

/** The most buckets to read at a place, in a nearly empty table: 64 KiB. */
const BUCKETS_MAX = 1024;

/**
 * `Index.sample`: a place is some buckets of a pair with their chains, as many as are likely to
 * hold enough records.
 */
export function* sampleRecords(
  table: HStoreTable,
  request: HStoreRequest,
  places: readonly number[],
  enough: number,
  visit: (request: HStoreRequest, keyBytes: number) => void,
): Operation<void> {
  const { records, shape, pairs, sampledBuckets } = table;
  let before = -1;
  request.candidates.count = 0;
  for (const place of places) {
    const { part, rest } = partOf(place, pairs.length);
    const { buckets } = pairs[part].geometry;
    const count = Math.min(sampledBuckets, buckets);
    const first = count * partOf(rest, buckets / count).part;
    const position = part * shape.bucketsMax + first;
    if (request.candidates.count >= enough || position === before) continue;
    before = position;
    yield* noteBuckets(pairs[part], first, count, request);
  }
  const met = request.candidates.count;
  const most = Math.min(BUCKETS_MAX, ...pairs.map(({ geometry }) => geometry.buckets));
  const count = Math.min(sampledBuckets, most);
  if (2 * met < enough) table.sampledBuckets = Math.min(2 * count, most);
  else if (met > 2 * enough) table.sampledBuckets = Math.max(1, count / 2);
  const picked = { place: (places[0] * 2 ** 24) % 1, enough };
  yield* visitSample(records, request, picked, visit);
}

/** Notes the records of buckets and their chains, or restores a lost table and notes none. */
function* noteBuckets(
  pair: Pair,
  first: number,
  count: number,
  request: HStoreRequest,
): Operation<void> {
  const before = request.candidates.count;
  try {
    yield* readBuckets(pair.geometry, first, count, request, (slot) => {
      request.noteRecord(recordOf(slot), unitsOfSlot(slot.high));
    });
  } catch (error) {
    if (!(error instanceof TableLost)) throw error;
    request.candidates.count = before;
    yield* restoreTable(pair, error.generation);
  }
}

/** Places of a table at which STEP_BUCKETS are read. */
const STEPS = 16;

/** Draws each pair: some buckets of its table, and how far its servers are. */
export function* paint(table: HStoreTable): Operation<IndexPicture> {
  const shown: PicturePart[] = [];
  for (const pair of table.pairs) shown.push(yield* drawPair(pair));
  const layer = { parts: 'pairs of servers', cell: 'bucket', total: table.pairs.length };
  const picture = pictureOf([{ ...layer, isExact: true, shown }]);
  const most = Math.max(...table.pairs.map(({ geometry }) => geometry.buckets));
  return { ...picture, isExact: most <= STEPS * STEP_BUCKETS };
}

function* drawPair(pair: Pair): Operation<PicturePart> {
  const { buckets, number, shape } = pair.geometry;
  const { log } = shape;
  const { committed, skiplist } = yield* readState(pair);
  const cells: number[] = [];
  let chained = 0;
  const steps = Math.min(STEPS, Math.ceil(buckets / STEP_BUCKETS));
  for (let step = 0; step < steps; step++) {
    chained += yield* addCells(pair, Math.floor((step * buckets) / steps), cells);
  }
  const slots = SLOTS * buckets;
  const part = 1 / Math.max(1, cells.length);
  const used = Math.round(part * slots * cells.reduce((sum, cell) => sum + cell, 0));
  const behind = Math.min(log, Math.max(0, committed - skiplist.applied));
  return {
    name: `${number}`,
    used,
    slots,
    cells: cells.map((cell) => Math.min(1, cell)),
    bars: [
      { name: 'hash table', used, slots },
      { name: 'chained buckets', used: Math.round(part * buckets * chained), slots: buckets },
      { name: 'log not in skiplist', used: behind, slots: log },
    ],
  };
}

/**
 * Adds how full buckets and their chains are, and returns how many buckets are chained. Adds
 * nothing for a lost table.
 */
function* addCells({ geometry }: Pair, first: number, all: number[]): Operation<number> {
  try {
    const count = Math.min(STEP_BUCKETS, geometry.buckets - first);
    const cells = new Array<number>(count).fill(0);
    const chained = yield* readBuckets(geometry, first, count, new Frame(0), ({ slot }) => {
      const bucket = Math.floor((slot - geometry.bucket(first)) / BUCKET_BYTES);
      // The bucket of a chained one is unknown here, so its slots count for all equally.
      if (bucket >= 0 && bucket < count) cells[bucket] += 1 / SLOTS;
      else for (let i = 0; i < count; i++) cells[i] += 1 / SLOTS / count;
    });
    all.push(...cells);
    return chained.size;
  } catch (error) {
    if (hasCode(error, 'SW_POOL_CORRUPT')) return 0;
    throw error;
  }
}
