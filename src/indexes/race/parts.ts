import { invariant } from '../../errors.ts';
import { type Address, Batch, NULL_ADDRESS, type Operation, Scratch } from '../../verbs/index.ts';
import type { IndexShape } from '../contract.ts';
import { lengthOf } from '../substrates/claims/slot-format.ts';
import type { Parts } from '../traversal/parts.ts';
import { SuffixOrder } from '../traversal/suffix-order.ts';
import { slotsSettled } from './buckets.ts';
import { moveBuckets, settle } from './migrate.ts';
import type { RaceRequest } from './request.ts';
import { depthOf, isLive, isReady, isVacant, pointerOf } from './slot.ts';
import type { RaceTable } from './table.ts';

/** A group is read at once by walks, which go on behind any of them. */
export const GROUP_BUCKETS = 3;
/** What is read at once of a subtable where all of it is read. */
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

  /** Raises SW_INVALID_ARGUMENT for what is no cursor. */
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
   * Reads the directory anew: a splitter may have died right after it had published a child that no
   * client has met yet.
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

/** Reads buckets of which nothing is being moved; false when they do not come to rest. */
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
