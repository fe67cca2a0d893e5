import type { Reclamation } from '../../pool/clients/reclamation.ts';
import type { Allocator } from '../../pool/memory/allocator.ts';
import type { ChunkTable } from '../../pool/memory/chunks.ts';
import { type Address, highHalf, lowHalf, type Operation, Scratch } from '../../verbs/index.ts';
import { backOff } from '../substrates/backoff.ts';
import type { Directory } from '../substrates/directory.ts';
import type { RecordIo } from '../substrates/record-io.ts';
import { CANDIDATES_MAX, Request } from '../substrates/request.ts';
import { type FpCache, FpTable, RecordPoints, WholeMain } from './fp-cache.ts';
import { CACHE_NONE, CACHE_POINTS, type SepHashGeometry } from './geometry.ts';
import { depthOf, epochOf, mainOf, signOfEpoch } from './header.ts';
import { MAIN_HEADER_BYTES, MAIN_LINE_BYTES } from './main-segment.ts';
import type { Merger } from './merge.ts';
import { SegmentView } from './segment.ts';

/** Why an operation had to begin again. */
export type RetryReason =
  | 'staleSegment' // the client's cache of the segment was of an earlier epoch
  | 'staleDirectory' // the cached directory led to a segment that has been split
  | 'slotTaken' // another client filled the entry first
  | 'segmentFull' // no empty entry: the segment had to be merged
  | 'filterUnclear'; // a filter word was of another epoch than the metadata beside it

/** Offsets in a request's words. */
export const SWAP_AT = 0;
export const FILTER_SWAP_AT = 32;
/** The segment's header: metadata and filter. */
export const HEADER_AT = 64;
export const SLOTS_AT = 128;

const NEAR_VIEWS = 4096;

/** A request with what SepHash operations remember between their round trips. */
export class SepHashRequest extends Request {
  /** The segment of the key, and what of it the operation relies on. */
  view!: SegmentView;
  metaLow = 0;
  metaHigh = 0;
  slots: Address = 0;
  rangeStart = 0;
  rangeEnd = 0;
  /** Both fingerprints of the key. */
  tag = 0;
  /** Entries of the MainSegment. */
  readonly range = new Scratch(1024);
  /** Words of the candidates' entries; those of the CurSegment come first, newest first. */
  candidateLow = new Int32Array(CANDIDATES_MAX);
  candidateHigh = new Int32Array(CANDIDATES_MAX);
  /** How many of the candidates are of the CurSegment. */
  recent = 0;
  /** The candidate that has the key, or -1. */
  match = -1;
  /** The entries of the CurSegment that an append has read. */
  windowStart = 0;
  windowEnd = 0;
  /** The first empty entry, when the whole CurSegment was read. */
  emptySlot = 0;
  /** Of which segment this operation itself has read the metadata, and the word. */
  fresh: SegmentView | undefined;
  freshLow = 0;
  freshHigh = 0;
  /** A filter word that did not fit the metadata of this epoch: see filter.ts. */
  doubtedEpoch = -1;
  doubtedLow = 0;
  doubtedHigh = 0;
  /** It was read twice with the same metadata: it is an old one. */
  trusted = false;
  /** Whether it deletes: a merge for it takes any block that is large enough. */
  forDeletion = false;
  /** Whether a CAS that links the record has been posted and not answered. */
  inDoubt = false;
  /** Whether the doorbell of the entry sets its filter bit, and whether that is set afterwards. */
  setsBit = false;
  bitStands = false;

  get main(): Address {
    return mainOf(this.metaLow, this.metaHigh);
  }

  get epoch(): number {
    return epochOf(this.metaHigh);
  }

  get depth(): number {
    return depthOf(this.metaHigh);
  }

  get sign(): number {
    return signOfEpoch(this.epoch);
  }

  /** Begins an operation: whatever was read before is not fresh any more. */
  begin(): void {
    this.tag = this.hash.h2 & 0xffff;
    this.fresh = undefined;
    this.doubtedEpoch = -1;
    this.trusted = false;
    this.forDeletion = false;
    this.inDoubt = false;
    this.match = -1;
  }

