import { HEADER_BYTES, SLOT_UNITS_MAX } from '../../records/layout.ts';
import {
  copyWord,
  highHalf,
  lowHalf,
  type Operation,
  setWord,
  swapped,
} from '../../verbs/index.ts';
import { depthAt, slotAddress } from './buckets.ts';
import { emptySlot, lengthOf, pointerLow, pointerOf, slotHigh } from './slot.ts';
import { type RaceRequest, type RaceTable, SWAP_AT } from './table.ts';

/**
 * Third round trip of an update (RACE Algorithm 3): the slot that `locate` found is turned to the
 * new record. The slot's exact word is expected, and no block is re-used while this operation may
 * hold its address, so the CAS succeeds only if the key still has the record that was read.
 *
 * The version is known only now, after the old record was read; the header of the new record, which
 * nobody knows yet, is written again in front of the CAS, in the same doorbell.
 *
 * Returns false when the operation must begin again.
 */
export function* replace(
  table: RaceTable,
  request: RaceRequest,
  attempt: number,
): Operation<boolean> {
  const { batch, words, block, slotAt } = request;
  const old = pointerOf(lowHalf(words, slotAt), highHalf(words, slotAt));
  request.reseal((request.foundVersion + 1) >>> 0);
  batch.clear();
  if (request.blockWritten) batch.write(block, HEADER_BYTES, request.outgoing, 0);
  else table.records.post(request, batch);
  copyWord(words, slotAt, SWAP_AT);
  const units = Math.min(request.headUnits, SLOT_UNITS_MAX);
  const high = slotHigh(block, request.fingerprint, units, depthAt(table, request, slotAt));
  setWord(words, SWAP_AT + 8, pointerLow(block), high);
  yield batch.cas(slotAddress(table, request, slotAt), words, SWAP_AT);
  if (!swapped(words, SWAP_AT)) {
    yield* table.retry(request, 'slotChanged', attempt);
    return false;
  }
  // Before anything can fail: the new record is linked, and its block not to be given back.
  request.forgetBlock();
  if (request.foundChained) yield* table.records.retireChain(request, old);
  else table.records.retireFound(request, old, lengthOf(highHalf(words, slotAt)));
  return true;
}

/** Third round trip of a deletion (RACE Algorithm 2): the slot becomes vacant. */
export function* vacate(
  table: RaceTable,
  request: RaceRequest,
  attempt: number,
): Operation<boolean> {
  const { batch, words, slotAt } = request;
  const old = pointerOf(lowHalf(words, slotAt), highHalf(words, slotAt));
  copyWord(words, slotAt, SWAP_AT);
  setWord(words, SWAP_AT + 8, 0, emptySlot(depthAt(table, request, slotAt)));
  yield batch.clear().cas(slotAddress(table, request, slotAt), words, SWAP_AT);
  if (!swapped(words, SWAP_AT)) {
    yield* table.retry(request, 'slotChanged', attempt);
    return false;
  }
  if (request.foundChained) yield* table.records.retireChain(request, old);
  else table.records.retireFound(request, old, lengthOf(highHalf(words, slotAt)));
  return true;
}
