import { invariant } from '../../errors.ts';
import { BLOCK_UNITS_MAX } from '../../pool/layout.ts';
import type { Pool } from '../../pool/pool.ts';
import { type Address, type Batch, highHalf, lowHalf, type Operation } from '../../verbs/index.ts';
import {
  type CheckSink,
  type ClientSettings,
  type Condition,
  type Counters,
  type IndexKind,
  type IndexManifest,
  type IndexShape,
  type NodePlacement,
  type Outcome,
  type PlacedIndex,
  REFUSED,
} from '../contract.ts';
import type { IndexPicture } from '../picture.ts';
import {
  type EachClaim,
  visitClaims,
  withdrawAbandoned,
} from '../substrates/claims/abandoned-claims.ts';
import { beginWritten, replaceSlot, vacateSlot } from '../substrates/claims/change-slot.ts';
import {
  modifySlot,
  removeSlot,
  type SlotProtocol,
  writeSlot,
} from '../substrates/claims/slot-operations.ts';
import { ClientIndex } from '../substrates/client-index.ts';
import { LockTable, type PlannedWrite } from '../substrates/delegation.ts';
import type { Proof } from '../substrates/proof.ts';
import { writeTogether } from '../substrates/write-combining.ts';
import { checkTables } from './check.ts';
import { eachBucket } from './each-bucket.ts';
import { insert, ShardSlots } from './operations/insert.ts';
import { locate, search, searchMany } from './operations/search.ts';
import { closeEmptyChains } from './overflow.ts';
import { SHARD_PARAMETER_NAMES, type ShardShape, shardShape } from './parameters.ts';
import { placementOf } from './partitions/migration.ts';
import { Partitions } from './partitions/partitions.ts';
import { paint, ShardParts, sampleRecords, shapeOf } from './parts.ts';
import { recordsChanged, recount } from './resizing/resize.ts';
import type { ShardRequest } from './table/request.ts';
import { FROZEN, SHARD_SLOTS } from './table/slot.ts';
import type { ShardTable } from './table/table.ts';

const SHARD_MANIFEST: IndexManifest = {
  name: 'shard',
  ordered: false,
  orderedWalk: false,
  onlineResize: true,
  resizes: ['resizes', 'postponed', 'bucketsMoved'],
  delegation: true,
  placed: true,
  proves: true,
};

/** The SHARD hash index (PVLDB 19(4), 2025) behind the index contract. */
export class ShardIndex extends ClientIndex<ShardRequest, ShardTable> implements PlacedIndex {
  readonly manifest = SHARD_MANIFEST;
  readonly partitions: Partitions;
  /** The first table; the only one with a single memory node. */
  readonly table: ShardTable;
  readonly placement: NodePlacement;
  readonly #slots: readonly ShardSlots[];
  readonly #protocol: SlotProtocol<ShardRequest>;
  readonly #locks = new LockTable<ShardRequest>();
  #delegates = false;

