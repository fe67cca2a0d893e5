import { StepwellError } from '../../errors.ts';
import type { Reclamation } from '../../pool/clients/reclamation.ts';
import type { Allocator } from '../../pool/memory/allocator.ts';
import { type Address, highHalf, lowHalf, type Operation, setWord } from '../../verbs/index.ts';
import type { RecordIo } from '../substrates/record-io.ts';
import { Request } from '../substrates/request.ts';
import type { LeafGeometry, LeafShape } from './geometry.ts';
import { Hotspots } from './hotspots.ts';
import { AT_KEY, type CachedNode, type Side } from './node-book.ts';
import type { Link, Visit } from './node-io.ts';
import type { LeafHalves } from './rebuild-leaf.ts';
import { lengthOf, NEIGHBOURHOOD_MAX } from './slot.ts';
import { Spares } from './spares.ts';
import { Workbench } from './workbench.ts';

/** Why an operation had to begin again. */
export type RetryReason =
  | 'staleCache' // what is remembered of the way led to what is no leaf any more
  | 'replacedLeaf' // the leaf is being replaced, or was just now
  | 'slotChanged' // another client changed the entry first
  | 'pendingKey' // another client is inserting the same key
  | 'withdrawn' // another client withdrew this client's pending entry
  | 'neighbourhoodFull' // no empty entry: the leaf was rearranged or split
  | 'otherCarrier'; // of writes that were merged another one turned out to be the last

/** An operation that meets so many conflicts in a row gives up with SW_CONTENTION. */
const ATTEMPTS_MAX = 10_000;
const ATTEMPTS_WITHOUT_PAUSE = 16;
const PAUSE_MICROSECONDS_MAX = 500;

/** Offsets in a request's words. */
export const SWAP_AT = 0;
export const OTHER_SWAP_AT = 32;
/** The leaf's first word. */
export const IDENTITY_AT = 56;
/** The slots of the neighbourhood, in the order from the key's home on. */
export const NEIGHBOURS_AT = 64;

const WORD_BYTES = NEIGHBOURS_AT + 8 * NEIGHBOURHOOD_MAX;

/** A request with what operations on a leaf remember between their round trips. */
export class ChimeRequest extends Request {
  side: Side = AT_KEY;
  fingerprint = 0;
  home = 0;
  /** The leaf of the key, as a link, and its address. */
  leafLow = 0;
  leafHigh = 0;
  leaf: Address = 0;
  /** The epoch (its lower half) in which the link was last known to lead there. */
  linkEpoch = 0;
  /** Which child of the node above it the leaf is, or which entry of the directory. */
  child = 0;
  /** What the client remembers of the node above the leaf; undefined in a hash table. */
  above: CachedNode | undefined;
  /** Whether the leaf's first word was read after the neighbourhood, or need not be. */
  checked = false;
  /** Offsets in `words` of the candidates' slots. */
  readonly candidates = new Int32Array(NEIGHBOURHOOD_MAX);
  /** Offset in `words` of the slot that holds the key, or that another claim of it stands in. */
  slotAt = 0;
  /** Offset in `words` of the slot that an insertion has claimed. */
  claimedAt = 0;
  /** Slot words whose records are known to have another key. */
  readonly others = new Int32Array(2 * NEIGHBOURHOOD_MAX);
  otherCount = 0;
  /** The slot word that is speculated on. */
  spotLow = 0;
  spotHigh = 0;

  /** Takes over what another request has found for the same key: record and slot. */
  takeFound(from: ChimeRequest): void {
    const low = lowHalf(from.words, from.slotAt);
    const high = highHalf(from.words, from.slotAt);
    this.takeFoundRecord(from, lengthOf(high));
    this.slotAt = NEIGHBOURS_AT;
    setWord(this.words, NEIGHBOURS_AT, low, high);
  }
}

/** What a client can do without; see README. Clients of one index need not agree. */
export interface Techniques {
  /** Operations of this client on one key share verbs; see delegation.ts. */
  delegation: boolean;
}

/**
 * One client's handle of an index whose records are in hopscotch leaves: of the tree, or of the
 * stand-alone hash table (section 4.5). They differ in the way to a leaf, and in what they do with
 * a leaf that is full; everything else is written against this.
 */
