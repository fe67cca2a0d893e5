import { HEADER_BYTES, SLOT_UNITS_MAX } from '../../records/layout.ts';
import {
  type Batch,
  copyWord,
  highHalf,
  lowHalf,
  type Operation,
  setWord,
  swapped,
} from '../../verbs/index.ts';
import {
  entryHigh,
  KEPT_MASK,
  lengthOf,
  pointerLow,
  pointerOf,
  segmentIdOf,
  usedHigh,
} from './slot.ts';
import { type ShardRequest, type ShardTable, SWAP_AT } from './table.ts';

/**
 * Last round trip of an update: the entry that `locate` found is turned to the new record. Its
 * exact word is expected, and no block is re-used while this operation may hold its address, so the
 * CAS succeeds only if the key still has the record that was read, in a bucket that nobody moves.
 *
 * The version is known only now, after the old record was read; the header of the new record, which
 * nobody knows yet, is written again in front of the CAS, in the same doorbell.
 *
 * Returns false when the operation must begin again.
 */
export function* replace(
  table: ShardTable,
  request: ShardRequest,
  attempt: number,
): Operation<boolean> {
  yield postReplacement(table, request);
  return yield* swappedFound(table, request, attempt);
}

/** D[WRITE header; CAS], or with the whole record when it has not been written yet. */
export function postReplacement(table: ShardTable, request: ShardRequest): Batch {
  const { batch, words, block, slotAt } = request;
  const old = highHalf(words, slotAt);
  request.reseal((request.foundVersion + 1) >>> 0);
  batch.clear();
  if (request.blockWritten) batch.write(block, HEADER_BYTES, request.outgoing, 0);
  else table.records.post(request, batch);
  const units = Math.min(request.headUnits, SLOT_UNITS_MAX);
  const entry = entryHigh(block, request.fingerprint, units, segmentIdOf(old));
  return postSwap(table, request, pointerLow(block), entry | (old & KEPT_MASK));
}

/**
 * Last round trip of a deletion: the entry is emptied. In level 1 it is marked as used: at this
 * version of the bucket only an insertion that claims and then commits may take it again.
 */
export function* vacate(
  table: ShardTable,
  request: ShardRequest,
  attempt: number,
): Operation<boolean> {
  request.batch.clear();
  yield postSwap(table, request, 0, usedHigh(highHalf(request.words, request.slotAt)));
  return yield* swappedFound(table, request, attempt);
}

/** Adds the CAS of the found entry behind what is in the batch. */
function postSwap(table: ShardTable, request: ShardRequest, low: number, high: number): Batch {
  const { batch, words, slotAt } = request;
  copyWord(words, slotAt, SWAP_AT);
  setWord(words, SWAP_AT + 8, low, high);
  return batch.cas(table.slotAddress(request, slotAt), words, SWAP_AT);
}

/** Behind that CAS: retires the record that the entry had, if it was this client's. */
function* swappedFound(
  table: ShardTable,
  request: ShardRequest,
  attempt: number,
): Operation<boolean> {
  const { words, slotAt } = request;
  if (!swapped(words, SWAP_AT)) {
    yield* table.retry(request, 'slotChanged', attempt);
    return false;
  }
  if (!request.foundChained) {
    retireReplaced(table, request);
    return true;
  }
  request.forgetBlock();
  const old = pointerOf(lowHalf(words, slotAt), highHalf(words, slotAt));
  yield* table.records.retireChain(request, old);
  return true;
}

/** Retires the record of the found entry, which has been swapped; one of one block. */
export function retireReplaced(table: ShardTable, request: ShardRequest): void {
  const { words, slotAt } = request;
  // Before anything can fail: the new record is linked, and its block not to be given back.
  request.forgetBlock();
  const high = highHalf(words, slotAt);
  table.records.retireFound(request, pointerOf(lowHalf(words, slotAt), high), lengthOf(high));
}
