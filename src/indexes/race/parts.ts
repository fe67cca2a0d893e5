import { invariant } from '../../errors.ts';
import {
  type Address,
  Batch,
  NULL_ADDRESS,
  type Operation,
  Scratch,
  UNIT_BYTES,
} from '../../verbs/index.ts';
import type { IndexShape } from '../contract.ts';
import { type IndexPicture, type PicturePart, pictureOf, spread } from '../picture.ts';
import { lengthOf } from '../substrates/claims/slot-format.ts';
import { SuffixOrder } from '../traversal/part-orders.ts';
import type { Parts } from '../traversal/parts.ts';
import { partOf, visitSample } from '../traversal/sample.ts';
import { slotsSettled } from './buckets.ts';
import { moveBuckets, settle } from './migrate.ts';
import type { RaceRequest } from './request.ts';
import { depthOf, isLive, isReady, isVacant, pointerOf } from './slot.ts';
import type { RaceTable } from './table.ts';

/** Walks read a group at once, and can continue after any of them. */
export const GROUP_BUCKETS = 3;
/** How much to read at once of a subtable that is read whole. */
const READ_BYTES = 32 * 1024;
const SETTLE_ROUNDS_MAX = 1000;

/**
 * Groups of buckets, subtable by subtable. A split moves a slot to the same place of the child, so
 * a bucket index stays good in both halves.
 */
export class RaceParts implements Parts<RaceRequest> {
  readonly order: SuffixOrder;
  readonly #table: RaceTable;
  readonly #group: Scratch;

  /** Raises SW_INVALID_ARGUMENT for an invalid cursor. */
  constructor(table: RaceTable, cursor = 0) {
    const { buckets, bucketBytes } = table.geometry;
    this.order = new SuffixOrder({ end: buckets, step: GROUP_BUCKETS }, cursor);
    this.#table = table;
    this.#group = new Scratch(GROUP_BUCKETS * bucketBytes);
  }

