import { StepwellError } from '../../../errors.ts';
import type { Reclamation } from '../../../pool/clients/reclamation.ts';
import type { Allocator } from '../../../pool/memory/allocator.ts';
import type { Pool } from '../../../pool/pool.ts';
import type { Address, Batch, Operation, Scratch } from '../../../verbs/index.ts';
import { lookForChange } from '../backoff.ts';
import { RecordIo } from '../record-io.ts';
import { EntrySums } from './entry.ts';
import { HopPath } from './hop-path.ts';
import { Hotspots } from './hotspots.ts';
import { IDENTITY_AT, type LeafGeometry, type LeafShape } from './layout.ts';
import { IMAGE_AT, type LeafRequest } from './leaf-request.ts';
import { LeafTurns } from './leaf-turns.ts';

/** Why an operation had to begin again. */
export type LeafRetry =
  | 'otherLeaf' // the client's cache led to a leaf that is not the key's
  | 'changing' // the leaf was changed while it was read
  | 'locked' // another client holds the leaf's lock
  | 'itemChanged' // the item is not the one that the new value was computed from
  | 'noSlot' // this client's operations hold all of its intent slots
  | 'leafFull'; // no room in the neighbourhood: the leaf was split

/** Attempts in a row that meet other clients' changes. Waiting for a lock holder does not count. */
const ATTEMPTS_MAX = 500;
/** Default of `lockTimeoutMs`. */
const LOCK_TIMEOUT_MS = 1000;

/** Whether a leaf is the key's, as far as the words that were read tell. */
export type Ownership = typeof OWNED | typeof NOT_OWNED | typeof UNKNOWN;
export const OWNED = 1;
export const NOT_OWNED = 0;
/** More has to be read: see `LeafClient.learnBounds`. */
export const UNKNOWN = 2;

/** Where to write bounds. */
export interface BoundsPlace {
  memory: Scratch;
  at: number;
}

/**
 * One client's handle of an index whose items are in hopscotch leaves. Indexes differ in how they
 * find a key's leaf, in what a leaf's bounds mean, and in how they divide a full leaf.
 */
export abstract class LeafClient<
  S extends LeafShape = LeafShape,
  R extends LeafRequest = LeafRequest,
