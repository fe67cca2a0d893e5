import { invariant } from '../../errors.ts';
import type { Pool } from '../../pool/pool.ts';
import { type Address, type Batch, highHalf, lowHalf, type Operation } from '../../verbs/index.ts';
import type {
  CheckSink,
  Condition,
  Counters,
  Index,
  IndexKind,
  IndexManifest,
  IndexParameters,
  IndexShape,
  Outcome,
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
import { Directory } from '../substrates/directory.ts';
import type { Proof } from '../substrates/proof.ts';
import { RecordIo } from '../substrates/record-io.ts';
import { slotAddress } from './buckets.ts';
import { checkTable } from './check.ts';
import { fingerprintOf, RaceGeometry, type RaceShape, raceShape } from './geometry.ts';
import { insert, RaceSlots } from './insert.ts';
import { eachBucket, paint, RaceParts, sampleRecords, shapeOf } from './parts.ts';
import type { RaceRequest } from './request.ts';
import { locate, search, searchMany } from './search.ts';
import { RACE_SLOTS } from './slot.ts';
import { allocateSubtable, writeSubtable } from './split.ts';
import { RaceTable } from './table.ts';

export const RACE_MANIFEST: IndexManifest = {
  name: 'race',
  ordered: false,
  orderedWalk: false,
  onlineResize: true,
  resizes: ['splits', 'doublings'],
  proves: true,
};

/** The RACE hash index (ACM TOS 18(2), 2022) behind the index contract. */
export class RaceIndex extends ClientIndex<RaceRequest, RaceTable> implements Index {
  readonly manifest = RACE_MANIFEST;
  readonly table: RaceTable;

  readonly slots: RaceSlots;
  readonly #protocol: SlotProtocol<RaceRequest>;

  constructor(table: RaceTable) {
    super(table, () => [table.geometry.subtableUnits]);
    this.table = table;
    this.slots = new RaceSlots(table);
    const { slots } = this;
    this.#protocol = {
      records: table.records,
      locate: (request) => locate(table, request),
      insert: (request, attempt) => insert(slots, request, attempt),
      replace: (request, attempt) => replaceSlot(slots, request, attempt),
      vacate: (request, attempt) => vacateSlot(slots, request, attempt),
    };
  }

  get counters(): Counters {
    const { retries, splits, doublings } = this.table;
    return { ...retries, splits, doublings };
  }

  search(request: RaceRequest): Operation<boolean> {
    request.fingerprint = fingerprintOf(request.hash.h1);
    return search(this.table, request);
  }

  searchMany(
    requests: readonly RaceRequest[],
    count: number,
    batch: Batch,
    found: boolean[],
  ): Operation<void> {
    for (let i = 0; i < count; i++) requests[i].fingerprint = fingerprintOf(requests[i].hash.h1);
    return searchMany(this.table, requests, count, batch, found);
  }

  /**
   * The slot's word alone: while it stands there no other record is the key's, as in a search. A
   * slot that is frozen is cleared before the key's new slot may be changed. Subtables stay.
   */
  prove(request: RaceRequest, proof: Proof): boolean {
    const { slotAt, words } = request;
    const slot = slotAddress(this.table, request, slotAt);
    proof.begin(slot, lowHalf(words, slotAt), highHalf(words, slotAt));
    proof.addRecord(request);
    return true;
  }

  proveWritten(request: RaceRequest, proof: Proof): boolean {
    if (!request.displaced) return false;
    beginWritten(request, slotAddress(this.table, request, request.slotAt), proof);
    return true;
  }

  shape(): Operation<IndexShape> {
    return shapeOf(this.table);
  }

  picture(partsMax: number): Operation<IndexPicture> {
    return paint(this.table, partsMax);
  }

  parts(cursor = 0): RaceParts {
    return new RaceParts(this.table, cursor);
  }

  sample(
    request: RaceRequest,
    places: readonly number[],
    enough: number,
    visit: (request: RaceRequest, keyBytes: number) => void,
  ): Operation<void> {
    return sampleRecords(this.table, request, places, enough, visit);
  }

  check(sink: CheckSink): Operation<number> {
    return checkTable(this.table, sink);
  }

  compact(grace: () => Operation<boolean>): Operation<number> {
    return compact(this.table, grace);
  }

  write(request: RaceRequest, condition: Condition, expected = 0): Operation<Outcome> {
    request.fingerprint = fingerprintOf(request.hash.h1);
    return writeSlot(this.#protocol, request, condition, expected);
  }

  remove(request: RaceRequest, expected?: number): Operation<boolean> {
    request.fingerprint = fingerprintOf(request.hash.h1);
    return removeSlot(this.#protocol, request, expected);
  }

  modify(request: RaceRequest, compute: (present: boolean) => void): Operation<Outcome> {
    request.fingerprint = fingerprintOf(request.hash.h1);
    return modifySlot(this.#protocol, request, compute);
  }
}

/** Behind a bucket's header. */
const SLOTS_AT = 8;

/**
 * Withdraws the claims that dead clients have left: their records pin chunks of a full pool until
 * the claims' buckets are split. Returns how many there were.
 */
function compact(table: RaceTable, grace: () => Operation<boolean>): Operation<number> {
  return withdrawAbandoned((visit) => eachClaim(table, visit), RACE_SLOTS, grace);
}

/** Visits claims in buckets that are not being split: a mover drops the claims it has frozen. */
function eachClaim(table: RaceTable, visit: Parameters<EachClaim>[0]): Operation<void> {
  const { geometry } = table;
  const { associativity } = geometry.shape;
  return eachBucket(table, (words, at, subtable, bucket) => {
    const slots = geometry.bucketAddress(subtable, bucket) + SLOTS_AT;
    visitClaims(RACE_SLOTS, words, at + SLOTS_AT, associativity, slots, visit);
  });
}

/** Allocates and fills an empty table; returns its root for the catalog. */
export function* buildRace(pool: Pool, shape: RaceShape, catalog: number): Operation<Address> {
  const geometry = new RaceGeometry(shape);
  const subtables: Address[] = [];
  for (let suffix = 0; suffix < 2 ** shape.initialDepth; suffix++) {
    const address = yield* allocateSubtable(pool.allocator, catalog, geometry);
    const identity = { parent: 0, suffix, depth: shape.initialDepth, ready: true };
    yield* writeSubtable(geometry, address, identity);
    subtables.push(address);
  }
  return yield* Directory.build(pool, catalog, shape, subtables);
}

export function* openRace(
  pool: Pool,
  shape: RaceShape,
  catalog: number,
  root: Address,
): Operation<RaceIndex> {
  invariant(root > 0, 'a store without a root');
  const directory = yield* Directory.open(root, shape, pool.chunks);
  const records = new RecordIo(pool, catalog, shape.seed);
  return new RaceIndex(
    new RaceTable(new RaceGeometry(shape), directory, records, pool.allocator, catalog),
  );
}

/** RACE as a store's index. */
export const RACE: IndexKind = {
  manifest: RACE_MANIFEST,
  parameterNames: ['associativity', 'groups', 'initialDepth', 'maxDepth', 'seed'],
  flags: [],
  parameters: (wishes, poolBytes, seed) => ({ ...raceShape(wishes, poolBytes, seed) }),
  create: (pool, parameters, catalog) => buildRace(pool, shapeFrom(parameters), catalog),
  open: (pool, parameters, catalog, root) => openRace(pool, shapeFrom(parameters), catalog, root),
};

export function shapeFrom(parameters: IndexParameters): RaceShape {
  const { associativity, groups, initialDepth, maxDepth, seed } = parameters;
  return { associativity, groups, initialDepth, maxDepth, seed };
}
