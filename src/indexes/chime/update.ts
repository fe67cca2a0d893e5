import { HEADER_BYTES, SLOT_UNITS_MAX } from '../../records/layout.ts';
import {
  copyWord,
  highHalf,
  lowHalf,
  type Operation,
  setWord,
  swapped,
} from '../../verbs/index.ts';
import { type ChimeRequest, type LeafClient, SWAP_AT } from './leaf-client.ts';
import { distanceAt, slotAddress } from './neighbourhood.ts';
import { lengthOf, recordOf, slotHigh, slotLow } from './slot.ts';

/**
 * Third round trip of an update (CHIME section 4.4): the slot that `locate` found is turned to the
 * new record. The slot's exact word is expected, and no block is re-used while this operation may
 * hold its address, so the CAS succeeds only if the key still has the record that was read, and
 * only in a leaf that is not being replaced.
 *
 * The version is known only now, after the old record was read; the header of the new record, which
 * nobody knows yet, is written again in front of the CAS, in the same doorbell.
 *
 * Returns false when the operation must begin again.
 */
export function* replace(
  tree: LeafClient,
  request: ChimeRequest,
  attempt: number,
): Operation<boolean> {
  const { batch, words, block, slotAt } = request;
  request.reseal((request.foundVersion + 1) >>> 0);
  batch.clear();
  if (request.blockWritten) batch.write(block, HEADER_BYTES, request.outgoing, 0);
  else tree.records.post(request, batch);
  copyWord(words, slotAt, SWAP_AT);
  const units = Math.min(request.headUnits, SLOT_UNITS_MAX);
  const high = slotHigh(block, request.fingerprint, units, distanceAt(slotAt));
  setWord(words, SWAP_AT + 8, slotLow(block), high);
  if (!(yield* swap(tree, request, attempt))) return false;
  const { h1, h2 } = request.hash;
  tree.hotspots.renew(h1, h2, slotLow(block), high);
  return true;
}

/** Third round trip of a deletion: the slot becomes empty. */
export function* vacate(
  tree: LeafClient,
  request: ChimeRequest,
  attempt: number,
): Operation<boolean> {
  const { batch, words, slotAt } = request;
  copyWord(words, slotAt, SWAP_AT);
  setWord(words, SWAP_AT + 8, 0, 0);
  batch.clear();
  return yield* swap(tree, request, attempt);
}

/** Behind what the batch holds, the CAS of the slot; then the old record is retired. */
function* swap(tree: LeafClient, request: ChimeRequest, attempt: number): Operation<boolean> {
  const { batch, words, slotAt } = request;
  yield batch.cas(slotAddress(tree, request, slotAt), words, SWAP_AT);
  if (!swapped(words, SWAP_AT)) {
    yield* tree.retry(request, 'slotChanged', attempt);
    return false;
  }
  const oldHigh = highHalf(words, SWAP_AT);
  const old = recordOf(lowHalf(words, SWAP_AT), oldHigh);
  if (request.foundChained) yield* tree.records.retireChain(request, old);
  else tree.records.retireFound(request, old, lengthOf(oldHigh));
  return true;
}
