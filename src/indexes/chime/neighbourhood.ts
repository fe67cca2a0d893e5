import { headBytes, KEY_BYTES_AND_KIND, SLOT_UNITS_MAX, unitsOf } from '../../records/layout.ts';
import { type Address, type Batch, UNIT_BYTES } from '../../verbs/index.ts';
import { fingerprintOf } from './geometry.ts';
import { type ChimeRequest, IDENTITY_AT, type LeafClient, NEIGHBOURS_AT } from './leaf-client.ts';
import { identityHigh, identityLow, UP } from './link.ts';
import { isVacant, lengthOf, PENDING, recordOf, SLOT_FROZEN } from './slot.ts';

/** What the key's hash says; once for each operation. */
export function place(tree: LeafClient, request: ChimeRequest): void {
  const { hash } = request;
  request.fingerprint = fingerprintOf(hash.h1);
  request.home = tree.geometry.homeOf(hash.h2);
}

/**
 * Adds the READ of the key's neighbourhood (CHIME section 4.4): two in the same doorbell when it
 * goes on at the leaf's first entry. Behind it that of the leaf's first word, where the link may be
 * so old that the block holds something else by now: when the word is still the leaf's identity,
 * what was read before was the leaf's, whatever came later.
 */
export function postNeighbourhood(
  tree: LeafClient,
  request: ChimeRequest,
  batch: Batch,
  checked: boolean,
): Batch {
  repostNeighbourhood(tree, request, batch);
  request.checked = checked;
  if (checked) batch.read(request.leaf, 8, request.words, IDENTITY_AT);
  return batch;
}

export function repostNeighbourhood(tree: LeafClient, request: ChimeRequest, batch: Batch): Batch {
  const { geometry } = tree;
  const { span, neighbourhood } = geometry.shape;
  const { leaf, home, words } = request;
  const straight = Math.min(neighbourhood, span - home);
  batch.read(geometry.slotAddress(leaf, home), 8 * straight, words, NEIGHBOURS_AT);
  if (straight < neighbourhood) {
    const rest = 8 * (neighbourhood - straight);
    batch.read(geometry.slotAddress(leaf, 0), rest, words, NEIGHBOURS_AT + 8 * straight);
  }
  return batch;
}

/** The neighbourhood is of a leaf in use, and no slot of it was frozen when it was read. */
export const CURRENT = 0;
/** The leaf is being replaced, but was not yet when all of the neighbourhood had been read. */
export const FROZEN_STILL = 1;
/** Slots are frozen, and whether the leaf had been replaced is not known. */
export const FROZEN_MAYBE_REPLACED = 2;
/** The leaf's parent is taking it up, or has done so: the leaf itself does not tell. */
export const TAKEN_UP = 4;
/** The first word is not the leaf's identity: it was replaced, and maybe re-used. */
export const GONE = 3;

/**
 * What the READs of a neighbourhood are worth. A key has one place in a leaf for as long as it is
 * there: whoever moves it makes another leaf. So when the leaf had not been replaced before all
 * slots were read, a hit is a record that the key had, and a miss is a moment without the key.
 * Slots that are not frozen tell so by themselves; of frozen ones, the first word does.
 */
export function judge(tree: LeafClient, request: ChimeRequest): number {
  const { i32 } = request.words;
  if (request.checked && !isLeafStill(tree, request)) {
    return i32[IDENTITY_AT >> 2] === 0 && i32[(IDENTITY_AT >> 2) + 1] === UP ? TAKEN_UP : GONE;
  }
  const end = (NEIGHBOURS_AT + tree.geometry.neighbourhoodBytes) >> 2;
  let flags = 0;
  for (let word = NEIGHBOURS_AT >> 2; word < end; word += 2) flags |= i32[word + 1];
  if ((flags & SLOT_FROZEN) === 0) return CURRENT;
  return request.checked ? FROZEN_STILL : FROZEN_MAYBE_REPLACED;
}

/** Whether the first word that was read is that of the request's leaf in use. */
export function isLeafStill(tree: LeafClient, { words, leafLow, leafHigh }: ChimeRequest): boolean {
  const { seed } = tree.geometry.shape;
  const { i32 } = words;
  return (
    i32[IDENTITY_AT >> 2] === identityLow(leafLow, leafHigh, seed) &&
    i32[(IDENTITY_AT >> 2) + 1] === identityHigh(leafLow, leafHigh, seed)
  );
}

