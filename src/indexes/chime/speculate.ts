import { HEADER_BYTES, headBytes } from '../../records/layout.ts';
import { type Batch, UNIT_BYTES } from '../../verbs/index.ts';
import { type ChimeRequest, IDENTITY_AT, type LeafClient, NEIGHBOURS_AT } from './leaf-client.ts';
import { isLeafStill, slotAddress } from './neighbourhood.ts';
import { distanceOf, lengthOf, recordOf, SLOT_FROZEN } from './slot.ts';

/** Where in the hotspot buffer the request's key is, or less than 0. */
export function hotspotOf({ hotspots }: LeafClient, { hash }: ChimeRequest): number {
  return hotspots.off ? -1 : hotspots.find(hash.h1, hash.h2);
}

/**
 * Adds the speculative READs (CHIME section 4.3): of the slot in which the key was last found, and
 * behind it of the record that stood there; and of the leaf's first word, where the link may be
 * old. The paper READs one entry of the leaf instead of a neighbourhood; with records behind
 * pointers the record's round trip is what is spared.
 */
export function postSpeculation(
  tree: LeafClient,
  request: ChimeRequest,
  spot: number,
  batch: Batch,
  checked: boolean,
): Batch {
  const { hotspots } = tree;
  const { words, incoming, leaf } = request;
  const low = hotspots.low(spot);
  const high = hotspots.high(spot);
  // The buffer may have changed when the doorbell comes back.
  request.spotLow = low;
  request.spotHigh = high;
  const at = NEIGHBOURS_AT + 8 * distanceOf(high);
  const bytes = lengthOf(high) * UNIT_BYTES;
  if (bytes > incoming.u8.length) incoming.ensure(bytes);
  request.slotAt = at;
  request.checked = checked;
  batch.read(slotAddress(tree, request, at), 8, words, at);
  batch.read(recordOf(low, high), bytes, incoming, 0);
  if (checked) batch.read(leaf, 8, words, IDENTITY_AT);
  return batch;
}

/**
 * Whether what was read is the key's record: the slot's word was the remembered one, not frozen,
 * and the leaf was the leaf. The record was linked then, so its block held it, and goes on holding
 * it as long as this client stays in its epoch.
 */
export function speculatedRight(tree: LeafClient, request: ChimeRequest): boolean {
  const { words, slotAt, keyBytes, spotLow: low, spotHigh: high } = request;
  if (words.i32[slotAt >> 2] !== low || words.i32[(slotAt >> 2) + 1] !== high) return false;
  if (request.checked && !isLeafStill(tree, request)) return false;
  // A key, or the link behind it, that goes beyond what a slot can say is read the other way.
  const bytes = lengthOf(high) * UNIT_BYTES;
  if (HEADER_BYTES + keyBytes > bytes || !request.matches(0)) return false;
  if (request.foundChained && headBytes(keyBytes) > bytes) return false;
  tree.hotspots.speculation.right++;
  return true;
}

/** The key was found by its neighbourhood: next time by its slot. */
export function rememberSpot(
  { hotspots }: LeafClient,
  { hash, words, slotAt }: ChimeRequest,
): void {
  const low = words.i32[slotAt >> 2];
  const high = words.i32[(slotAt >> 2) + 1];
  if (!hotspots.off && (high & SLOT_FROZEN) === 0) hotspots.note(hash.h1, hash.h2, low, high);
}
