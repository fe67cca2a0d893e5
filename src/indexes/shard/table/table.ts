import type { Allocator } from '../../../pool/memory/allocator.ts';
import type { Pool } from '../../../pool/pool.ts';
import {
  type Address,
  Batch,
  NULL_ADDRESS,
  type Operation,
  Scratch,
} from '../../../verbs/index.ts';
import { backOff } from '../../substrates/backoff.ts';
import type { ClaimRetry } from '../../substrates/claims/claimed-slots.ts';
import type { Techniques } from '../../substrates/parameters.ts';
import type { RecordIo } from '../../substrates/record-io.ts';
import type { ShardTechnique } from '../parameters.ts';
import { type PartitionDirectory, refuseEndless } from '../partitions/partition-directory.ts';

import { hashOfPlace, LEVEL_OF_PLACE, NODE_BYTES, PLACES, type ShardGeometry } from './geometry.ts';
import { ShardRequest } from './request.ts';
import { nameAfter, ROOT_BYTES, type RootName, Segments } from './segments.ts';

/** Why an operation had to begin again. */
export type RetryReason =
  | ClaimRetry
  | 'staleVersion' // the table has been resized since this client looked
  | 'staleBucket' // a bucket of the key had not been moved to this version yet
  | 'chainExtended' // no empty slot: a chain node was added
  | 'otherCarrier'; // another of the combined writes turned out to be the last

/** A client takes over another's claimed resize after this many synchronisations. */
export const CLAIM_PATIENCE = 8;

/** Tables whose roots are read in one doorbell. */
const ROOTS_AT_ONCE = 32;

/** The parts of a client's handle that all tables of an index share. */
export interface SharedParts {
  readonly pool: Pool;
  readonly catalog: number;
  readonly geometry: ShardGeometry;
  readonly records: RecordIo;
  readonly techniques: Techniques<ShardTechnique>;
  readonly directory: PartitionDirectory;
}

/** One client's handle of a SHARD table: of one partition of an index. */
export class ShardTable {
  readonly geometry: ShardGeometry;
  readonly directory: PartitionDirectory;
  readonly partition: number;
  readonly records: RecordIo;
  readonly pool: Pool;
  readonly catalog: number;
  readonly techniques: Techniques<ShardTechnique>;
  readonly retries: Record<RetryReason, number> = {
    staleVersion: 0,
    staleBucket: 0,
    slotChanged: 0,
    pendingKey: 0,
    withdrawn: 0,
    chainExtended: 0,
    otherCarrier: 0,
  };
  /**
   * An inserter polls an earlier claim of its key this often, at this interval, before it assumes
   * that the claimer is slow or dead. So does a client that waits for a mover.
   */
  patience = { polls: 40, microseconds: 50 };
  /** Moves that are not in use. Only move-bucket.ts, which imports this file, knows their class. */
  readonly idleMoves: object[] = [];
  resizes = 0;
  bucketsMoved = 0;
  /** Resizes that this client was to make, and for which the pool had no room. */
  postponed = 0;
  /** New buckets that this client has relocated, because their mover was slow or died. */
  relocated = 0;
  /** Segments that were put on another memory node than the table's, because that one was full. */
  displaced = 0;
  /** Overflow bits that this client has cleared, and chain nodes that it has freed. */
  readonly reclaimed = { cleared: 0, nodes: 0 };

  /** Insertions less removals that this client has not reported yet, and the reported total. */
  unreported = 0;
  reported = 0;
  /** Writes since the last synchronisation, and after how many the next is due: see resize.ts. */
  writes = 0;
  syncEvery = 1;
  /** Whether an insertion has needed a new chain node since the last synchronisation. */
  crowded = false;
  /** Whether this client has made the last resize, and not cleared overflow bits after it. */
  isClearingDue = false;
  /** Synchronisations that have met another client's unfinished claim of a resize. */
  claimsSeen = 0;
  /** After how many of them this client takes the resize over. */
  claimPatience = CLAIM_PATIENCE;

  #segments: Segments;

  constructor(shared: SharedParts, partition: number, segments: Segments) {
    const { pool, geometry, records, catalog, techniques, directory } = shared;
    this.directory = directory;
    this.pool = pool;
    this.geometry = geometry;
    this.records = records;
    this.catalog = catalog;
    this.techniques = techniques;
    this.partition = partition;
    this.#segments = segments;
  }