  /** As many keys may have the same fingerprints as a segment has entries. */
  override ensureCandidates(count: number): void {
    super.ensureCandidates(count);
    const room = this.candidateAt.length;
    if (room === this.candidateLow.length) return;
    this.candidateLow = new Int32Array(room);
    this.candidateHigh = new Int32Array(room);
  }

  /** Whether the header that was read has the metadata that the operation relies on. */
  metaHolds(): boolean {
    const low = lowHalf(this.words, HEADER_AT);
    const high = highHalf(this.words, HEADER_AT);
    if (low === this.metaLow && high === this.metaHigh) return true;
    this.noteFresh(low, high);
    return false;
  }

  noteFresh(low: number, high: number): void {
    this.fresh = this.view;
    this.freshLow = low;
    this.freshHigh = high;
    this.view.note(low, high);
  }
}

/** One client's handle of a SepHash index. */
export class SepHashTable {
  readonly geometry: SepHashGeometry;
  readonly directory: Directory;
  readonly records: RecordIo;
  readonly allocator: Allocator;
  readonly reclamation: Reclamation;
  readonly chunks: ChunkTable;
  readonly catalog: number;
  readonly retries: Record<RetryReason, number> = {
    staleSegment: 0,
    staleDirectory: 0,
    slotTaken: 0,
    segmentFull: 0,
    filterUnclear: 0,
  };
  /**
   * How often, and how long at a time, a client that meets a full segment looks whether another one
   * has merged it, before it does so itself.
   */
  patience = { polls: 20, microseconds: 20 };
  readonly idleMergers: Merger[] = [];
  merges = 0;
  splits = 0;
  doublings = 0;
  readonly #views = new Map<Address, SegmentView>();
  /** By hash, the segment that was last asked for: a map of numbers of 48 bits is slow. */
  readonly #near: (SegmentView | undefined)[] = new Array(NEAR_VIEWS).fill(undefined);

  constructor(
    geometry: SepHashGeometry,
    directory: Directory,
    records: RecordIo,
    memory: { allocator: Allocator; reclamation: Reclamation; chunks: ChunkTable },
    catalog: number,
  ) {
    this.geometry = geometry;
    this.directory = directory;
    this.records = records;
    this.allocator = memory.allocator;
    this.reclamation = memory.reclamation;
    this.chunks = memory.chunks;
    this.catalog = catalog;
  }

  newRequest(): SepHashRequest {
    return new SepHashRequest(SLOTS_AT + this.geometry.slotsBytes);
  }

  /** The segment to which a key with this hash belongs, as far as the directory's cache tells. */
  viewFor(hash: number): SegmentView {
    const header = this.directory.lookup(hash);
    const near = this.#near[hash & (NEAR_VIEWS - 1)];
    if (near?.header === header) return near;
    const view = this.viewAt(header);
    this.#near[hash & (NEAR_VIEWS - 1)] = view;
    return view;
  }

  viewAt(header: Address): SegmentView {
    let view = this.#views.get(header);
    if (view === undefined) {
      view = new SegmentView(header, this.geometry.shape.signs === 0);
      this.#views.set(header, view);
    }
    return view;
  }

  /** Bytes that a search has to read of a MainSegment's beginning to fill the cache. */
  get mainHeaderBytes(): number {
    return this.geometry.shape.cache === CACHE_NONE ? MAIN_LINE_BYTES : MAIN_HEADER_BYTES;
  }

  cacheOf(count: number, ends: () => Uint16Array): FpCache {
    const { cache } = this.geometry.shape;
    if (cache === CACHE_NONE) return new WholeMain(count);
    return cache === CACHE_POINTS ? new RecordPoints(ends()) : new FpTable(ends());
  }

  /** Bytes of all FPTables that this client keeps. */
  get cacheBytes(): number {
    let bytes = 0;
    for (const { cache } of this.#views.values()) bytes += cache?.bytes ?? 0;
    return bytes;
  }

  /** Counts a retry and, when conflicts persist, lets the others get ahead. Bounded. */
  retry(request: SepHashRequest, reason: RetryReason, attempt: number): Operation<void> {
    return backOff(this.retries, request, reason, attempt);
  }
}
