import { SLOT_UNITS_MAX } from '../../records/layout.ts';
import type { Address, Batch, Operation } from '../../verbs/index.ts';
import { claimSlot } from '../substrates/claims/claim-slot.ts';
import type { ClaimedSlots, ClaimRetry, Patience } from '../substrates/claims/claimed-slots.ts';
import { pointerHigh, pointerLow } from '../substrates/claims/slot-format.ts';
import { BUCKETS_AT } from '../substrates/claims/slot-request.ts';
import type { RecordIo } from '../substrates/record-io.ts';
import { CERTAIN, certainty, chooseSlot, depthAt, repostBuckets, slotAddress } from './buckets.ts';
import type { RaceRequest } from './request.ts';
import { emptySlot, slotHigh } from './slot.ts';
import { split } from './split.ts';
import type { RaceTable } from './table.ts';

/**
 * Lock-free insertion (RACE Algorithm 1) of a key that `locate` did not find. `locate` was the
 * first round trip; the claim of a vacant slot is the second, its commit the third (claim-slot.ts).
 *
 * The published protocol makes the slot visible at once and looks for duplicates afterwards, so for
 * a while two copies of a key can be seen. Here the slot is PENDING until its owner has looked.
 *
 * Returns false when the operation must begin again.
 */
export function* insert(
  slots: RaceSlots,
  request: RaceRequest,
  attempt: number,
): Operation<boolean> {
  const { table } = slots;
  const at = chooseSlot(table, request);
  if (at !== 0) return yield* claimSlot(slots, request, at, attempt);
  yield* table.retry(request, 'subtableFull', attempt);
  yield* split(table, request);
  return false;
}

/** The slots of a RACE table, as they are claimed, replaced and emptied. */
export class RaceSlots implements ClaimedSlots<RaceRequest> {
  readonly table: RaceTable;
  readonly records: RecordIo;

  constructor(table: RaceTable) {
    this.table = table;
    this.records = table.records;
  }

  get patience(): Patience {
    return this.table.patience;
  }

  addressOf(request: RaceRequest, at: number): Address {
    return slotAddress(this.table, request, at);
  }

  entryHigh(request: RaceRequest, at: number): number {
    const { fingerprint } = request;
    const { block, headUnits } = request.record;
    const units = Math.min(headUnits, SLOT_UNITS_MAX);
    return slotHigh(block, fingerprint, units, depthAt(this.table, request, at));
  }

  vacantHigh(request: RaceRequest, at: number): number {
    return emptySlot(depthAt(this.table, request, at));
  }

  /** Both combined buckets again. */
  postPlaces(request: RaceRequest, batch: Batch): Batch {
    return repostBuckets(this.table, request, batch);
  }

  // biome-ignore lint/correctness/useYield: SHARD's slots need round trips for this
  *isCertain(request: RaceRequest): Operation<boolean> {
    return certainty(this.table, request) === CERTAIN;
  }

  /** The next attempt finishes the move of the key's buckets. */
  catchUp(request: RaceRequest, attempt: number): Operation<void> {
    return this.table.retry(request, 'movingBucket', attempt);
  }

  gatherRivals(request: RaceRequest): number {
    return gatherUnknown(this.table, request);
  }

  retry(request: RaceRequest, reason: ClaimRetry, attempt: number): Operation<void> {
    return this.table.retry(request, reason, attempt);
  }
}

/** Gathers slots with the fingerprint, except where `locate` has seen another key. */
function gatherUnknown(table: RaceTable, request: RaceRequest): number {
  const { words, candidateSlots, fingerprint, others, otherCount } = request;
  const { i32 } = words;
  const ownLow = pointerLow(request.record.block);
  const ownHigh = pointerHigh(request.record.block);
  const end = (BUCKETS_AT + 2 * table.geometry.combinedBytes) >> 2;
  let count = 0;
  for (let word = BUCKETS_AT >> 2; word < end; word += 2) {
    const high = i32[word + 1];
    if (high >>> 24 !== fingerprint) continue;
    const low = i32[word];
    if (low === ownLow && (high & 0xff) === ownHigh) continue;
    let known = false;
    for (let i = 0; i < otherCount && !known; i++) {
      known = others[2 * i] === low && others[2 * i + 1] === high;
    }
    if (!known) candidateSlots[count++] = word << 2;
  }
  request.candidates.count = count;
  return count;
}
