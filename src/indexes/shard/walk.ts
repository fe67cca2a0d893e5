import { invariant, StepwellError } from '../../errors.ts';
import { type Address, Batch, NULL_ADDRESS, type Operation, Scratch } from '../../verbs/index.ts';
import type { IndexWalk } from '../contract.ts';
import { lengthOf } from '../substrates/claims/slot-format.ts';
import { CycleGuard } from '../substrates/cycle-guard.ts';
import { visitRecords } from '../substrates/record-visits.ts';
import type { Partitions } from './partitions/partitions.ts';
import { bringTo } from './resizing/catch-up.ts';
import {
  LEVEL3_LINK,
  LEVELS,
  NODE_BYTES,
  NODE_LINK,
  type ShardGeometry,
} from './table/geometry.ts';
import type { ShardRequest } from './table/request.ts';
import type { Segments } from './table/segments.ts';
import { FROZEN, isEmpty, isLive, pointerOf, stampOf, VERSION_MAX } from './table/slot.ts';
import type { ShardTable } from './table/table.ts';

const SETTLE_ROUNDS_MAX = 1000;

/** The buckets of number `bucket` of all levels of a partition, as they are at `version`. */
export interface WalkPosition {
  partition: number;
  bucket: number;
  version: number;
}

/**
 * A walk over all records, partition by partition, one bucket of every level at a time. It goes
 * through the buckets in the order of their reversed bits, so that a bucket that is split is still
 * one run of the order; and a record never changes its level. So a key that is present during the
 * whole walk is handed out exactly once, whatever is resized meanwhile.
 */
export class ShardWalk implements IndexWalk {
  readonly #partitions: Partitions;
  #table: ShardTable;
  readonly #request: ShardRequest;
  readonly #words: Scratch;
  /** Where each level's bucket stands in the words. */
  readonly #at: readonly number[];
  #nodes: { address: Address; words: Scratch }[] = [];
  position: WalkPosition | undefined;

  constructor(partitions: Partitions, request: ShardRequest, position: WalkPosition) {
    this.#partitions = partitions;
    this.#table = partitions.tables[position.partition];
    this.#request = request;
    const [level1, level2, level3] = partitions.geometry.bucketBytes;
    this.#at = [0, level1, level1 + level2];
    this.#words = new Scratch(level1 + level2 + level3);
    this.position = position;
  }

  get done(): boolean {
    return this.position === undefined;
  }

  get cursor(): number {
    return encodeCursor(this.position);
  }

