import { HEADER_BYTES, SLOT_UNITS_MAX } from '../../records/layout.ts';
import {
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
  const { batch, words, block, slotAt } = request;
  const old = highHalf(words, slotAt);
  request.reseal((request.foundVersion + 1) >>> 0);
  batch.clear();
  if (request.blockWritten) batch.write(block, HEADER_BYTES, request.outgoing, 0);
  else table.records.post(request, batch);
  const units = Math.min(request.headUnits, SLOT_UNITS_MAX);
  const entry = entryHigh(block, request.fingerprint, units, segmentIdOf(old));
  const high = entry | (old & KEPT_MASK);
  return yield* swapFound(table, request, attempt, pointerLow(block), high);
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
  const high = usedHigh(highHalf(request.words, request.slotAt));
  return yield* swapFound(table, request, attempt, 0, high);
}

/** Swaps the found entry behind what is in the batch, and retires its record. */
function* swapFound(
  table: ShardTable,
  request: ShardRequest,
  attempt: number,
  low: number,
  high: number,
): Operation<boolean> {
  const { batch, words, slotAt } = request;
  const units = lengthOf(highHalf(words, slotAt));
  const old = pointerOf(lowHalf(words, slotAt), highHalf(words, slotAt));
  copyWord(words, slotAt, SWAP_AT);
  setWord(words, SWAP_AT + 8, low, high);
  yield batch.cas(table.slotAddress(request, slotAt), words, SWAP_AT);
  if (!swapped(words, SWAP_AT)) {
    yield* table.retry(request, 'slotChanged', attempt);
    return false;
  }
  // Before anything can fail: the new record is linked, and its block not to be given back.
  request.forgetBlock();
  if (request.foundChained) yield* table.records.retireChain(request, old);
  else table.records.retireFound(request, old, units);
  return true;
}
