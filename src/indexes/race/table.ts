import { StepwellError } from '../../errors.ts';
import type { Allocator } from '../../pool/allocator.ts';
import type { Address, Operation } from '../../verbs/index.ts';
import { SlotRequest } from '../candidates.ts';
import type { Directory } from '../directory.ts';
import type { RecordIo } from '../record-io.ts';
import type { RaceGeometry } from './geometry.ts';
import type { Move } from './migrate.ts';
import { POINTER_HIGH } from './slot.ts';

/** Why an operation had to begin again. */
export type RetryReason =
  | 'staleDirectory' // the cached directory led to a subtable that has been split
  | 'movingBucket' // a bucket of the key is being moved
  | 'slotChanged' // another client changed the slot first
  | 'pendingKey' // another client is inserting the same key
  | 'withdrawn' // another client withdrew this client's pending slot
  | 'subtableFull'; // no vacant slot: the subtable was split

/** An operation that meets so many conflicts in a row gives up with SW_CONTENTION. */
const ATTEMPTS_MAX = 10_000;
const ATTEMPTS_WITHOUT_PAUSE = 16;
const PAUSE_MICROSECONDS_MAX = 500;

/** Offsets in a request's words. */
export const SWAP_AT = 0;
export const OTHER_SWAP_AT = 32;
export const BUCKETS_AT = 64;

/** A request with what RACE operations remember between their round trips. */
export class RaceRequest extends SlotRequest {
  subtable: Address = 0;
  /** Address of each combined bucket, whose contents stand at BUCKETS_AT in `words`. */
  combined1: Address = 0;
  combined2: Address = 0;
  /** Slot words whose records are known to have another key. */
  readonly others = new Int32Array(256);
  otherCount = 0;

  constructor(wordBytes: number) {
    super(wordBytes, POINTER_HIGH);
  }
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
  *retry(request: RaceRequest, reason: RetryReason, attempt: number): Operation<void> {
    this.retries[reason]++;
    if (attempt >= ATTEMPTS_MAX) {
      const reasons = JSON.stringify(this.retries);
      throw new StepwellError('SW_CONTENTION', `gave up after ${attempt} attempts: ${reasons}`);
    }
    if (attempt < ATTEMPTS_WITHOUT_PAUSE) return;
    const pause = Math.min(PAUSE_MICROSECONDS_MAX, attempt);
    yield request.batch.clear().pause(pause, request.words);
  }
}
