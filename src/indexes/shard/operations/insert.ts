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
import { claimSlot } from '../../substrates/claims/claim-slot.ts';
import type { ClaimedSlots, ClaimRetry, Patience } from '../../substrates/claims/claimed-slots.ts';
import { evict } from '../../substrates/claims/rival-claims.ts';
import { readCandidates } from '../../substrates/claims/slot-candidates.ts';
import { pointerLow } from '../../substrates/claims/slot-format.ts';
import { BUCKETS_AT, OTHER_SWAP_AT, SWAP_AT } from '../../substrates/claims/slot-request.ts';
import type { RecordIo } from '../../substrates/record-io.ts';
import { extendChain } from '../overflow.ts';
import { catchUp } from '../resizing/catch-up.ts';
import { hashOfPlace, LEVEL_OF_PLACE, PLACES } from '../table/geometry.ts';
import type { ShardRequest } from '../table/request.ts';
import {
  CLEARING,
  entryHigh,
  FROZEN,
  isEmpty,
  isOpen,
  KEPT_MASK,
  OVERFLOW,
  OVERFLOW_MASK,
  PENDING,
  pointerAt,
  segmentIdOf,
  usedHigh,
} from '../table/slot.ts';
import type { ShardTable } from '../table/table.ts';
import {
  beginGathering,
  emptyBelow,
  firstEmpty,
  firstFresh,
  gatherNodes,
  keepCandidates,
  postLower,
  readChain,
  repostLevel1,
  repostLower,
  unsettledPlace,
} from './buckets.ts';

/**
 * Insertion of a key that `locate` did not find (Algorithm 1). `locate` was the first round trip.
 *
 * While level 1 has a slot that was never used at this version, one CAS takes the first such slot
 * in the key's rotated order (Ordered-CAS, section 3.2): the second and last round trip. A slot is
 * used once in a version. If two clients insert a key and neither sees the other's entry, the
 * second one's CAS fails on it. So a key never gets two copies.
 *
 * When every slot has been used, no such CAS can succeed in this version. From then on all
 * insertions claim an empty slot, of any level.
 *
 * Returns false when the operation must begin again.
 */
export function* insert(
  slots: ShardSlots,
  request: ShardRequest,
  attempt: number,
): Operation<boolean> {
  const { table } = slots;
  const at = table.techniques.ordered ? firstFresh(table, request) : 0;
  if (at === 0) return yield* claim(slots, request, attempt);
  // A claim below, made before this bucket left its last version, may still be committed.
  if (request.isWide && (yield* evictClaims(slots, request))) {
    yield* table.retry(request, 'pendingKey', attempt);
    return false;
  }
  const { batch, words } = request;
  prepareEntry(slots, request, at);
  table.records.postFirst(request, batch.clear());
  yield batch.cas(table.slotAddress(request, at), words, SWAP_AT);
  request.slotAt = at;
  if (swapped(words, SWAP_AT)) return true;
  yield* table.retry(request, 'slotChanged', attempt);
  return false;
}

/** Prepares the CAS: expected, the word read at `at`; desired, the outgoing record's entry. */
export function prepareEntry(slots: ShardSlots, request: ShardRequest, at: number): void {
  const { words, record } = request;
  copyWord(words, at, SWAP_AT);
  const isFree = isOpen(lowHalf(words, at), highHalf(words, at));
  invariant(isFree, 'an entry is put into a used slot');
  setWord(words, SWAP_AT + 8, pointerLow(record.block), slots.entryHigh(request, at));
}

/** Withdraws claims of the key in levels 2 and 3; returns whether there were any. */
function* evictClaims(slots: ShardSlots, request: ShardRequest): Operation<boolean> {
  const { candidates, candidateSlots, words } = request;
  gatherRivals(slots.table, request, 1);
  keepCandidates(request, (slot) => (highHalf(words, slot) & PENDING) !== 0);
  const { count: pending } = candidates;
  yield* readCandidates(request);
  let evicted = false;
  for (let i = 0; i < pending; i++) {
    if (!request.matches(candidates.at[i])) continue;
    evicted = true;
    yield* evict(slots, request, candidateSlots[i]);
  }
  return evicted;
}