> {
  readonly geometry: LeafGeometry<S>;
  readonly sums: EntrySums;
  readonly records: RecordIo;
  readonly allocator: Allocator;
  readonly reclamation: Reclamation;
  readonly pool: Pool;
  readonly catalog: number;
  readonly turns: LeafTurns<LeafRequest>;
  /** Spare images for siblings of splits. */
  readonly spareImages: Scratch[] = [];
  readonly missProof = new MissProof();
  readonly hopPath: HopPath;
  /** Where the keys are that this client searches for most often. */
  hotspots = new Hotspots(0);
  readonly retries: Record<LeafRetry, number> = {
    otherLeaf: 0,
    changing: 0,
    locked: 0,
    itemChanged: 0,
    noSlot: 0,
    leafFull: 0,
  };
  /**
   * How a client waits for a lock: it tries again `spins` times at once, then polls `polls` times,
   * `microseconds` apart, and then checks whether the holder is still alive.
   */
  patience = { spins: 4, polls: 40, microseconds: 50 };
  /** Milliseconds for which an operation waits for the same lock holder before it gives up. */
  lockTimeoutMs = LOCK_TIMEOUT_MS;
  splits = 0;
  /** Insertions that moved other items. */
  hops = 0;
  /** Changes that another operation of this client has made along with its own. */
  combined = 0;

  constructor(geometry: LeafGeometry<S>, pool: Pool, catalog: number) {
    this.geometry = geometry;
    this.sums = new EntrySums(geometry.itemBytes);
    this.hopPath = new HopPath(geometry);
    this.records = new RecordIo(pool, catalog, geometry.shape.seed);
    this.allocator = pool.allocator;
    this.reclamation = pool.reclamation;
    this.pool = pool;
    this.catalog = catalog;
    // Twice as long: the operation at the leaf gives up first, and tells the others why.
    this.turns = new LeafTurns(
      () => pool.timer.now(),
      () => 2 * this.lockTimeoutMs,
    );
  }

  /**
   * Points the request at its key's leaf, as this client knows it, without a verb. False if it
   * knows none: see `reach`.
   */
  abstract aim(request: R): boolean;

  /** As `aim`, but reads what this client does not know. */
  abstract reach(request: R): Operation<void>;

  /**
   * Whether the bounds in the request's image, or a replica of them, say that its leaf is the
   * key's.
   */
  abstract owns(request: R): Ownership;

  /** Reads what `owns` lacks, or makes the next READs include it. */
  abstract learnBounds(request: R): Operation<void>;

  /**
   * The leaf is not the key's, or no longer a leaf: finds the right one and points the request at
   * it.
   */
  abstract redirect(request: R, attempt: number): Operation<void>;

  /**
   * Points the request at the leaf at `place`, a fraction in [0, 1) of the index; returns the
   * fraction within the leaf. The leaf may have been replaced since this client learnt of it.
   */
  abstract aimAtPlace(request: R, place: number): Operation<number>;

  /** Whether the leaf still covers what `aimAtPlace` assumed, by its header in the image. */
  abstract isAsAimed(request: R): boolean;

  /** Updates this client's cache for the leaf, because it is out of date. */
  abstract relearn(request: R): Operation<void>;

  /**
   * Makes room for the request's new key in its leaf, which is locked and full; then it is not
   * locked any more. True when the item was put there, too.
   */
  abstract makeRoom(request: R): Operation<boolean>;

  /** Whether the locked leaf may be split now, by its bounds in the image. */
  abstract maySplit(request: R): boolean;

  /** Adds the READs for what follows a split to a batch in front of it. */
  abstract postAhead(request: R, batch: Batch): void;

  /** Allocates what a split needs besides the sibling, before the lock. */
  abstract prepareSplit(request: R): Operation<void>;

  /**
   * Sets `request.upper`: which items of the locked leaf go to the sibling. False if the split must
   * be prepared again.
   */
  abstract divide(request: R): Operation<boolean>;

  /** Whether the request's key goes to the sibling of its leaf, which was divided. */
  abstract isUpper(request: R): boolean;

  /**
   * Writes the bounds of both halves into the given places, and adds the WRITEs of data that the
   * bounds point to. Replicas copy the first word of the bounds.
   */
  abstract writeBounds(
    request: R,
    sibling: Address,
    tag: number,
    lower: BoundsPlace,
    upper: BoundsPlace,
  ): void;

  /** Adds the WRITEs of data that the bounds of a split's halves point to. */
  abstract postBounds(request: R, batch: Batch): void;

  /** Frees what a split did not need. */
  abstract endSplit(request: R): void;

  /** A new tag, which distinguishes this use of a block from earlier ones. */
  abstract newTag(): number;

  abstract newRequest(): R;

  /** The entry in which the request's key was last found in its leaf; or less than 0. */
  spotOf({ hash, idLow }: R): number {
    return this.hotspots.off ? -1 : this.hotspots.find(hash.h1, hash.h2, idLow);
  }

  /**
   * Notes the entry where the key was found, by its neighbourhood or, with `wasSpot`, by `spotOf`.
   */
  noteSpot({ hash, idLow }: R, entry: number, wasSpot: boolean): void {
    if (this.hotspots.off) return;
    if (wasSpot) this.hotspots.speculation.right++;
    else this.hotspots.note(hash.h1, hash.h2, idLow, entry);
  }

  /** Forgets the entry of a key that is absent. */
  forgetSpot({ hash }: R): void {
    this.hotspots.forget(hash.h1, hash.h2);
  }

  /** Begins an operation on a key: finds its leaf. */
  *begin(request: R): Operation<void> {
    if (!this.aim(request)) yield* this.reach(request);
  }

  /**
   * Counts a retry. After too many it raises SW_CONTENTION. It raises SW_POOL_CORRUPT if what the
   * request reads does not change, because then the leaf contradicts itself.
   */
  count(reason: LeafRetry, attempt: number, request: R): void {
    this.retries[reason]++;
    // Not the owner word, which every attempt to lock the leaf changes.
    lookForChange(request, reason, attempt, IMAGE_AT + IDENTITY_AT);
    if (attempt < ATTEMPTS_MAX) return;
    const reasons = JSON.stringify(this.retries);
    throw new StepwellError('SW_CONTENTION', `gave up after ${attempt} attempts: ${reasons}`);
  }
}

/** Share of misses from which on a search reads the proof of a miss at once. */
const MISSES_MAX = 1 / 8;
/** That share is averaged over this many searches. */
const SEARCHES = 64;

/**
 * Decides when a search reads the proof of a miss: the leaf's sequence and identity, before and
 * after the neighbourhood. A hit does not need it.
 *
 * If it is read only after the neighbourhood had no hit, a hit takes one READ instead of three, and
 * a miss two round trips instead of one. So while misses are many, it is read with the
 * neighbourhood.
 */
export class MissProof {
  /** A second round trip costs nothing, because the pool is in this machine's memory. */
  isFree = false;
  #misses = 0;

  get comesLate(): boolean {
    return this.isFree || this.#misses < MISSES_MAX;
  }

  /** Called after each search. */
  note(found: boolean): void {
    if (!this.isFree) this.#misses += ((found ? 0 : 1) - this.#misses) / SEARCHES;
  }
}
