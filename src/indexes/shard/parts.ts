import { invariant, StepwellError } from '../../errors.ts';
import { type Address, Batch, NULL_ADDRESS, type Operation, Scratch } from '../../verbs/index.ts';
import type { IndexShape } from '../contract.ts';
import {
  type IndexPicture,
  type PictureBar,
  type PicturePart,
  pictureOf,
  spread,
} from '../picture.ts';
import { lengthOf } from '../substrates/claims/slot-format.ts';

import { nextSuffix } from '../substrates/directory.ts';
import type { PartOrder, Parts } from '../traversal/parts.ts';
import { partOf, visitSample } from '../traversal/sample.ts';
import { countLive, countRecords, eachEntry, eachNode } from './each-bucket.ts';
import type { Partitions } from './partitions/partitions.ts';
import { bringTo } from './resizing/catch-up.ts';
import { learnRelocations } from './resizing/new-bucket.ts';
import { LEVELS, NODE_LINK, type ShardGeometry } from './table/geometry.ts';
import type { ShardRequest } from './table/request.ts';
import type { Segments } from './table/segments.ts';
import { FROZEN, isLive, pointerAt, pointerOf, stampOf, VERSION_MAX } from './table/slot.ts';
import type { ShardTable } from './table/table.ts';

const SETTLE_ROUNDS_MAX = 1000;

/** The buckets with number `bucket` in all levels of a partition, at `version`. */
interface BucketPosition {
  partition: number;
  bucket: number;
  version: number;
}

/**
 * Walks one bucket of every level at a time, partition by partition. Buckets come in the order of
 * their reversed bits, so that the halves of a split bucket are neighbours. A record never changes
 * its level.
 */
export class ShardParts implements Parts<ShardRequest> {
  readonly order: BucketOrder;
  readonly #partitions: Partitions;
  /** Whether to look the tables up before the first part, even if this client's are current. */
  #isToRefresh: boolean;
  #table: ShardTable;
  readonly #words: Scratch;
  readonly #bytes: number;
  #nodes: { address: Address; words: Scratch }[] = [];
  /** How many live slots the buckets have; later ones come from the chain. */
  #own = 0;

  /** Raises SW_INVALID_ARGUMENT for an invalid cursor. */
  constructor(partitions: Partitions, cursor = 0, whole = false) {
    const { geometry, tables } = partitions;
    this.order = new BucketOrder(geometry, cursor);
    this.#partitions = partitions;
    this.#isToRefresh = whole;
    this.#table = tables[0];
    this.#bytes = geometry.rowBytes;
    this.#words = new Scratch(this.#bytes);
  }