/**
 * Insertion when level 1 has no fresh slot. Takes an emptied slot of level 1, else one of level 2
 * (less loaded bucket first) or 3, after it has set the overflow bit that makes searches look
 * there.
 *
 *   D[CAS overflow bit; READ level 2, 2, 3]   if it was not set and level 1 has no empty slot
 *   D[WRITE record; CAS empty -> pending; READ level 1, 2, 2, 3, known chain nodes]
 *   CAS pending -> committed                  both in claim-slot.ts
 */
function* claim(slots: ShardSlots, request: ShardRequest, attempt: number): Operation<boolean> {
  const { table } = slots;
  let at = firstEmpty(table, request);
  if (at === 0) {
    if (!request.isWide && !(yield* overflow(table, request, attempt))) return false;
    at = emptyBelow(table, request);
  }
  if (at !== 0) return yield* claimSlot(slots, request, at, attempt);
  table.crowded = true;
  yield* extendChain(table, request);
  yield* table.retry(request, 'chainExtended', attempt);
  return false;
}

/**
 * Sets the overflow bit in the first entry of level 1 and reads levels 2 and 3. From then on no
 * search stops after a miss in level 1.
 */
function* overflow(table: ShardTable, request: ShardRequest, attempt: number): Operation<boolean> {
  const { batch, words, addresses } = request;
  copyWord(words, BUCKETS_AT, SWAP_AT);
  invariant((highHalf(words, SWAP_AT) & FROZEN) === 0, 'a frozen word gets an overflow bit');
  const high = highHalf(words, BUCKETS_AT) | OVERFLOW;
  setWord(words, SWAP_AT + 8, lowHalf(words, BUCKETS_AT), high);
  yield postLower(table, request, batch.clear().cas(addresses[0], words, SWAP_AT));
  if (!swapped(words, SWAP_AT)) {
    yield* table.retry(request, 'slotChanged', attempt);
    return false;
  }
  setWord(words, BUCKETS_AT, lowHalf(words, BUCKETS_AT), high);
  yield* readChain(request);
  const place = unsettledPlace(table, request);
  if (place < 0) return true;
  yield* catchUp(table, request, place, attempt);
  return false;
}

/** A SHARD table's slots, for the protocols in substrates/claims. */
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
    const { words, fingerprint } = request;
    const { block, headUnits } = request.record;
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
    return request.candidates.count;
  }

  retry(request: ShardRequest, reason: ClaimRetry, attempt: number): Operation<void> {
    return this.table.retry(request, reason, attempt);
  }
}

/**
 * Whether searches will find a claim below level 1 once it is committed, judged by the first word
 * as read after the claim. A client that clears overflow bits (overflow.ts) may have missed the
 * claim: then this client sets both bits, so that the bucket stays marked, or the claim came too
 * late. A client that sets CLEARING after that READ reads the claim.
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
 * except the request's own.
 */
function gatherRivals(table: ShardTable, request: ShardRequest, first: number): void {
  const { at, candidateSlots, fingerprint, words } = request;
  const { block } = request.record;
  beginGathering(request);
  for (let place = first; place < PLACES; place++) {
    const end = at[place] + 8 * table.geometry.entries[LEVEL_OF_PLACE[place]];
    for (let slot = at[place]; slot < end; slot += 8) {
      const high = highHalf(words, slot);
      if (high >>> 24 !== fingerprint || isEmpty(lowHalf(words, slot), high)) continue;
      candidateSlots[request.candidates.count++] = slot;
    }
  }
  gatherNodes(request, true);
  if (block !== 0) keepCandidates(request, (slot) => pointerAt(words, slot) !== block);
}