  /** What this client knows of the table; another object after a migration. */
  get segments(): Segments {
    return this.#segments;
  }

  /** Reads the root, and follows the table if it has left for another root. */
  *load(): Operation<void> {
    const segments = this.#segments;
    this.reported = yield* segments.load();
    if (segments.successor !== NULL_ADDRESS) yield* this.#follow(segments);
  }

  /** `load` for many tables, with ROOTS_AT_ONCE roots in a doorbell. */
  static *loadAll(tables: readonly ShardTable[]): Operation<void> {
    for (let first = 0; first < tables.length; first += ROOTS_AT_ONCE) {
      const some = tables.slice(first, first + ROOTS_AT_ONCE);
      const known = some.map((table) => table.#segments);
      const words = new Scratch(ROOT_BYTES * some.length);
      const batch = new Batch();
      for (const [i, segments] of known.entries()) segments.postLoad(batch, words, ROOT_BYTES * i);
      yield batch;
      for (let i = 0; i < some.length; i++) {
        some[i].reported = yield* known[i].noteLoad(words, ROOT_BYTES * i);
      }
    }
    for (const table of tables) {
      const { successor } = table.#segments;
      if (successor !== NULL_ADDRESS) yield* table.#follow(table.#segments);
    }
  }

  /** Reports this many more records and does what `load` does, in one doorbell. */
  *report(records: number): Operation<number> {
    const segments = this.#segments;
    const reported = yield* segments.report(records);
    if (segments.successor === NULL_ADDRESS) return reported;
    // The report went to a root that the table has left.
    yield* this.#follow(segments);
    return yield* this.#segments.report(records);
  }

  *#follow(left: Segments): Operation<void> {
    let hops = 0;
    for (let from = left; from.successor !== NULL_ADDRESS; from = this.#segments) {
      refuseEndless(++hops, `the roots of partition ${this.partition}`);
      const name = nameAfter(from.name, 1, from.successor);
      const next = new Segments(name, this.geometry, from);
      this.reported = yield* next.load();
      // Unless another operation of this client was faster.
      if (this.#segments === from) this.#segments = next;
    }
  }

  /** Uses the root that the directory names now: cached addresses may be out of date. */
  *reload(name: RootName): Operation<void> {
    if (name === this.#segments.name) return yield* this.load();
    const segments = new Segments(name, this.geometry);
    this.reported = yield* segments.load();
    const { name: known, version } = this.#segments;
    // Another operation of this client may have done the same, and know more segments. Operations
    // that rely on those must not lose them.
    if (known !== name || version < segments.version) this.#segments = segments;
    const current = this.#segments;
    if (current.successor !== NULL_ADDRESS) yield* this.#follow(current);
  }

  /** The memory node that the table is on, or is being migrated to. */
  get node(): number {
    return this.pool.layout.nodeOf(this.#segments.addresses[0]);
  }

  get allocator(): Allocator {
    return this.pool.allocator;
  }

  newRequest(): ShardRequest {
    return new ShardRequest(this.geometry);
  }

  /** Notes which bucket the key has at this place, at the request's version, and where it is. */
  locateBucket(request: ShardRequest, place: number): void {
    const bucket = this.geometry.bucketOf(hashOfPlace(request.hash, place), request.version);
    const segments = request.segments as Segments;
    request.buckets[place] = bucket;
    request.addresses[place] = segments.bucketAddress(LEVEL_OF_PLACE[place], bucket);
  }

  /** Address in the pool of the slot at `at` of the request's words. */
  slotAddress(request: ShardRequest, slot: number): Address {
    const { at, addresses, nodes, nodesAt } = request;
    if (slot >= nodesAt) {
      const node = Math.floor((slot - nodesAt) / NODE_BYTES);
      return (nodes[node] ?? NULL_ADDRESS) + ((slot - nodesAt) % NODE_BYTES);
    }
    const place = this.placeOf(request, slot);
    return addresses[place] + (slot - at[place]);
  }

  /** The place whose bucket the slot at `slot` of the request's words is in; no chain node. */
  placeOf({ at }: ShardRequest, slot: number): number {
    let place = PLACES - 1;
    while (slot < at[place]) place--;
    return place;
  }

  /** Counts a retry, and backs off when conflicts persist. Bounded. */
  retry(request: ShardRequest, reason: RetryReason, attempt: number): Operation<void> {
    return backOff(this.retries, request, reason, attempt);
  }
}
