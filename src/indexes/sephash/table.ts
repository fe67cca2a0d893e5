import type { Reclamation } from '../../pool/clients/reclamation.ts';
import type { Allocator } from '../../pool/memory/allocator.ts';
import type { ChunkTable } from '../../pool/memory/chunks.ts';
import type { Address, Operation } from '../../verbs/index.ts';
import { backOff } from '../substrates/backoff.ts';
import type { Directory } from '../substrates/directory.ts';
import { type Techniques, techniquesOf } from '../substrates/parameters.ts';
import type { RecordIo } from '../substrates/record-io.ts';
import { SEPHASH_TECHNIQUES, type SepHashGeometry, type SepHashTechnique } from './geometry.ts';
import { SepHashRequest, SLOTS_AT } from './request.ts';
import { type FpCache, FpTable, RecordPoints, WholeMain } from './segments/fp-cache.ts';
import { MAIN_HEADER_BYTES, MAIN_LINE_BYTES } from './segments/main-segment.ts';
import { SegmentView } from './segments/segment-view.ts';

/** Why an operation had to begin again. */
export type RetryReason =
  | 'staleSegment' // the client's cache of the segment was of an earlier epoch
  | 'staleDirectory' // the cached directory led to a segment that has been split
  | 'slotTaken' // another client filled the entry first
  | 'segmentFull'; // no empty entry: the segment had to be merged

const NEAR_VIEWS = 4096;

/** A merger (merge.ts) that is used again for one segment after another. */
export interface ReusedMerger {
  run(request: SepHashRequest, spare?: Address): Operation<void>;
}

/** One client's handle of a SepHash index. */
export class SepHashTable {
  readonly geometry: SepHashGeometry;
  readonly techniques: Techniques<SepHashTechnique>;
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
  };
  /**
   * A client that meets a full segment polls this often, at this interval, for another client's
   * merge before it merges itself.
   */
  patience = { polls: 20, microseconds: 20 };
  /** Mergers that are not in use. */
  readonly idleMergers: ReusedMerger[] = [];
  merges = 0;
  splits = 0;
  doublings = 0;
  readonly #views = new Map<Address, SegmentView>();
  /** A cache of `#views` by hash: a Map with 48-bit numbers as keys is slow. */
  readonly #near: (SegmentView | undefined)[] = new Array(NEAR_VIEWS).fill(undefined);

  constructor(
    geometry: SepHashGeometry,
    directory: Directory,
    records: RecordIo,
    memory: { allocator: Allocator; reclamation: Reclamation; chunks: ChunkTable },
    catalog: number,
  ) {
    this.geometry = geometry;
    this.techniques = techniquesOf(SEPHASH_TECHNIQUES, geometry.shape.without);
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

  /** The segment to which the cached directory leads a key with this hash. */
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
      view = new SegmentView(header, !this.techniques.signs);
      this.#views.set(header, view);
    }
    return view;
  }

  /** How much of a MainSegment's beginning fills the cache. */
  get mainHeaderBytes(): number {
    return this.techniques.cache ? MAIN_HEADER_BYTES : MAIN_LINE_BYTES;
  }

  cacheOf(count: number, ends: () => Uint16Array): FpCache {
    const { cache, fpTable } = this.techniques;
    if (!cache) return new WholeMain(count + this.geometry.marks);
    return fpTable ? new FpTable(ends()) : new RecordPoints(ends());
  }

  /** Bytes of all FPTables that this client keeps. */
  get cacheBytes(): number {
    let bytes = 0;
    for (const { cache } of this.#views.values()) bytes += cache?.bytes ?? 0;
    return bytes;
  }

  /** Counts a retry, and backs off when conflicts persist. Bounded. */
  retry(request: SepHashRequest, reason: RetryReason, attempt: number): Operation<void> {
    return backOff(this.retries, request, reason, attempt);
  }
}
