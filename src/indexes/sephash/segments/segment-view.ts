import type { Address } from '../../../verbs/index.ts';
import type { FpCache } from './fp-cache.ts';
import { depthOf } from './header.ts';

/** Counts that change when a client may get memory that it could not get before. */
export interface MemoryInReach {
  /** How many blocks this client has given back. */
  readonly freed: number;
  /** How many chunks of the reserve it may take. */
  readonly reserveAllowed: number;
}

/** A merge that failed for lack of memory, and what was within reach then. */
interface MergeFailure extends MemoryInReach {
  /** The metadata of the segment. */
  readonly low: number;
  readonly high: number;
  readonly error: unknown;
}

/**
 * What one client knows of a segment. All of it is a hint: an operation may rely on it only if the
 * metadata word that it reads is the one noted here.
 */
export class SegmentView {
  /** Address of the segment's header; stays for ever. */
  readonly header: Address;
  metaLow = 0;
  metaHigh = 0;
  /**
   * Address of the CurSegment, or 0 if unknown. A split moves it; without signs a merge does, too.
   */
  slots: Address = 0;
  suffix = 0;
  /** First entry that was not known to be full (section 4.3, sliding window). */
  offset = 0;
  /** Whether `offset` is of the noted metadata: another client's merge makes it unknown. */
  knowsOffset = false;
  /** Entries of the MainSegment of the noted metadata, or -1 when not known. */
  count = -1;
  cache: FpCache | undefined;
  sibling: Address = 0;
  /** Operations of this client that are merging the segment. */
  mergers = 0;
  /** Whether an operation of this client is filling an entry; and how many wait to do so. */
  isFilling = false;
  waiting = 0;
  /** Words of the noted metadata's epoch that one operation read while others waited. */
  readonly #learnt = new Map<number, { low: number; high: number }>();
  #failure: MergeFailure | undefined;
  /** Whether every merge moves the CurSegment. */
  readonly #moves: boolean;

  constructor(header: Address, moves = false) {
    this.header = header;
    this.#moves = moves;
  }

  get depth(): number {
    return depthOf(this.metaHigh);
  }

  /** Whether an append can be tried. */
  get knowsSlots(): boolean {
    return this.slots !== 0;
  }

  /** Whether a search can be tried. */
  get knowsMain(): boolean {
    return this.count >= 0;
  }

  /** Whether this is the noted metadata word: the client knows of no merge since it was read. */
  isAt(low: number, high: number): boolean {
    return low === this.metaLow && high === this.metaHigh;
  }

  /** Notes a metadata word; if it is new, forgets what was known of the old one. */
  note(low: number, high: number): void {
    if (this.isAt(low, high)) return;
    if (this.#moves || depthOf(high) !== this.depth) this.slots = 0;
    this.metaLow = low;
    this.metaHigh = high;
    this.forgetOffset();
    this.#learnt.clear();
    this.count = -1;
    this.cache = undefined;
  }

  /** Notes a word for this client's waiting operations; `at` is its offset in a request. */
  learnWord(at: number, low: number, high: number): void {
    if (this.waiting > 0) this.#learnt.set(at, { low, high });
  }

  get hasLearnt(): boolean {
    return this.#learnt.size > 0;
  }

  learntWord(at: number): { low: number; high: number } | undefined {
    return this.#learnt.get(at);
  }

  /** Notes what the MainSegment of a metadata word says. */
  learn(
    low: number,
    high: number,
    main: { suffix: number; count: number; slots: Address; sibling: Address },
    cache: FpCache,
  ): void {
    this.note(low, high);
    this.suffix = main.suffix;
    this.slots = main.slots;
    this.sibling = main.sibling;
    this.count = main.count;
    this.cache = cache;
  }

  noteMergeFailure(error: unknown, { freed, reserveAllowed }: MemoryInReach): void {
    this.#failure = { low: this.metaLow, high: this.metaHigh, freed, reserveAllowed, error };
  }

  /** The failure of this client's merge, while the metadata are still the same. */
  get mergeFailure(): MergeFailure | undefined {
    const failure = this.#failure;
    return failure !== undefined && this.isAt(failure.low, failure.high) ? failure : undefined;
  }

  /** Entries before `slot` are full, in the epoch of the noted metadata. */
  noteOffset(slot: number): void {
    this.offset = this.knowsOffset ? Math.max(this.offset, slot) : slot;
    this.knowsOffset = true;
  }

  forgetOffset(): void {
    this.offset = 0;
    this.knowsOffset = false;
  }

  /** Whether keys with this hash belong to the segment, as far as this client knows. */
  owns(hash: number): boolean {
    return (hash & ((1 << depthOf(this.metaHigh)) - 1)) === this.suffix;
  }
}
