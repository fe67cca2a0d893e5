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
import { MissProof } from './miss-proof.ts';

/** Why an operation had to begin again. */
export type LeafRetry =
  | 'otherLeaf' // what the client remembers led to a leaf that is not the key's
  | 'changing' // the leaf was changed while it was read
  | 'locked' // another client holds the leaf's lock
  | 'itemChanged' // the item is not the one that the new value was computed from
  | 'noSlot' // this client's operations hold all of its intent slots
  | 'leafFull'; // no room in the neighbourhood: the leaf was split

/** Attempts that meet changes by others in a row. Waiting for one lock holder is none of them. */
const ATTEMPTS_MAX = 500;
/** Default of `lockTimeoutMs`. */
const LOCK_TIMEOUT_MS = 1000;

/** Whether a leaf is the key's, as far as was read. */
export type Ownership = typeof OWNED | typeof NOT_OWNED | typeof UNKNOWN;
export const OWNED = 1;
export const NOT_OWNED = 0;
/** More has to be read: see `LeafClient.learnBounds`. */
export const UNKNOWN = 2;

/** Where bounds are to be written. */
export interface BoundsPlace {
  memory: Scratch;
  at: number;
}

/**
 * One client's handle of an index whose items are in hopscotch leaves. Indexes differ in how they
 * find a key's leaf, in what a leaf's bounds say, and in how they share a full leaf out.
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
  /** Local images of siblings, of splits that have ended. */
  readonly spareImages: Scratch[] = [];
  readonly missProof = new MissProof();
  readonly hopPath: HopPath;
  /** Where the keys stand that this client searches for most often. */
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
  /** Milliseconds after which an operation gives up waiting for one and the same lock holder. */
  lockTimeoutMs = LOCK_TIMEOUT_MS;
  splits = 0;
  /** Insertions that moved other items. */
  hops = 0;
  /** Changes that another operation of this client made with its own. */
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
    // The operation whose turn it is gives up first, and tells the others why.
    this.turns = new LeafTurns(
      () => pool.timer.now(),
      () => 2 * this.lockTimeoutMs,
    );
  }

  /**
   * Aims the request at its key's leaf, as far as this client knows, without a verb; false when it
   * does not know any: see `reach`.
   */
  abstract aim(request: R): boolean;

  /** As `aim`, but reads what this client does not know. */
  abstract reach(request: R): Operation<void>;

  /** Whether the bounds in the request's image, or a replica of them, say that the leaf is its. */
  abstract owns(request: R): Ownership;

  /** Reads what `owns` did not find, or has the next READs bring it. */
  abstract learnBounds(request: R): Operation<void>;

  /** The leaf is not the key's, or no leaf any more: learns which one is, and aims at it. */
  abstract redirect(request: R, attempt: number): Operation<void>;

  /**
   * Aims at the leaf at a place of [0, 1) of the index; returns the place in the leaf. The leaf may
   * have been replaced since this client learnt of it.
   */
  abstract aimAtPlace(request: R, place: number): Operation<number>;

  /** Whether the leaf at a place, as its header in the image says, is all that stands there. */
  abstract isAsAimed(request: R): boolean;

  /** Learns the leaf's place again, because what this client knows of it is too old. */
  abstract relearn(request: R): Operation<void>;

  /**
   * Makes room for the request's new key in its leaf, which is locked and full; then it is not
   * locked any more. True when the item was put there, too.
   */
  abstract makeRoom(request: R): Operation<boolean>;

  /** Whether the locked leaf may be split now, as its bounds in the image say. */
  abstract maySplit(request: R): boolean;

  /** Adds the READs for what follows a split to a batch in front of it. */
  abstract postAhead(request: R, batch: Batch): void;

  /** Claims what a split needs beside the sibling, before the lock. */
  abstract prepareSplit(request: R): Operation<void>;

  /**
   * Says in `request.upper` which items of the locked leaf go to the sibling. False when the split
   * has to be prepared again.
   */
  abstract divide(request: R): Operation<boolean>;

  /** Whether the request's key goes to the sibling of its leaf, which was divided. */
  abstract isUpper(request: R): boolean;

  /**
   * Puts the bounds of both halves where they are to be written, and adds the WRITEs of what hangs
   * on them. The first word of them is what replicas copy.
   */
  abstract writeBounds(
    request: R,
    sibling: Address,
    tag: number,
    lower: BoundsPlace,
    upper: BoundsPlace,
  ): void;

  /** Adds the WRITEs of what the bounds of a split's halves lead to. */
  abstract postBounds(request: R, batch: Batch): void;

  /** Gives back what a split did not need. */
  abstract endSplit(request: R): void;

  /** Tells a block's uses as a leaf from each other. */
  abstract newTag(): number;

  abstract newRequest(): R;

  /** The entry in which the key of the request, which is aimed, was last found; or less than 0. */
  spotOf({ hash, idLow }: R): number {
    return this.hotspots.off ? -1 : this.hotspots.find(hash.h1, hash.h2, idLow);
  }

  /** The key was found in an entry: by its neighbourhood, or where `spotOf` said. */
  noteSpot({ hash, idLow }: R, entry: number, wasSpot: boolean): void {
    if (this.hotspots.off) return;
    if (wasSpot) this.hotspots.speculation.right++;
    else this.hotspots.note(hash.h1, hash.h2, idLow, entry);
  }

  /** The key is absent: its next search need not begin where it was. */
  forgetSpot({ hash }: R): void {
    this.hotspots.forget(hash.h1, hash.h2);
  }

  /** The begin of an operation on a key. */
  *begin(request: R): Operation<void> {
    if (!this.aim(request)) yield* this.reach(request);
  }

  /**
   * Counts a retry. After too many it raises SW_CONTENTION. It raises SW_POOL_CORRUPT if no client
   * changes what the request has read, because then the leaf contradicts itself.
   */
  count(reason: LeafRetry, attempt: number, request: R): void {
    this.retries[reason]++;
    // From behind the owner word, which every attempt to lock the leaf changes.
    lookForChange(request, reason, attempt, IMAGE_AT + IDENTITY_AT);
    if (attempt < ATTEMPTS_MAX) return;
    const reasons = JSON.stringify(this.retries);
    throw new StepwellError('SW_CONTENTION', `gave up after ${attempt} attempts: ${reasons}`);
  }
}