  *next(
    visit: (request: ShardRequest, keyBytes: number) => void,
    keysOnly = false,
  ): Operation<void> {
    const position = this.position as WalkPosition;
    if (!this.#partitions.isCurrent) yield* this.#partitions.refresh();
    yield* this.#arrive(position);
    const { geometry, records } = this.#table;
    const request = this.#request;
    request.candidateCount = 0;
    const noteLive = (low: number, high: number) => {
      if (isLive(low, high)) request.noteRecord(pointerOf(low, high), lengthOf(high));
    };
    this.#eachSlot(noteLive);
    const own = request.candidateCount;
    this.#eachChained(noteLive);
    let index = 0;
    // A chain is shared by buckets that were one when it began.
    const isHere = ({ hash }: ShardRequest) =>
      index++ < own || geometry.bucketOf(hash.h4, position.version) === position.bucket;
    yield* visitRecords(records, request, isHere, visit, keysOnly);
    this.position = successor(geometry, position);
  }

  /** As `next`, without reading the records: visits all slots that point to one, and all nodes. */
  *nextSlots(
    visit: (record: Address, units: number, pending: boolean) => void,
    visitNode: (address: Address) => void,
  ): Operation<void> {
    const position = this.position as WalkPosition;
    yield* this.#arrive(position);
    const visitSlot = (low: number, high: number) => {
      if (isEmpty(low, high)) return;
      visit(pointerOf(low, high), lengthOf(high), !isLive(low, high));
    };
    this.#eachSlot(visitSlot);
    this.#eachChained(visitSlot);
    for (const { address } of this.#nodes) visitNode(address);
    this.position = successor(this.#table.geometry, position);
  }

  /**
   * Reads the buckets of all levels, and the chain, at one version: the position's, or the next
   * when one of them has gone further, of which the position is then the first part.
   */
  *#arrive(position: WalkPosition): Operation<void> {
    const { geometry } = this.#partitions;
    this.#table = this.#partitions.tables[position.partition];
    const table = this.#table;
    if (position.version > table.segments.version) yield* table.load();
    if (position.version > table.segments.version) throw foreignCursor(encodeCursor(position));
    for (let round = 0; round < SETTLE_ROUNDS_MAX; round++) {
      const { segments } = table;
      const batch = new Batch();
      for (let level = 0; level < LEVELS; level++) {
        const address = segments.bucketAddress(level, position.bucket);
        batch.read(address, geometry.bucketBytes[level], this.#words, this.#at[level]);
      }
      yield batch;
      const reached = this.#reached();
      // Resized since this client looked, or migrated.
      if (reached > segments.version) yield* table.load();
      else if (reached > position.version) position.version = reached;
      else if (yield* this.#settle(position, segments)) return yield* this.#readChain();
    }
    return invariant(false, 'a bucket does not settle') as never;
  }

  /** The highest version that a bucket is at, or is being moved to. */
  #reached(): number {
    let reached = 0;
    for (let at = 0; at < this.#end; at += 8) {
      const high = this.#words.i32[(at >> 2) + 1];
      const leaving = (high & FROZEN) !== 0 ? 1 : 0;
      reached = Math.max(reached, stampOf(high) - 1 + leaving);
    }
    return reached;
  }

  get #end(): number {
    return this.#at[LEVELS - 1] + LEVEL3_LINK + 8;
  }

  /** Moves the buckets that are behind; true when none was. */
  *#settle({ bucket, version }: WalkPosition, segments: Segments): Operation<boolean> {
    let settled = true;
    for (let level = 0; level < LEVELS; level++) {
      const from = this.#at[level];
      const end = from + this.#table.geometry.bucketBytes[level];
      let behind = false;
      for (let at = from; at < end; at += 8) {
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
    const link = (this.#at[LEVELS - 1] + LEVEL3_LINK) >> 2;
    let address = pointerOf(this.#words.i32[link], this.#words.i32[link + 1]);
    const guard = new CycleGuard();
    while (address !== NULL_ADDRESS) {
      guard.pass(address);
      const words = new Scratch(NODE_BYTES);
      yield new Batch().read(address, NODE_BYTES, words, 0);
      this.#nodes.push({ address, words });
      address = pointerOf(words.i32[NODE_LINK >> 2], words.i32[(NODE_LINK >> 2) + 1]);
    }
  }

  #eachSlot(visit: (low: number, high: number) => void): void {
    const { i32 } = this.#words;
    for (let word = 0; word < (this.#end - 8) >> 2; word += 2) visit(i32[word], i32[word + 1]);
  }

  #eachChained(visit: (low: number, high: number) => void): void {
    for (const { words } of this.#nodes) {
      for (let word = 0; word < NODE_LINK >> 2; word += 2) {
        visit(words.i32[word], words.i32[word + 1]);
      }
    }
  }
}

/**
 * The next bucket of the same version in the order of reversed bits, or the first one of the next
 * partition; undefined after the last.
 */
function successor(
  geometry: ShardGeometry,
  { partition, bucket, version }: WalkPosition,
): WalkPosition | undefined {
  // Adding one to the reversed number is carrying from the highest bit downwards.
  let bit = geometry.bucketsAt(version) / 2;
  let next = bucket;
  while (bit >= 1 && (next & bit) !== 0) {
    next &= ~bit;
    bit /= 2;
  }
  if (bit >= 1) return { partition, bucket: next | bit, version };
  if (partition + 1 === geometry.shape.partitions) return undefined;
  return { ...WALK_START, partition: partition + 1 };
}

export const WALK_START: Readonly<WalkPosition> = { partition: 0, bucket: 0, version: 0 };

const BUCKET_VALUES = 2 ** 28;
const VERSION_VALUES = 2 ** 5;
/** Every position is some number; the rest of it by a prime tells one from what is no cursor. */
const CHECK_VALUES = 1024;
const CHECK_PRIME = 1021;

/** 0 stands for the start and for the end. */
function encodeCursor(position: WalkPosition | undefined): number {
  if (position === undefined) return 0;
  const { partition, version, bucket } = position;
  const code = (partition * VERSION_VALUES + version) * BUCKET_VALUES + bucket;
  return code * CHECK_VALUES + (code % CHECK_PRIME) + 1;
}

/** Raises SW_INVALID_ARGUMENT when the number is no cursor of this table. */
export function decodeCursor(cursor: number, geometry: ShardGeometry): WalkPosition {
  if (cursor === 0) return { ...WALK_START };
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
  if (!isPosition || encodeCursor(position) !== cursor) throw foreignCursor(cursor);
  return position;
}

function foreignCursor(cursor: number): StepwellError {
  return new StepwellError('SW_INVALID_ARGUMENT', `not a cursor of this store: ${cursor}`);
}