/** Collects the committed slots that have the key's fingerprint. */
export function gatherLive(tree: LeafClient, request: ChimeRequest): number {
  const { i32 } = request.words;
  const { candidates, fingerprint } = request;
  const end = (NEIGHBOURS_AT + tree.geometry.neighbourhoodBytes) >> 2;
  let count = 0;
  for (let word = NEIGHBOURS_AT >> 2; word < end; word += 2) {
    const high = i32[word + 1];
    if (high >>> 24 === fingerprint && (high & PENDING) === 0) candidates[count++] = word << 2;
  }
  request.candidateCount = count;
  request.longCandidates = false;
  return count;
}

/** Adds the READs of the candidates' records. */
export function postCandidates(request: ChimeRequest, batch: Batch): Batch {
  const { candidates, candidateAt, candidateCount, incoming } = request;
  const { i32 } = request.words;
  let bytes = 0;
  for (let i = 0; i < candidateCount; i++) {
    candidateAt[i] = bytes;
    const units = lengthOf(i32[(candidates[i] >> 2) + 1]);
    bytes += units * UNIT_BYTES;
    if (units < SLOT_UNITS_MAX || longestHead(request) <= units) continue;
    request.longCandidates = true;
    bytes += (longestHead(request) - units) * UNIT_BYTES;
  }
  if (bytes > incoming.u8.length) incoming.ensure(bytes);
  for (let i = 0; i < candidateCount; i++) {
    const word = candidates[i] >> 2;
    const high = i32[word + 1];
    batch.read(recordOf(i32[word], high), lengthOf(high) * UNIT_BYTES, incoming, candidateAt[i]);
  }
  return batch;
}

/** Lines of a first block that holds the request's key: more than a slot can say for a long key. */
function longestHead(request: ChimeRequest): number {
  return unitsOf(headBytes(request.keyBytes));
}

/** Adds the READs of keys of over 16 KB, which a slot's length could not express. */
export function postLongKeys(request: ChimeRequest, batch: Batch): boolean {
  const units = longestHead(request);
  if (units <= SLOT_UNITS_MAX) return false;
  const { candidates, candidateAt, candidateCount, words, incoming } = request;
  for (let i = 0; i < candidateCount; i++) {
    const word = candidates[i] >> 2;
    const high = words.i32[word + 1];
    const keyBytes = incoming.i32[(candidateAt[i] + KEY_BYTES_AND_KIND) >> 2] & 0xffff;
    if (lengthOf(high) < SLOT_UNITS_MAX || keyBytes !== request.keyBytes) continue;
    batch.read(recordOf(words.i32[word], high), units * UNIT_BYTES, incoming, candidateAt[i]);
  }
  return batch.length > 0;
}

/** Finds the candidate that has the key; it becomes the found record. */
export function matchCandidate(request: ChimeRequest): boolean {
  const { candidates, candidateAt, candidateCount } = request;
  for (let i = 0; i < candidateCount; i++) {
    if (request.matches(candidateAt[i])) {
      request.slotAt = candidates[i];
      return true;
    }
  }
  return false;
}

/** The empty slot nearest to the key's home; 0 when the neighbourhood is full. */
export function vacantSlot(tree: LeafClient, { words }: ChimeRequest): number {
  const end = (NEIGHBOURS_AT + tree.geometry.neighbourhoodBytes) >> 2;
  for (let word = NEIGHBOURS_AT >> 2; word < end; word += 2) {
    if (isVacant(words.i32[word], words.i32[word + 1])) return word << 2;
  }
  return 0;
}

/** The claimed slot nearest to the key's home, or 0. */
export function pendingSlot(tree: LeafClient, { words }: ChimeRequest): number {
  const end = (NEIGHBOURS_AT + tree.geometry.neighbourhoodBytes) >> 2;
  for (let word = NEIGHBOURS_AT >> 2; word < end; word += 2) {
    if ((words.i32[word + 1] & PENDING) !== 0) return word << 2;
  }
  return 0;
}

/** How far the slot at `at` is from the key's home. */
export function distanceAt(at: number): number {
  return (at - NEIGHBOURS_AT) >> 3;
}

/** The address in the pool of the slot at `at`. */
export function slotAddress(tree: LeafClient, { leaf, home }: ChimeRequest, at: number): Address {
  const slot = (home + distanceAt(at)) % tree.geometry.shape.span;
  return tree.geometry.slotAddress(leaf, slot);
}
