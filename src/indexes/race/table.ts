import type { Allocator } from '../../pool/memory/allocator.ts';
import type { Address, Operation } from '../../verbs/index.ts';
import { backOff } from '../substrates/backoff.ts';
import type { Directory } from '../substrates/directory.ts';
import type { RecordIo } from '../substrates/record-io.ts';
import { CANDIDATES_MAX, Request } from '../substrates/request.ts';
import type { RaceGeometry } from './geometry.ts';
import type { Move } from './migrate.ts';

/** Why an operation had to begin again. */
export type RetryReason =
  | 'staleDirectory' // the cached directory led to a subtable that has been split
  | 'movingBucket' // a bucket of the key is being moved
  | 'slotChanged' // another client changed the slot first
  | 'pendingKey' // another client is inserting the same key
  | 'withdrawn' // another client withdrew this client's pending slot
  | 'subtableFull'; // no vacant slot: the subtable was split

/** Offsets in a request's words. */
export const SWAP_AT = 0;
export const OTHER_SWAP_AT = 32;
export const BUCKETS_AT = 64;

/** A request with what RACE operations remember between their round trips. */
export class RaceRequest extends Request {
  subtable: Address = 0;
  /** Address of each combined bucket, whose contents stand at BUCKETS_AT in `words`. */
  combined1: Address = 0;
  combined2: Address = 0;
  fingerprint = 0;
  /** Offsets in `words` of the candidates' slots. */
  readonly candidates = new Int32Array(CANDIDATES_MAX);
  /** Offset in `words` of the slot that holds the key, or that was claimed for it. */
  slotAt = 0;
  /** Slot words whose records are known to have another key. */
  readonly others = new Int32Array(256);
  otherCount = 0;
}

/** One client's handle of a RACE table. */
export class RaceTable {
  readonly geometry: RaceGeometry;
  readonly directory: Directory;
  readonly records: RecordIo;
  readonly allocator: Allocator;
  readonly catalog: number;
  readonly retries: Record<RetryReason, number> = {
    staleDirectory: 0,
    movingBucket: 0,
    slotChanged: 0,
    pendingKey: 0,
    withdrawn: 0,
    subtableFull: 0,
  };
  /**
   * How often, and how long at a time, an inserter looks whether an earlier claim of its key has
   * been decided before it takes the claimer for slow or dead.
   */
  patience = { polls: 40, microseconds: 50 };
  /** Moves that are not in use; see migrate.ts. */
  readonly idleMoves: Move[] = [];
  splits = 0;
  doublings = 0;

  constructor(
    geometry: RaceGeometry,
    directory: Directory,
    records: RecordIo,
    allocator: Allocator,
    catalog: number,
  ) {
    this.geometry = geometry;
    this.directory = directory;
    this.records = records;
    this.allocator = allocator;
    this.catalog = catalog;
  }

  newRequest(): RaceRequest {
    return new RaceRequest(BUCKETS_AT + 2 * this.geometry.combinedBytes);
  }

  /** Counts a retry and, when conflicts persist, lets the others get ahead. Bounded. */
  retry(request: RaceRequest, reason: RetryReason, attempt: number): Operation<void> {
    return backOff(this.retries, request, reason, attempt);
  }
}