export abstract class LeafClient<S extends LeafShape = LeafShape> {
  readonly geometry: LeafGeometry<S>;
  readonly records: RecordIo;
  readonly allocator: Allocator;
  readonly reclamation: Reclamation;
  readonly catalog: number;
  readonly techniques: Techniques = { delegation: false };
  readonly hotspots: Hotspots;
  readonly retries: Record<RetryReason, number> = {
    staleCache: 0,
    replacedLeaf: 0,
    slotChanged: 0,
    pendingKey: 0,
    withdrawn: 0,
    neighbourhoodFull: 0,
    otherCarrier: 0,
  };
  /**
   * How often, and how long at a time, an inserter looks whether an earlier claim of its key has
   * been decided before it takes the claimer for slow or dead.
   */
  patience = { polls: 40, microseconds: 50 };
  /** Of this client: leaves split, and leaves hopped in. */
  splits = 0;
  hops = 0;
  /** Entries of the leaves that were split, together. */
  entriesAtSplit = 0;

  readonly spareBenches = new Spares(() => new Workbench());

  constructor(
    geometry: LeafGeometry<S>,
    records: RecordIo,
    allocator: Allocator,
    reclamation: Reclamation,
    catalog: number,
  ) {
    this.geometry = geometry;
    this.records = records;
    this.allocator = allocator;
    this.reclamation = reclamation;
    this.catalog = catalog;
    this.hotspots = new Hotspots(geometry.shape.hotspots);
  }

  /** At the begin of every operation: what is remembered may have become too old. */
  abstract begin(): void;

  /** Aims the request at its leaf without a verb; false when the way is not remembered. */
  abstract aim(request: ChimeRequest): boolean;

  /** As `aim`, but reads what is not remembered. */
  abstract reach(request: ChimeRequest): Operation<void>;

  /** Whether the link that the request was aimed by cannot lead to a re-used block. */
  abstract isSure(request: ChimeRequest): boolean;

  /** The request's leaf was in use in this operation: the link is sure while the epoch stands. */
  abstract confirm(request: ChimeRequest): void;

  /**
   * The leaf has been replaced. When its block cannot hold anything else yet, its first word, which
   * the request has, is the link to the replacement; else the way is read anew (CHIME section
   * 4.2.3, cache validation).
   */
  abstract leaveGone(request: ChimeRequest, attempt: number): Operation<void>;

  /**
   * Searches a leaf that says that it is being taken up, so that it does not tell whether it
   * counts. Undefined when the search is to begin again.
   */
  abstract searchTakenUp(request: ChimeRequest, attempt: number): Operation<boolean | undefined>;

  /** Finishes what others have begun on the way to the request's leaf, slow or dead. */
  abstract mend(request: ChimeRequest): Operation<void>;

  /** Replaces the request's leaf, whose neighbourhood for its key is full of committed entries. */
  abstract makePlace(request: ChimeRequest): Operation<void>;

  /**
   * How a leaf that is to be split is shared out, from its frozen slots: the same for whoever does
   * it. Raises SW_INDEX_FULL when it cannot be split any more.
   */
  abstract halve(leaf: Visit, slots: Int32Array): Operation<LeafHalves>;

  /**
   * Links what has replaced a leaf in its place, and then retires the leaf; whether this client did
   * both.
   */
  abstract link(leaf: Visit, to: Link): Operation<boolean>;

  /** What the slot of the request's key is to say of its place among the leaf's keys; or 0. */
  abstract hintOf(request: ChimeRequest): number;

  newRequest(): ChimeRequest {
    return new ChimeRequest(WORD_BYTES);
  }

  /** Counts a retry and, when conflicts persist, lets the others get ahead. Bounded. */
  *retry(request: ChimeRequest, reason: RetryReason, attempt: number): Operation<void> {
    this.retries[reason]++;
    this.giveUpAfter(attempt);
    if (attempt < ATTEMPTS_WITHOUT_PAUSE) return;
    const pause = Math.min(PAUSE_MICROSECONDS_MAX, attempt);
    yield request.batch.clear().pause(pause, request.words);
  }

  giveUpAfter(attempt: number): void {
    if (attempt < ATTEMPTS_MAX) return;
    const reasons = JSON.stringify(this.retries);
    throw new StepwellError('SW_CONTENTION', `gave up after ${attempt} attempts: ${reasons}`);
  }
}
