import { invariant } from '../../errors.ts';
import { type Address, Batch, NULL_ADDRESS, type Operation, Scratch } from '../../verbs/index.ts';
import type { IndexWalk } from '../contract.ts';
import { lengthOf } from '../substrates/claims/slot-format.ts';
import { nextSuffix } from '../substrates/directory.ts';
import { visitRecords } from '../substrates/record-visits.ts';
import { partOf, visitSample } from '../substrates/sample.ts';
import { slotsSettled } from './buckets.ts';
import { moveBuckets, settle } from './migrate.ts';
import type { RaceRequest } from './request.ts';
import { depthOf, isLive, isReady, isVacant, pointerOf } from './slot.ts';
import type { RaceTable } from './table.ts';

/** Buckets of one group are read together. */
const GROUP_BUCKETS = 3;
const SETTLE_ROUNDS_MAX = 1000;

/** The keys whose hashes end with `suffix` (of `depth` bits), in buckets from `bucket` on. */
export interface WalkPosition {
  suffix: number;
  depth: number;
  bucket: number;
}

/**
 * A walk over all records, group by group. It goes through the suffixes in the order of their
 * reversed bits, so that a subtable that is split is still one run of the order; and because a
 * split moves a slot to the same place of the child, a bucket index stays good in both halves. So a
 * key that is present during the whole walk is handed out exactly once, whatever is resized
 * meanwhile.
 */
export class RaceWalk implements IndexWalk {
  readonly #table: RaceTable;
  readonly #request: RaceRequest;
  readonly #group: Scratch;
  readonly #groupBytes: number;
  /** Halves of subtables that were split while the walk was in them; the next one last. */
  readonly #halves: WalkPosition[] = [];
  position: WalkPosition | undefined;

  constructor(table: RaceTable, request: RaceRequest, position: WalkPosition) {
    this.#table = table;
    this.#request = request;
    this.#groupBytes = GROUP_BUCKETS * table.geometry.bucketBytes;
    this.#group = new Scratch(this.#groupBytes);
    this.position = position;
  }

  get done(): boolean {
    return this.position === undefined;
  }

  get cursor(): number {
    return encodeCursor(this.position);
  }

  /**
   * Visits the records of the next group and moves on; `position` is undefined after the last one.
   * The visitor finds each record as the request's found one, its key at `foundAt` + 16.
   */
  *next(
    visit: (request: RaceRequest, keyBytes: number) => void,
    keysOnly = false,
  ): Operation<void> {
    const position = this.position as WalkPosition;
    if (!(yield* this.#arrive(position))) return;
    yield* this.#visitGroup(position, visit, keysOnly);
    this.#advance(position);
  }

  /**
   * As `next`, without reading the records: visits all slots of the group that point to one, also
   * pending ones.
   */
  *nextSlots(visit: (record: Address, units: number, pending: boolean) => void): Operation<void> {
    const position = this.position as WalkPosition;
    if (!(yield* this.#arrive(position))) return;
    this.#eachSlot((low, high) => {
      if (isVacant(low, high)) return;
      visit(pointerOf(low, high), lengthOf(high), !isLive(low, high));
    });
    this.#advance(position);
  }

  /** Reads the group; false when its subtable was split and the walk goes on with the halves. */
  *#arrive(position: WalkPosition): Operation<boolean> {
    const depth = yield* this.#readGroup(position);
    if (depth > position.depth) {
      this.#descend(position);
      return false;
    }
    if (depth < position.depth && position.bucket === 0) position.depth = depth;
    return true;
  }

  #eachSlot(visit: (low: number, high: number) => void): void {
    const { bucketBytes } = this.#table.geometry;
    for (let at = 0; at < this.#groupBytes; at += 8) {
      if (at % bucketBytes === 0) continue;
      const low = this.#group.i32[at >> 2];
      const high = this.#group.i32[(at >> 2) + 1];
      visit(low, high);
    }
  }