  constructor(partitions: Partitions) {
    const [table] = partitions.tables;
    super(table, () => tableUnits(partitions));
    this.partitions = partitions;
    this.table = table;
    this.placement = placementOf(partitions);
    this.#slots = partitions.tables.map((one) => new ShardSlots(one));
    this.#protocol = {
      records: this.table.records,
      locate: (request) => locate(partitions.tableOf(request), request),
      insert: (request, attempt) => insert(this.slotsOf(request), request, attempt),
      replace: (request, attempt) => replaceSlot(this.slotsOf(request), request, attempt),
      vacate: (request, attempt) => vacateSlot(this.slotsOf(request), request, attempt),
    };
  }

  /** The slots of the table that holds the request's key. */
  slotsOf(request: ShardRequest): ShardSlots {
    return this.#slots[this.partitions.tableOf(request).partition];
  }

  get counters(): Counters {
    const sums: Record<string, number> = {};
    for (const { retries, resizes, postponed, bucketsMoved } of this.partitions.tables) {
      const counters = { ...retries, resizes, postponed, bucketsMoved };
      for (const [name, count] of Object.entries(counters)) sums[name] = (sums[name] ?? 0) + count;
    }
    return sums;
  }

  configure({ delegation }: ClientSettings): void {
    this.#delegates = delegation ?? this.#delegates;
  }

  /** Begins an operation on a key. Looks the tables up again if any has been migrated. */
  *#begin(request: ShardRequest): Operation<ShardTable> {
    if (!this.partitions.isCurrent) yield* this.partitions.refresh();
    request.begin();
    return this.partitions.tableOf(request);
  }

  *search(request: ShardRequest): Operation<boolean> {
    const table = yield* this.#begin(request);
    if (!this.#delegates) return yield* search(table, request);
    return yield* this.#locks.search(request, (one) => search(table, one));
  }

  *searchMany(
    requests: readonly ShardRequest[],
    count: number,
    batch: Batch,
    found: boolean[],
  ): Operation<void> {
    const { partitions } = this;
    for (let i = 0; i < count; i++) yield* this.#begin(requests[i]);
    yield* searchMany((one) => partitions.tableOf(one), requests, count, batch, found);
  }

  /**
   * An entry that is not frozen is the key's current one: movers freeze an entry before its bucket
   * moves. Entries in chain nodes prove nothing, because chain nodes are freed without being
   * frozen. The old tables of a migration are, too: see `proofEra`.
   */
  prove(request: ShardRequest, proof: Proof): boolean {
    const { nodesAt, slotAt, words } = request;
    const high = highHalf(words, slotAt);
    if (slotAt >= nodesAt || (high & FROZEN) !== 0) return false;
    proof.begin(this.#slotOf(request), lowHalf(words, slotAt), high);
    proof.addRecord(request);
    return true;
  }

  proveWritten(request: ShardRequest, proof: Proof): boolean {
    if (!request.displaced || request.slotAt >= request.nodesAt) return false;
    beginWritten(request, this.#slotOf(request), proof);
    return true;
  }

  #slotOf(request: ShardRequest): Address {
    return this.partitions.tableOf(request).slotAddress(request, request.slotAt);
  }

  /** The number of migrations, if this client's tables are current; else -1. */
  get proofEra(): number {
    const { isCurrent, pool } = this.partitions;
    return isCurrent ? pool.reclamation.migrations : -1;
  }

  *write(request: ShardRequest, condition: Condition, expected = 0): Operation<Outcome> {
    yield* this.#begin(request);
    if (!this.#delegates) return yield* this.#write(request, condition, expected);
    const write: PlannedWrite<ShardRequest> = { request, condition, expected };
    return yield* this.#locks.write(write, (group) => this.#writeTogether(group));
  }

  *#write(request: ShardRequest, condition: Condition, expected: number): Operation<Outcome> {
    const outcome = yield* writeSlot(this.#protocol, request, condition, expected);
    if (outcome !== REFUSED && !request.displaced) yield* this.#recordsChanged(request, 1);
    return outcome;
  }

  #recordsChanged(request: ShardRequest, difference: number): Operation<void> {
    return recordsChanged(this.partitions.tableOf(request), difference);
  }

  *#writeTogether(group: readonly PlannedWrite<ShardRequest>[]): Operation<void> {
    // All writes of a group are to one key.
    const [{ request }] = group;
    const table = this.partitions.tableOf(request);
    yield* writeTogether(this.#protocol, group, (one, attempt) =>
      table.retry(one, 'otherCarrier', attempt),
    );
    const stored = group.some(({ outcome }) => outcome !== REFUSED);
    const displaced = group.some((write) => write.request.displaced);
    if (stored && !displaced) yield* this.#recordsChanged(request, 1);
  }

  *remove(request: ShardRequest, expected?: number): Operation<boolean> {
    yield* this.#begin(request);
    return yield* this.#inTurn(request, () => this.#remove(request, expected));
  }

  *#remove(request: ShardRequest, expected: number | undefined): Operation<boolean> {
    const removed = yield* removeSlot(this.#protocol, request, expected);
    // Also counts an expired record, for which the call returns false.
    if (request.displaced) yield* this.#recordsChanged(request, -1);
    return removed;
  }

  *modify(request: ShardRequest, compute: (present: boolean) => void): Operation<Outcome> {
    yield* this.#begin(request);
    return yield* this.#inTurn(request, () => this.#modify(request, compute));
  }

  *#modify(request: ShardRequest, compute: (present: boolean) => void): Operation<Outcome> {
    const outcome = yield* modifySlot(this.#protocol, request, compute);
    if (outcome !== REFUSED && !request.displaced) yield* this.#recordsChanged(request, 1);
    return outcome;
  }

  #inTurn<T>(request: ShardRequest, write: () => Operation<T>): Operation<T> {
    return this.#delegates ? this.#locks.inTurn(request, write) : write();
  }

  *shape(): Operation<IndexShape> {
    yield* this.partitions.refresh();
    return yield* shapeOf(this.partitions);
  }

  picture(partsMax: number): Operation<IndexPicture> {
    return paint(this.partitions, partsMax);
  }

  parts(cursor = 0, whole = false): ShardParts {
    return new ShardParts(this.partitions, cursor, whole);
  }

  *sample(
    request: ShardRequest,
    places: readonly number[],
    enough: number,
    visit: (request: ShardRequest, keyBytes: number) => void,
  ): Operation<void> {
    const { partitions } = this;
    if (!partitions.isCurrent) yield* partitions.refresh();
    yield* sampleRecords(partitions, request, places, enough, visit);
  }

  *check(sink: CheckSink): Operation<number> {
    yield* this.partitions.refresh();
    return yield* checkTables(this.partitions, sink);
  }

  compact(grace: () => Operation<boolean>): Operation<number> {
    return compact(this.partitions, grace);
  }
}

