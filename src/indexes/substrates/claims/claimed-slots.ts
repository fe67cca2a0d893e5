import type { Address, Batch, Operation } from '../../../verbs/index.ts';
import type { RecordIo } from '../record-io.ts';
import type { SlotRequest } from './slot-request.ts';

/** The operations that claim-slot.ts and change-slot.ts need from an index. */
export interface ClaimedSlots<R extends SlotRequest> {
  readonly records: RecordIo;
  readonly patience: Patience;
  /** Where the slot at `at` of the request's words stands in the pool. */
  addressOf(request: R, at: number): Address;
  /** The high half of the slot at `at` when it points to the request's outgoing record. */
  entryHigh(request: R, at: number): number;
  /** The high half of the slot at `at` when it is emptied now. */
  vacantHigh(request: R, at: number): number;
  /** Adds the READs of every slot in which the key may be. */
  postPlaces(request: R, batch: Batch): Batch;
  /**
   * Whether what was read behind a claim is the whole truth about the key. May read more. An index
   * leaves this out if it always is.
   */
  isCertain?(request: R): Operation<boolean>;
  /** Called when it is not certain, after the claim was withdrawn. */
  catchUp?(request: R, attempt: number): Operation<void>;
  /** Gathers the slots that may have the key, pending or not, without the request's own. */
  gatherRivals(request: R): number;
  retry(request: R, reason: ClaimRetry, attempt: number): Operation<void>;
}

/** Why a claim or a change of a slot begins again. */
export type ClaimRetry =
  | 'slotChanged' // another client changed the slot first
  | 'pendingKey' // another client has inserted the key, or is inserting it
  | 'withdrawn'; // another client withdrew this client's claim

/** How long a claim that stands in the way may stay as it is. */
export interface Patience {
  polls: number;
  /** Between two polls. */
  microseconds: number;
}
