import { HEADER_BYTES } from '../../records/layout.ts';
import {
  type Address,
  type Batch,
  copyWord,
  highHalf,
  lowHalf,
  type Operation,
  setWord,
  swapped,
} from '../../verbs/index.ts';
import { type ChimeRequest, type LeafClient, SWAP_AT } from './leaf-client.ts';
import { distanceAt, slotAddress } from './neighbourhood.ts';
import { hintOf, lengthOf, recordOf, slotHigh, slotLow } from './slot.ts';

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
  yield postReplacement(tree, request, request.batch.clear());
  if (!(yield* afterSwap(tree, request, attempt))) return false;
  renewHotspot(tree, request);
  return true;
}

/** Adds the WRITE and the CAS. */
export function postReplacement(tree: LeafClient, request: ChimeRequest, batch: Batch): Batch {
  const { words, block, slotAt, fingerprint, headUnits } = request;
  request.reseal((request.foundVersion + 1) >>> 0);
  if (request.blockWritten) batch.write(block, HEADER_BYTES, request.outgoing, 0);
  else tree.records.post(request, batch);
  copyWord(words, slotAt, SWAP_AT);
  // The hint of the key is what it was; where none is known (after a merge) it is by now.
  const hint = hintOf(highHalf(words, slotAt)) || tree.hintOf(request);
  const high = slotHigh(block, fingerprint, headUnits, distanceAt(slotAt), hint);
  setWord(words, SWAP_AT + 8, slotLow(block), high);
  return batch.cas(slotAddress(tree, request, slotAt), words, SWAP_AT);
}

export function renewHotspot({ hotspots }: LeafClient, { words, hash }: ChimeRequest): void {
  const low = lowHalf(words, SWAP_AT + 8);
  hotspots.renew(hash.h1, hash.h2, low, highHalf(words, SWAP_AT + 8));
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
  yield batch.clear().cas(slotAddress(tree, request, slotAt), words, SWAP_AT);
  return yield* afterSwap(tree, request, attempt);
}

/** Behind the CAS of the slot: the old record is retired, if this client has unlinked it. */
function* afterSwap(tree: LeafClient, request: ChimeRequest, attempt: number): Operation<boolean> {
  if (!swapped(request.words, SWAP_AT)) {
    yield* tree.retry(request, 'slotChanged', attempt);
    return false;
  }
  // Before anything can fail: the new record is linked, and its block not to be given back.
  request.forgetBlock();
  if (request.foundChained) yield* tree.records.retireChain(request, unlinked(request));
  else retireUnlinked(tree, request);
  return true;
}

/** Retires the record that the CAS has unlinked; it has one block. */
export function retireUnlinked(tree: LeafClient, request: ChimeRequest): void {
  const units = lengthOf(highHalf(request.words, SWAP_AT));
  tree.records.retireFound(request, unlinked(request), units);
}

function unlinked({ words }: ChimeRequest): Address {
  return recordOf(lowHalf(words, SWAP_AT), highHalf(words, SWAP_AT));
}