/** Omits roots and piece lists, because most blocks of their sizes are records. */
function tableUnits({ geometry, tables }: Partitions): number[] {
  const version = Math.max(...tables.map(({ segments }) => segments.version));
  const units = new Set<number>();
  for (let segment = 0; segment <= version; segment++) {
    units.add(geometry.pieceUnits(geometry.firstPiece(segment)));
  }
  return [...units].filter((each) => each <= BLOCK_UNITS_MAX);
}

export function* openShard(
  pool: Pool,
  shape: ShardShape,
  catalog: number,
  root: Address,
): Operation<ShardIndex> {
  invariant(root > 0, 'a store without a root');
  return new ShardIndex(yield* Partitions.open(pool, shape, catalog, root));
}

/** SHARD as a store's index. */
export const SHARD: IndexKind = {
  manifest: SHARD_MANIFEST,
  parameterNames: SHARD_PARAMETER_NAMES,
  flags: [],
  parameters: shardShape,
  create: (pool, shape, catalog) => Partitions.build(pool, shape as ShardShape, catalog),
  open: (pool, shape, catalog, root) => openShard(pool, shape as ShardShape, catalog, root),
};

/**
 * Frees what pins chunks of a full pool but serves no key: claims of dead clients, with their
 * records, and empty chains of level 3. Otherwise a claim stays until its bucket moves, and an
 * empty chain until the next resize closes it; but a full pool has no room for a resize.
 *
 * Claims go first, because a chain with a claim is not empty. A chain may be closed while other
 * clients insert, and this client may die at any step: see overflow.ts. Also recounts the records
 * of each table, because dead clients have not reported all changes. Returns how many claims and
 * chain nodes it freed.
 */
function* compact(partitions: Partitions, grace: () => Operation<boolean>): Operation<number> {
  const each: EachClaim = (visit) => eachClaim(partitions, visit);
  let changed = yield* withdrawAbandoned(each, SHARD_SLOTS, grace);
  for (const table of partitions.tables) {
    // A table in migration shares its chains with its former segments.
    if (table.segments.former !== undefined) continue;
    changed += yield* closeEmptyChains(table);
    yield* recount(table);
  }
  return changed;
}

/** Visits all claims except frozen ones, which their movers drop. */
function* eachClaim(partitions: Partitions, visit: Parameters<EachClaim>[0]): Operation<void> {
  // A table may have been migrated in the grace period, and its old memory reused.
  yield* partitions.refresh();
  for (const table of partitions.tables) {
    yield* eachBucket(table, ({ words, at, entries, address }) => {
      visitClaims(SHARD_SLOTS, words, at, entries, address, visit);
    });
  }
}
