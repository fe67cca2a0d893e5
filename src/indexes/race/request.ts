import type { Address } from '../../verbs/index.ts';
import { BUCKETS_AT, SlotRequest } from '../substrates/claims/slot-request.ts';
import { RACE_SLOTS } from './slot.ts';

/** A request with what RACE operations remember between their round trips. */
export class RaceRequest extends SlotRequest {
  subtable: Address = 0;
  /** Address of each combined bucket, whose contents stand at BUCKETS_AT in `words`. */
  combined1: Address = 0;
  combined2: Address = 0;
  /** Slot words whose records are known to have another key. */
  readonly others = new Int32Array(256);
  otherCount = 0;

  constructor(combinedBytes: number) {
    super(BUCKETS_AT + 2 * combinedBytes, RACE_SLOTS);
  }
}