  /** The subtable has been split since: go through one half after the other, from here on. */
  #descend({ suffix, depth, bucket }: WalkPosition): void {
    this.#halves.push({ suffix: suffix + 2 ** depth, depth: depth + 1, bucket });
    this.position = { suffix, depth: depth + 1, bucket };
  }

  #advance(position: WalkPosition): void {
    position.bucket += GROUP_BUCKETS;
    if (position.bucket < this.#table.geometry.buckets) return;
    this.position = this.#halves.pop() ?? following(position);
  }

  /**
   * Reads a settled group of the subtable for the position's suffix and returns its local depth.
   */
  *#readGroup({ suffix, bucket }: WalkPosition): Operation<number> {
    const { geometry, directory } = this.#table;
    for (let round = 0; round < SETTLE_ROUNDS_MAX; round++) {
      const subtable = directory.lookup(suffix);
      const address = geometry.bucketAddress(subtable, bucket);
      yield new Batch().read(address, this.#groupBytes, this.#group, 0);
      if (!this.#owns(suffix)) {
        yield* directory.refresh(suffix);
      } else if (this.#isSettled()) {
        return this.#headerDepth(0);
      } else {
        yield* this.#settleGroup(subtable, suffix, bucket);
      }
    }
    return invariant(false, 'a group does not settle') as never;
  }

  #owns(suffix: number): boolean {
    for (let i = 0; i < GROUP_BUCKETS; i++) {
      const mask = 2 ** this.#headerDepth(i) - 1;
      if ((suffix & mask) !== this.#group.i32[(i * this.#table.geometry.bucketBytes) >> 2]) {
        return false;
      }
    }
    return true;
  }

  /** Whether all three buckets are at one depth and nothing is being moved. */
  #isSettled(): boolean {
    const { bucketBytes } = this.#table.geometry;
    const depth = this.#headerDepth(0);
    for (let i = 0; i < GROUP_BUCKETS; i++) {
      const at = i * bucketBytes;
      if (this.#headerDepth(i) !== depth || !isReady(this.#group.i32[(at >> 2) + 1])) return false;
      if (!slotsSettled(this.#group.i32, at, bucketBytes, depth)) return false;
    }
    return true;
  }

  *#settleGroup(subtable: Address, suffix: number, bucket: number): Operation<void> {
    const depths = [0, 1, 2].map((i) => this.#headerDepth(i));
    for (let i = 0; i < GROUP_BUCKETS; i++) yield* settle(this.#table, subtable, bucket + i);
    const shallowest = Math.min(...depths);
    if (shallowest === Math.max(...depths)) return;
    const child = yield* this.#table.directory.child(suffix & (2 ** shallowest - 1), shallowest);
    if (child !== NULL_ADDRESS)
      yield* moveBuckets(this.#table, subtable, child, bucket, GROUP_BUCKETS);
  }

  #headerDepth(bucket: number): number {
    return depthOf(this.#group.i32[((bucket * this.#table.geometry.bucketBytes) >> 2) + 1]);
  }

  *#visitGroup(
    { suffix, depth }: WalkPosition,
    visit: (request: RaceRequest, keyBytes: number) => void,
    keysOnly: boolean,
  ): Operation<void> {
    const { records } = this.#table;
    const request = this.#request;
    request.candidateCount = 0;
    this.#eachSlot((low, high) => {
      if (isLive(low, high)) request.noteRecord(pointerOf(low, high), lengthOf(high));
    });
    const isHere = ({ hash }: RaceRequest) => (hash.h1 & (2 ** depth - 1)) === suffix;
    yield* visitRecords(records, request, isHere, visit, keysOnly);
  }
}

function following({ suffix, depth }: WalkPosition): WalkPosition | undefined {
  const next = nextSuffix(suffix, depth);
  return next === undefined ? undefined : { suffix: next, depth, bucket: 0 };
}

export const WALK_START: Readonly<WalkPosition> = { suffix: 0, depth: 0, bucket: 0 };

/** Bits of a cursor: 0 stands for the start and for the end. */
const BUCKET_VALUES = 2 ** 18;
const SUFFIX_VALUES = 2 ** 24;

export function encodeCursor(position: WalkPosition | undefined): number {
  if (position === undefined) return 0;
  const { suffix, depth, bucket } = position;
  return (depth * SUFFIX_VALUES + suffix) * BUCKET_VALUES + bucket + 1;
}

/** Undefined when the number is no cursor of this table. */
export function decodeCursor(cursor: number, buckets: number): WalkPosition | undefined {
  if (cursor === 0) return { ...WALK_START };
  if (!Number.isSafeInteger(cursor) || cursor < 0) return undefined;
  const bucket = (cursor - 1) % BUCKET_VALUES;
  const rest = Math.floor((cursor - 1) / BUCKET_VALUES);
  const suffix = rest % SUFFIX_VALUES;
  const depth = Math.floor(rest / SUFFIX_VALUES);
  const valid = depth <= 24 && suffix < 2 ** depth && bucket < buckets && bucket % 3 === 0;
  return valid ? { suffix, depth, bucket } : undefined;
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
  request.candidateCount = 0;
  let stale: number | undefined;
  for (let i = 0; i < places.length; i++) {
    const { part: suffix } = partOf(places[i], 2 ** depth);
    if (ownsSuffix(words, i * groupBytes, suffix)) noteLive(table, request, i * groupBytes);
    else stale = suffix;
  }
  // What a subtable held before it was split is elsewhere, or has been re-used: for the next time.
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