  /**
   * Reads the buckets of all levels, and the chain, at one version: the position's, or a later one
   * that some bucket has reached. The part then covers the first of the buckets that the position
   * was split into.
   */
  *read(): Operation<void> {
    const position = this.order.position as BucketPosition;
    if (this.#isToRefresh || !this.#partitions.isCurrent) yield* this.#partitions.refresh();
    this.#isToRefresh = false;
    this.#table = this.#partitions.tables[position.partition];
    const table = this.#table;
    if (position.version > table.segments.version) yield* table.load();
    if (position.version > table.segments.version) throw foreignCursor(cursorOf(position));
    for (let round = 0; round < SETTLE_ROUNDS_MAX; round++) {
      const { segments } = table;
      const batch = new Batch();
      segments.postBuckets(position.bucket, batch, this.#words, 0);
      yield batch;
      const reached = this.#reached();
      // The table was resized or migrated meanwhile.
      if (reached > segments.version) yield* table.load();
      else if (reached > position.version) position.version = reached;
      else if (yield* this.#settle(position, segments)) return yield* this.#readChain();
    }
    return invariant(false, 'a bucket was moved during every attempt to read it') as never;
  }

  /** The highest version that a bucket is at, or is being moved to. */
  #reached(): number {
    let reached = 0;
    for (let at = 0; at < this.#bytes; at += 8) {
      const high = this.#words.i32[(at >> 2) + 1];
      const leaving = (high & FROZEN) !== 0 ? 1 : 0;
      reached = Math.max(reached, stampOf(high) - 1 + leaving);
    }
    return reached;
  }

  /** Moves the buckets that are behind; true when none was. */
  *#settle({ bucket, version }: BucketPosition, segments: Segments): Operation<boolean> {
    let settled = true;
    let at = 0;
    for (let level = 0; level < LEVELS; level++) {
      const end = at + this.#table.geometry.bucketBytes[level];
      let behind = false;
      for (; at < end; at += 8) {
        const high = this.#words.i32[(at >> 2) + 1];
        behind ||= stampOf(high) - 1 < version || (high & FROZEN) !== 0;
      }
      if (!behind) continue;
      settled = false;
      yield* bringTo(this.#table, level, bucket, version, undefined, segments);
    }
    return settled;
  }

  *#readChain(): Operation<void> {
    this.#nodes = [];
    yield* eachNode(pointerAt(this.#words, this.#bytes - 8), (words, address) => {
      this.#nodes.push({ address, words });
    });
  }

  eachSlot(visit: (record: Address, units: number, isClaim: boolean) => void): void {
    let live = 0;
    const visitEntry = (low: number, high: number) => {
      if (isLive(low, high)) live++;
      visit(pointerOf(low, high), lengthOf(high), !isLive(low, high));
    };
    eachEntry(this.#words, 0, (this.#bytes >> 3) - 1, visitEntry);
    this.#own = live;
    for (const { words } of this.#nodes) eachEntry(words, 0, NODE_LINK >> 3, visitEntry);
  }

  /** Buckets that were one when a chain began share it. */
  isHere({ hash }: ShardRequest, i: number): boolean {
    const { bucket, version } = this.order.position as BucketPosition;
    return i < this.#own || this.#table.geometry.bucketOf(hash.h4, version) === bucket;
  }

  eachBlock(visit: (address: Address) => void): void {
    for (const { address } of this.#nodes) visit(address);
  }

  /** Reads the roots: the traversal has not met segments to which no bucket was moved yet. */
  *eachOtherBlock(visit: (address: Address) => void): Operation<void> {
    const { directory, tables } = this.#partitions;
    for (const address of (yield* directory.places()).keys()) visit(address);
    // The traversal has learned the relocations of the current segments.
    for (const table of tables) {
      const { segments } = table;
      if (segments.former !== undefined) yield* learnRelocations(table, segments.former);
      for (const each of [segments, segments.former]) {
        for (const { address } of each?.relocations() ?? []) visit(address);
      }
    }
  }
}

class BucketOrder implements PartOrder {
  readonly #geometry: ShardGeometry;
  /** Undefined at the end. */
  position: BucketPosition | undefined;

  constructor(geometry: ShardGeometry, cursor: number) {
    this.#geometry = geometry;
    this.position = positionOf(cursor, geometry);
  }

  get done(): boolean {
    return this.position === undefined;
  }

  get cursor(): number {
    return this.position === undefined ? 0 : cursorOf(this.position);
  }

  pass(): void {
    const { partition, bucket, version } = this.position as BucketPosition;
    const next = nextSuffix(bucket, Math.log2(this.#geometry.bucketsAt(version)));
    if (next !== undefined) this.position = { partition, bucket: next, version };
    else if (partition + 1 === this.#geometry.shape.partitions) this.position = undefined;
    else this.position = { ...START, partition: partition + 1 };
  }
}

const START: Readonly<BucketPosition> = { partition: 0, bucket: 0, version: 0 };

const BUCKET_VALUES = 2 ** 28;
const VERSION_VALUES = 2 ** 5;
/** A cursor ends with a checksum, the remainder by a prime: most other numbers are refused. */
const CHECK_VALUES = 1024;
const CHECK_PRIME = 1021;

/** Never 0, which stands for the start and for the end. */
function cursorOf({ partition, version, bucket }: BucketPosition): number {
  const code = (partition * VERSION_VALUES + version) * BUCKET_VALUES + bucket;
  return code * CHECK_VALUES + (code % CHECK_PRIME) + 1;
}

/** Raises SW_INVALID_ARGUMENT when the number is no cursor of this table. */
function positionOf(cursor: number, geometry: ShardGeometry): BucketPosition {
  if (cursor === 0) return { ...START };
  const code = Number.isSafeInteger(cursor) ? Math.floor((cursor - 1) / CHECK_VALUES) : -1;
  const bucket = code % BUCKET_VALUES;
  const version = Math.floor(code / BUCKET_VALUES) % VERSION_VALUES;
  const partition = Math.floor(code / BUCKET_VALUES / VERSION_VALUES);
  const position = { partition, bucket, version };
  const isPosition =
    code >= 0 &&
    partition < geometry.shape.partitions &&
    version <= VERSION_MAX &&
    bucket < geometry.bucketsAt(version);
  if (!isPosition || cursorOf(position) !== cursor) throw foreignCursor(cursor);
  return position;
}

function foreignCursor(cursor: number): StepwellError {
  return new StepwellError('SW_INVALID_ARGUMENT', `not a cursor of this store: ${cursor}`);
}

/** The buckets with the same number in all levels of a partition, as read into the words. */
interface Buckets {
  readonly table: ShardTable;
  readonly at: number;
  readonly version: number;
}

/** `Index.sample`: a place is the buckets with the same number in all levels of a partition. */
export function* sampleRecords(
  partitions: Partitions,
  request: ShardRequest,
  places: readonly number[],
  enough: number,
  visit: (request: ShardRequest, keyBytes: number) => void,
): Operation<void> {
  const { geometry, tables } = partitions;
  const { rowBytes: bytes } = geometry;
  const { batch, words } = request;
  words.ensure(places.length * bytes);
  batch.clear();
  const read = places.map((place, i): Buckets => {
    const { part, rest } = partOf(place, geometry.shape.partitions);
    const { segments } = tables[part];
    const { part: bucket } = partOf(rest, geometry.bucketsAt(segments.version));
    segments.postBuckets(bucket, batch, words, i * bytes);
    return { table: tables[part], at: i * bytes, version: segments.version };
  });
  yield batch;
  const slotBytes = bytes - 8;
  request.candidates.count = 0;
  const noteNode = (node: Scratch) => void noteLive(request, node, 0, NODE_LINK, VERSION_MAX);
  for (const { table, at, version } of read) {
    // Resized or migrated meanwhile: this client reads the root for its next sample.
    if (!noteLive(request, words, at, slotBytes, version)) yield* table.load();
    else yield* eachNode(pointerAt(words, at + slotBytes), noteNode);
  }
  const picked = { place: (places[0] * 2 ** 24) % 1, enough };
  yield* visitSample(tables[0].records, request, picked, visit);
}

/** Notes the records of buckets; false when one of these is at a later version. */
function noteLive(
  request: ShardRequest,
  { i32 }: Scratch,
  start: number,
  bytes: number,
  version: number,
): boolean {
  for (let at = start; at < start + bytes; at += 8) {
    const low = i32[at >> 2];
    const high = i32[(at >> 2) + 1];
    const stamp = stampOf(high);
    if (stamp - 1 > version) return false;
    // A word of stamp 0 is no record: the bucket is new, and this may be its mover's name.
    if (stamp > 0 && isLive(low, high)) request.noteRecord(pointerOf(low, high), lengthOf(high));
  }
  return true;
}

/** Counts by a walk over the slots of all tables, without reading records. */
export function* shapeOf({ geometry, tables }: Partitions): Operation<IndexShape> {
  const sum = { globalDepth: 0, subtables: 0, slots: 0, records: 0 };
  const perBucket = geometry.entries.reduce((all, each) => all + each);
  for (const table of tables) {
    const { records, nodes } = yield* countRecords(table);
    const { version } = table.segments;
    const buckets = geometry.bucketsAt(version);
    sum.globalDepth = Math.max(sum.globalDepth, Math.log2(buckets));
    sum.subtables += version + 1;
    sum.slots += buckets * perBucket + nodes * (NODE_LINK >> 3);
    sum.records += records;
  }
  return sum;
}

/** Buckets of each level that are drawn: of all partitions together, and at least of each. */
const BUCKETS_MAX = 512;
const BUCKETS_MIN = 16;

/**
 * Draws some partitions, and some buckets of all levels of each. Buckets that no client has visited
 * since a resize are empty; their records are still in the buckets from which they will be split.
 */
export function* paint(partitions: Partitions, partsMax: number): Operation<IndexPicture> {
  const { tables } = partitions;
  const chosen = spread(tables, partsMax);
  const buckets = Math.max(BUCKETS_MIN, Math.floor(BUCKETS_MAX / chosen.length));
  const shown: PicturePart[] = [];
  for (const table of chosen) shown.push(yield* drawPartition(table, buckets));
  const layer = { parts: 'partitions', cell: 'bucket of level 1', total: tables.length };
  const picture = pictureOf([{ ...layer, isExact: true, shown }]);
  const isWhole = shown.every(({ bars, cells }) => bars?.[0].slots === cells.length);
  return { ...picture, isExact: picture.isExact && isWhole };
}

function* drawPartition(table: ShardTable, bucketsMax: number): Operation<PicturePart> {
  const { geometry, segments } = table;
  const all = geometry.bucketsAt(segments.version);
  const read = Math.min(all, bucketsMax);
  const { rowBytes: bytes } = geometry;
  const words = new Scratch(read * bytes);
  const batch = new Batch();
  for (let i = 0; i < read; i++) {
    segments.postBuckets(Math.floor((i * all) / read), batch, words, i * bytes);
  }
  yield batch;
  const live: number[][] = [];
  let chains = 0;
  for (let i = 0; i < read; i++) {
    live.push(liveByLevel(geometry, words, i * bytes));
    if (pointerAt(words, (i + 1) * bytes - 8) !== NULL_ADDRESS) chains++;
  }
  const sums = live.reduce((sum, one) => sum.map((count, level) => count + one[level]));
  const bars: PictureBar[] = sums.map((count, level) => {
    const slots = geometry.entries[level] * all;
    return { name: `level ${level + 1}`, used: Math.round((count * all) / read), slots };
  });
  bars.push({ name: 'chains', used: Math.round((chains * all) / read), slots: all });
  const levels = bars.slice(0, LEVELS);
  return {
    name: `${table.partition}`,
    used: levels.reduce((sum, { used }) => sum + used, 0),
    slots: levels.reduce((sum, { slots }) => sum + slots, 0),
    cells: live.map(([first]) => first / geometry.entries[0]),
    bars,
  };
}

/** Live entries of the buckets with the same number, by level. */
function liveByLevel(
  { entries, bucketBytes }: ShardGeometry,
  words: Scratch,
  start: number,
): number[] {
  let at = start;
  return entries.map((count, level) => {
    const live = countLive(words, at, count);
    at += bucketBytes[level];
    return live;
  });
}
