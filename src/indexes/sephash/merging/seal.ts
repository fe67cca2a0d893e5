import {
  CAS_BYTES,
  highHalf,
  lowHalf,
  type Operation,
  Scratch,
  setWord,
} from '../../../verbs/index.ts';
import { firstEmpty, postHeader, postSlots } from '../operations/lookup.ts';
import { type SepHashRequest, SLOTS_AT } from '../request.ts';
import { padHigh, padLow } from '../segments/entry.ts';
import type { SepHashTable } from '../table.ts';

/**
 * Fills the entries that are empty with pads, so that the segment can be merged: 2 round trips. The
 * CASes are executed one behind the other, so entries are filled in their order; one that fails has
 * met another client's entry.
 */
export function* seal(table: SepHashTable, request: SepHashRequest): Operation<void> {
  const { batch, words } = request;
  yield postHeader(request, postSlots(table, request, batch.clear()));
  if (!request.metaHolds()) return;
  const { slots } = table.geometry;
  const swaps = new Scratch(CAS_BYTES * slots);
  batch.clear();
  for (let slot = firstEmpty(request, 0, slots); slot < slots; slot++) {
    const from = SLOTS_AT + 8 * slot;
    const at = CAS_BYTES * slot;
    setWord(swaps, at, lowHalf(words, from), highHalf(words, from));
    setWord(swaps, at + 8, padLow(request.epoch), padHigh(request.sign));
    batch.cas(request.slots + 8 * slot, swaps, at);
  }
  if (batch.length > 0) yield batch;
}
