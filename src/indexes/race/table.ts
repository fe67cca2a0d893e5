import type { Allocator } from '../../pool/memory/allocator.ts';
import type { Operation } from '../../verbs/index.ts';
import { backOff } from '../substrates/backoff.ts';
import type { ClaimRetry } from '../substrates/claims/claimed-slots.ts';
import type { Directory } from '../substrates/directory.ts';
import type { RecordIo } from '../substrates/record-io.ts';
import type { RaceGeometry } from './geometry.ts';
import type { Move } from './move.ts';
import { RaceRequest } from './request.ts';

/** Why an operation had to begin again. */
export type RetryReason =
  | ClaimRetry
  | 'staleDirectory' // the cached directory led to a subtable that has been split
  | 'movingBucket' // a bucket of the key is being moved
  | 'subtableFull'; // no vacant slot: the subtable was split

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
   * How often, and how long at a time, an inserter looks whether a claim of its key at a lower
   * address has been decided before it takes the claimer for slow or dead.
   */
  patience = { polls: 40, microseconds: 50 };
  /** Moves that are not in use; see move.ts. */
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
    return new RaceRequest(this.geometry.combinedBytes);
  }

  /** Counts a retry and, when conflicts persist, lets the others get ahead. Bounded. */
  retry(request: RaceRequest, reason: RetryReason, attempt: number): Operation<void> {
    return backOff(this.retries, request, reason, attempt);
  }
}