  /** Reads a settled group, whose buckets are all at one depth. */
  *read(): Operation<void> {
    const table = this.#table;
    const { suffix, at } = this.order.position;
    for (let round = 0; round < SETTLE_ROUNDS_MAX; round++) {
      const subtable = table.directory.lookup(suffix);
      if (!(yield* readSettled(table, subtable, at, GROUP_BUCKETS, this.#group))) break;
      const depths = [0, 1, 2].map((i) => this.#depthOf(i));
      const [least, greatest] = [Math.min(...depths), Math.max(...depths)];
      if (!this.#owns(suffix)) {
        yield* table.directory.refresh(suffix);
      } else if (least === greatest) {
        return this.order.arrive(least, at + GROUP_BUCKETS);
      } else {
        const child = yield* table.directory.child(suffix & (2 ** least - 1), least);
        if (child !== NULL_ADDRESS) yield* moveBuckets(table, subtable, child, at, GROUP_BUCKETS);
      }
    }
    return invariant(false, 'a group does not settle') as never;
  }

  eachSlot(visit: (record: Address, units: number, isClaim: boolean) => void): void {
    const { bucketBytes } = this.#table.geometry;
    const { i32 } = this.#group;
    for (let at = 0; at < GROUP_BUCKETS * bucketBytes; at += 8) {
      if (at % bucketBytes === 0) continue;
      const low = i32[at >> 2];
      const high = i32[(at >> 2) + 1];
      if (isVacant(low, high)) continue;
      visit(pointerOf(low, high), lengthOf(high), !isLive(low, high));
    }
  }

  isHere({ hash }: RaceRequest): boolean {
    return this.order.holds(hash.h1);
  }

  /**
   * Reads the directory again: a splitter may have died right after it had published a child that
   * no client has met yet.
   */
  *eachOtherBlock(visit: (address: Address) => void): Operation<void> {
    yield* this.#table.directory.load();
    for (const subtable of this.#table.directory.subtables()) visit(subtable);
  }

  #owns(suffix: number): boolean {
    for (let i = 0; i < GROUP_BUCKETS; i++) {
      const mask = 2 ** this.#depthOf(i) - 1;
      if ((suffix & mask) !== this.#group.i32[this.#headerOf(i)]) return false;
    }
    return true;
  }

  #depthOf(bucket: number): number {
    return depthOf(this.#group.i32[this.#headerOf(bucket) + 1]);
  }

  #headerOf(bucket: number): number {
    return (bucket * this.#table.geometry.bucketBytes) >> 2;
  }
}

/**
 * Visits every bucket of every subtable once, many in one READ, after finishing moves that a dead
 * client may have left half done. `at` is the bucket's offset in the scratch. A slot that is moved
 * meanwhile may be missed, or be met twice.
 */
export function* eachBucket(
  table: RaceTable,
  visit: (words: Scratch, at: number, subtable: Address, bucket: number) => void,
): Operation<void> {
  const { geometry, directory } = table;
  yield* directory.load();
  const perRead = Math.min(geometry.buckets, Math.floor(READ_BYTES / geometry.bucketBytes) || 1);
  const area = new Scratch(perRead * geometry.bucketBytes);
  for (const subtable of directory.subtables()) {
    for (let first = 0; first < geometry.buckets; first += perRead) {
      const count = Math.min(perRead, geometry.buckets - first);
      yield* readSettled(table, subtable, first, count, area);
      for (let i = 0; i < count; i++) visit(area, i * geometry.bucketBytes, subtable, first + i);
    }
  }
}

/** Reads buckets until no slot in them is moving; false when they do not come to rest. */
function* readSettled(
  table: RaceTable,
  subtable: Address,
  first: number,
  count: number,
  area: Scratch,
): Operation<boolean> {
  const { geometry } = table;
  for (let round = 0; round < SETTLE_ROUNDS_MAX; round++) {
    const address = geometry.bucketAddress(subtable, first);
    yield new Batch().read(address, count * geometry.bucketBytes, area, 0);
    let unsettled = 0;
    for (let i = 0; i < count; i++) {
      const at = i * geometry.bucketBytes;
      const header = area.i32[(at >> 2) + 1];
      if (isReady(header) && slotsSettled(area.i32, at, geometry.bucketBytes, depthOf(header))) {
        continue;
      }
      unsettled++;
      yield* settle(table, subtable, first + i);
    }
    if (unsettled === 0) return true;
  }
  return false;
}

/** Counts by the slots, without reading records. */
export function* shapeOf(table: RaceTable): Operation<IndexShape> {
  const { bucketBytes } = table.geometry;
  let records = 0;
  yield* eachBucket(table, ({ i32 }, at) => {
    const end = (at + bucketBytes) >> 2;
    for (let word = (at >> 2) + 2; word < end; word += 2) {
      if (isLive(i32[word], i32[word + 1])) records++;
    }
  });
  const subtables = table.directory.subtables().length;
  const slots = subtables * table.geometry.slots;
  return { globalDepth: table.directory.depth, subtables, slots, records };
}

/**
 * `Index.sample`: a place is a group of buckets. A group that is being split is read as it is: a
 * record in it may be missed, or be met in either half.
 */
export function* sampleRecords(
  table: RaceTable,
  request: RaceRequest,
  places: readonly number[],
  enough: number,
  visit: (request: RaceRequest, keyBytes: number) => void,
): Operation<void> {
  const { directory, geometry, records } = table;
  const groupBytes = GROUP_BUCKETS * geometry.bucketBytes;
  const { depth } = directory;
  const { batch, words } = request;
  words.ensure(places.length * groupBytes);
  batch.clear();
  for (let i = 0; i < places.length; i++) {
    const { part: suffix, rest } = partOf(places[i], 2 ** depth);
    const { part: group } = partOf(rest, geometry.shape.groups);
    const bucket = geometry.bucketAddress(directory.lookup(suffix), GROUP_BUCKETS * group);
    batch.read(bucket, groupBytes, words, i * groupBytes);
  }
  yield batch;
  request.candidates.count = 0;
  let stale: number | undefined;
  for (let i = 0; i < places.length; i++) {
    const { part: suffix } = partOf(places[i], 2 ** depth);
    if (ownsSuffix(words, i * groupBytes, suffix)) noteLive(table, request, i * groupBytes);
    else stale = suffix;
  }
  // The records are elsewhere since a split, or re-used: refresh for the next sample.
  if (stale !== undefined) yield* directory.refresh(stale);
  const picked = { place: (places[0] * 2 ** 24) % 1, enough };
  yield* visitSample(records, request, picked, visit);
}

/** Whether the bucket whose header stands there is of the keys with this suffix. */
function ownsSuffix({ i32 }: Scratch, at: number, suffix: number): boolean {
  const mask = 2 ** depthOf(i32[(at >> 2) + 1]) - 1;
  return (suffix & mask) === i32[at >> 2];
}

/** Notes the records of the group that stands at `start` of the request's words. */
function noteLive({ geometry }: RaceTable, request: RaceRequest, start: number): void {
  const { bucketBytes } = geometry;
  const { i32 } = request.words;
  for (let at = start; at < start + GROUP_BUCKETS * bucketBytes; at += 8) {
    if ((at - start) % bucketBytes === 0) continue;
    const low = i32[at >> 2];
    const high = i32[(at >> 2) + 1];
    if (isLive(low, high)) request.noteRecord(pointerOf(low, high), lengthOf(high));
  }
}

/** Groups that are read of one subtable. */
const GROUPS_MAX = 128;

/** Some subtables as they are: a record that is being moved may be missed, or be met twice. */
export function* paint(table: RaceTable, partsMax: number): Operation<IndexPicture> {
  const { directory } = table;
  const subtables = directory.subtables();
  const shown: PicturePart[] = [];
  for (const subtable of spread(subtables, partsMax))
    shown.push(yield* drawSubtable(table, subtable));
  const layer = { parts: 'subtables', cell: 'bucket group', total: subtables.length };
  return pictureOf([{ ...layer, isExact: true, shown }], directory.depth);
}

function* drawSubtable({ geometry }: RaceTable, subtable: Address): Operation<PicturePart> {
  const { associativity, groups } = geometry.shape;
  const read = Math.min(groups, GROUPS_MAX);
  const groupBytes = GROUP_BUCKETS * geometry.bucketBytes;
  const words = new Scratch(read * groupBytes);
  yield new Batch().read(subtable + UNIT_BYTES, read * groupBytes, words, 0);
  const slots = GROUP_BUCKETS * associativity;
  const cells = Array.from({ length: read }, (_, group) => {
    return liveIn(words, group * groupBytes, groupBytes, geometry.bucketBytes) / slots;
  });
  const used = slots * cells.reduce((sum, fill) => sum + fill, 0) * (groups / read);
  const depth = depthOf(words.i32[1]);
  const suffix = words.i32[0] >>> 0;
  const name = suffix.toString(2).padStart(depth, '0');
  return { name, suffix, depth, used: Math.round(used), slots: geometry.slots, cells };
}

function liveIn({ i32 }: Scratch, start: number, bytes: number, bucketBytes: number): number {
  let live = 0;
  for (let at = start; at < start + bytes; at += 8) {
    const isHeader = (at - start) % bucketBytes === 0;
    if (!isHeader && isLive(i32[at >> 2], i32[(at >> 2) + 1])) live++;
  }
  return live;
}
