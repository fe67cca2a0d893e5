import { StepwellError } from '../../../errors.ts';
import type { Reclamation } from '../../../pool/clients/reclamation.ts';
import type { RepairPool } from '../../../pool/intents/repair.ts';
import type { Allocator } from '../../../pool/memory/allocator.ts';
import type { Pool } from '../../../pool/pool.ts';
import type { Address, Operation, Scratch } from '../../../verbs/index.ts';
import { RecordIo } from '../record-io.ts';
import { EntrySums } from './entry.ts';
import type { LeafGeometry, LeafShape } from './layout.ts';
import { LeafRequest } from './leaf-request.ts';
import { LeafTurns } from './leaf-turns.ts';

/** Why an operation had to begin again. */
export type LeafRetry =
  | 'otherLeaf' // what the client remembers led to a leaf that is not the key's
  | 'changing' // the leaf was changed while it was read
  | 'locked' // another client holds the leaf's lock
  | 'itemChanged' // the item is not the one that the new value was computed from
  | 'noSlot' // this client's operations hold all of its intent slots
  | 'leafFull' // no room in the neighbourhood: the leaf was split
  | 'otherCarrier'; // of writes that were merged another one turned out to be the last

/** Attempts that meet others in a row: with their pauses, about a second. */
const ATTEMPTS_MAX = 500;

/** What a client can do without. Clients of one index need not agree. */
export interface Techniques {
  /** Operations of this client on one key share verbs; see delegation.ts. */
  delegation: boolean;
}

/**
 * One client's handle of an index whose items are in hopscotch leaves. Indexes differ in how they
 * find a key's leaf, in what a leaf's bounds say, and in how they share a full leaf out.
 */
export abstract class LeafClient<S extends LeafShape = LeafShape> {
  readonly geometry: LeafGeometry<S>;
  readonly sums: EntrySums;
  readonly records: RecordIo;
  readonly allocator: Allocator;
  readonly reclamation: Reclamation;
  readonly pool: RepairPool;
  readonly catalog: number;
  readonly turns = new LeafTurns();
  readonly techniques: Techniques = { delegation: false };
  readonly retries: Record<LeafRetry, number> = {
    otherLeaf: 0,
    changing: 0,
    locked: 0,
    itemChanged: 0,
    noSlot: 0,
    leafFull: 0,
    otherCarrier: 0,
  };
  /**
   * How often a client tries a lock again at once, then how often and how long at a time it looks
   * whether the lock was released, before it asks whether the holder is still there.
   */
  patience = { spins: 4, polls: 40, microseconds: 50 };
  splits = 0;
  /** Insertions that moved other items. */
  hops = 0;

  constructor(geometry: LeafGeometry<S>, pool: Pool, catalog: number) {
    this.geometry = geometry;
    this.sums = new EntrySums(geometry.entryBytes);
    this.records = new RecordIo(pool, catalog);
    this.allocator = pool.allocator;
    this.reclamation = pool.reclamation;
    this.pool = pool;
    this.catalog = catalog;
  }

  /** Aims the request at its key's leaf, as far as this client knows: no verb. */
  abstract aim(request: LeafRequest): void;

  /** Whether the bounds in the request's image say that the leaf is the key's. */
  abstract owns(request: LeafRequest): boolean;

  /** The leaf is not the key's: learns which one is. */
  abstract redirect(request: LeafRequest, attempt: number): Operation<void>;

  /** Makes room for the request's key in its leaf, whose lock was released; the image shows it. */
  abstract makeRoom(request: LeafRequest): Operation<void>;

  /** Whether the locked leaf may be split now, as its bounds in the image say. */
  abstract maySplit(request: LeafRequest): boolean;

  /** Of a leaf that is split: whether the item at `entry` of the image goes to the sibling. */
  abstract isUpper(request: LeafRequest, entry: number): boolean;

  /** Puts the bounds of both halves where they are to be written. */
  abstract writeBounds(
    request: LeafRequest,
    sibling: Address,
    lower: { memory: Scratch; at: number },
    upper: { memory: Scratch; at: number },
  ): void;

  newRequest(): LeafRequest {
    return new LeafRequest(this.geometry);
  }

  /** Counts a retry. Bounded. */
  count(reason: LeafRetry, attempt: number): void {
    this.retries[reason]++;
    if (attempt < ATTEMPTS_MAX) return;
    const reasons = JSON.stringify(this.retries);
    throw new StepwellError('SW_CONTENTION', `gave up after ${attempt} attempts: ${reasons}`);
  }
}
