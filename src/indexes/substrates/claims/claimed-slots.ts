import type { Address, Batch, Operation } from '../../../verbs/index.ts';
import type { RecordIo } from '../record-io.ts';
import type { SlotRequest } from './slot-request.ts';

/** The operations that claim-slot.ts and change-slot.ts need from an index. */
export interface ClaimedSlots<R extends SlotRequest> {
  readonly records: RecordIo;
  readonly patience: Patience;
  /** The address in the pool of the slot at `at` of the request's words. */
  addressOf(request: R, at: number): Address;
  /** The high half of the slot at `at` when it points to the request's outgoing record. */
  entryHigh(request: R, at: number): number;
  /** The high half of the slot at `at` when it is emptied. */
  vacantHigh(request: R, at: number): number;
  /** Adds the READs of every slot in which the key may be. */
  postPlaces(request: R, batch: Batch): Batch;
  /**
   * Whether the places read after a claim are all of the key's. May read more. An index leaves this
   * out if they always are.
   */
  isCertain?(request: R): Operation<boolean>;
  /** Called when it is not certain, after the claim was withdrawn. */
  catchUp?(request: R, attempt: number): Operation<void>;
  /** Gathers the slots that may have the key, pending or not, except the request's own. */
  gatherRivals(request: R): number;
  retry(request: R, reason: ClaimRetry, attempt: number): Operation<void>;
}

/** Why a claim or a change of a slot begins again. */
export type ClaimRetry =
  | 'slotChanged' // another client changed the slot first
  | 'pendingKey' // another client has inserted the key, or is inserting it
  | 'withdrawn'; // another client withdrew this client's claim

/** How long a client waits for another client's claim to change. */
export interface Patience {
  polls: number;
  /** Between two polls. */
  microseconds: number;
}
