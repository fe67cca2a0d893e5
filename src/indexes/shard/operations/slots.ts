import { invariant } from '../../../errors.ts';
import { SLOT_UNITS_MAX } from '../../../records/layout.ts';
import {
  type Address,
  type Batch,
  copyWord,
  highHalf,
  lowHalf,
  type Operation,
  setWord,
  swapped,
} from '../../../verbs/index.ts';
import type { ClaimedSlots, ClaimRetry, Patience } from '../../substrates/claims/claimed-slots.ts';
import { pointerHigh, pointerLow } from '../../substrates/claims/slot-format.ts';
import { BUCKETS_AT, OTHER_SWAP_AT } from '../../substrates/claims/slot-request.ts';
import type { RecordIo } from '../../substrates/record-io.ts';
import { catchUp } from '../resizing/catch-up.ts';
import { hashOfPlace, LEVEL_OF_PLACE, PLACES } from '../table/geometry.ts';
import type { ShardRequest } from '../table/request.ts';
import {
  CLEARING,
  entryHigh,
  FROZEN,
  isEmpty,
  KEPT_MASK,
  OVERFLOW,
  OVERFLOW_MASK,
  SHARD_SLOTS,
  segmentIdOf,
  usedHigh,
} from '../table/slot.ts';
import type { ShardTable } from '../table/table.ts';
import {
  gatherNodes,
  postLower,
  readChain,
  repostLevel1,
  repostLower,
  unsettledPlace,
} from './buckets.ts';

/** The slots of a SHARD table, as they are claimed, replaced and emptied. */
export class ShardSlots implements ClaimedSlots<ShardRequest> {
  readonly table: ShardTable;
  readonly records: RecordIo;

  constructor(table: ShardTable) {
    this.table = table;
    this.records = table.records;
  }

  get patience(): Patience {
    return this.table.patience;
  }

  addressOf(request: ShardRequest, at: number): Address {
    return this.table.slotAddress(request, at);
  }

  entryHigh(request: ShardRequest, at: number): number {
    const { words, block, fingerprint, headUnits } = request;
    const seen = highHalf(words, at);
    const isNew = isEmpty(lowHalf(words, at), seen);
    const id = isNew ? this.#segmentIdAt(request, at) : segmentIdOf(seen);
    const units = Math.min(headUnits, SLOT_UNITS_MAX);
    return entryHigh(block, fingerprint, units, id) | (seen & KEPT_MASK);
  }

  #segmentIdAt(request: ShardRequest, at: number): number {
    const { hash, version, nodesAt } = request;
    // Chain nodes are of no version.
    if (at >= nodesAt) return 0;
    const place = this.table.placeOf(request, at);
    return this.table.geometry.segmentId(hashOfPlace(hash, place), version);
  }

  /**
   * In level 1 the entry is marked as used: at this version of the bucket only an insertion that
   * claims and then commits may take it again.
   */
  vacantHigh({ words }: ShardRequest, at: number): number {
    return usedHigh(highHalf(words, at));
  }

  /** The buckets of all levels, and the chain nodes that are known. */
  postPlaces(request: ShardRequest, batch: Batch): Batch {
    repostLevel1(this.table, request, batch);
    if (request.isWide) return repostLower(this.table, request, batch);
    return postLower(this.table, request, batch);
  }

  *isCertain(request: ShardRequest): Operation<boolean> {
    yield* readChain(request);
    if (unsettledPlace(this.table, request) >= 0) return false;
    return request.slotAt < request.at[1] || (yield* keepsOverflow(request));
  }

  *catchUp(request: ShardRequest, attempt: number): Operation<void> {
    const unsettled = unsettledPlace(this.table, request);
    if (unsettled >= 0) yield* catchUp(this.table, request, unsettled, attempt);
    else yield* this.table.retry(request, 'slotChanged', attempt);
  }

  gatherRivals(request: ShardRequest): number {
    gatherRivals(this.table, request, 0);
    return request.candidateCount;
  }

  retry(request: ShardRequest, reason: ClaimRetry, attempt: number): Operation<void> {
    return this.table.retry(request, reason, attempt);
  }
}

/**
 * Whether searches look for a claim below level 1 once it is committed, by the word as it was read
 * after the claim. A client that is clearing overflow bits (clear-overflow.ts) may have missed the
 * claim: then the bucket is marked as one that keeps its overflow bit, or the claim was too late. A
 * client that sets CLEARING after that READ looks after the claim, and finds it.
 */
function* keepsOverflow({ batch, words, addresses }: ShardRequest): Operation<boolean> {
  const low = lowHalf(words, BUCKETS_AT);
  const high = highHalf(words, BUCKETS_AT);
  if ((high & OVERFLOW_MASK) !== CLEARING) return (high & OVERFLOW_MASK) !== 0;
  invariant((high & FROZEN) === 0, 'a frozen word keeps its overflow bit');
  copyWord(words, BUCKETS_AT, OTHER_SWAP_AT);
  setWord(words, OTHER_SWAP_AT + 8, low, high | OVERFLOW);
  yield batch.clear().cas(addresses[0], words, OTHER_SWAP_AT);
  return swapped(words, OTHER_SWAP_AT);
}

/**
 * Collects the slots from place `first` on that have the key's fingerprint, committed or pending,
 * without the one that points at the request's own record.
 */
export function gatherRivals(table: ShardTable, request: ShardRequest, first: number): void {
  const { at, candidates, fingerprint, words, block } = request;
  request.candidateCount = 0;
  request.longCandidates = false;
  for (let place = first; place < PLACES; place++) {
    const end = at[place] + 8 * table.geometry.entries[LEVEL_OF_PLACE[place]];
    for (let slot = at[place]; slot < end; slot += 8) {
      const high = highHalf(words, slot);
      if (high >>> 24 !== fingerprint || isEmpty(lowHalf(words, slot), high)) continue;
      candidates[request.candidateCount++] = slot;
    }
  }
  gatherNodes(request, true);
  if (block !== 0) dropOwn(request);
}

function dropOwn(request: ShardRequest): void {
  const { candidates, words, block } = request;
  const low = pointerLow(block);
  const high = pointerHigh(block);
  let kept = 0;
  for (let i = 0; i < request.candidateCount; i++) {
    const slot = candidates[i];
    const own =
      lowHalf(words, slot) === low && (highHalf(words, slot) & SHARD_SLOTS.pointer) === high;
    if (!own) candidates[kept++] = slot;
  }
  request.candidateCount = kept;
}
