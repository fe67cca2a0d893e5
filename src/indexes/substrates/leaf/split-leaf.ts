import { invariant } from '../../../errors.ts';
import { FIRST_LEAF, HEAD_BYTES, SECOND_LEAF, writeBytes } from '../../../pool/intents/intent.ts';
import { freeHigh } from '../../../pool/intents/lock-word.ts';
import { INTENT_BYTES } from '../../../pool/layout.ts';
import {
  type Address,
  NULL_ADDRESS,
  type Operation,
  Scratch,
  setWord,
} from '../../../verbs/index.ts';
import { addSequence, addVacancy, carryOut } from './change-leaf.ts';
import { hopsOf, setHops } from './entry.ts';
import {
  BOUNDS_AT,
  HEADER_BYTES,
  ITEM_AT,
  identityHigh,
  identityLow,
  type LeafGeometry,
  SUM_AT,
  VACANCY_AT,
} from './layout.ts';
import type { LeafClient } from './leaf-client.ts';
import { IMAGE_AT, type LeafRequest } from './leaf-request.ts';
import { lockLeaf, unlock } from './lock-leaf.ts';
import { makeRoom, noteEmptied } from './make-room.ts';
import { imageOf } from './read-leaf.ts';

/** Words that a split writes besides entries and replicas: sequence twice, vacancy, two owners. */
const WORDS_WRITTEN = 5;
const BOUNDS_BYTES = HEADER_BYTES - BOUNDS_AT;

/**
 * Half-split (CHIME section 4.4): the items that `client.divide` chooses move to the same entries
 * of a new sibling.
 *
 *   D[WRITE sibling; WRITE block of the intent; intent; sequence odd; entries; bounds; vacancy;
 *     sequence even; unlock sibling; unlock leaf]
 *
 * The sibling is created locked. Until the old copies of its items are gone, no client may change
 * the new ones: a search that still found an old copy would return a stale value. Memory is claimed
 * before the lock. Returns the sibling; NULL_ADDRESS if the leaf has room by now, or if another
 * split must be completed first.
 */
export function* splitLeaf(client: LeafClient, request: LeafRequest): Operation<Address> {
  const { allocator, catalog, geometry } = client;
  const { leafUnits } = geometry;
  const bytes = intentBytes(geometry);
  let blocks: Address[] = [];
  try {
    yield* client.prepareSplit(request);
    const count = bytes > INTENT_BYTES ? 2 : 1;
    blocks = yield* allocator.allocateTogether(catalog, leafUnits, count);
    request.intent.ensure(bytes);
    for (let attempt = 1; !(yield* lockLeaf(client, request, attempt, blocks)); ) attempt++;
    if (!client.maySplit(request)) return NULL_ADDRESS;
    const image = request.words.i32.subarray(IMAGE_AT >> 2, (IMAGE_AT + geometry.leafBytes) >> 2);
    const before = image.slice();
    if ((yield* makeRoom(client, request)) >= 0) return NULL_ADDRESS;
    // Hops that made no room have changed the image but not the leaf.
    if (request.moves > 0) image.set(before);
    if (!(yield* client.divide(request))) return NULL_ADDRESS;
    refuseDamaged(client, request);
    // From here on the blocks must not be freed: if this client dies or fails, others read them.
    const [sibling, block = NULL_ADDRESS] = blocks.splice(0);
    yield* halve(client, request, sibling, block);
    if (block !== NULL_ADDRESS) allocator.discard(catalog, leafUnits, block);
    client.splits++;
    return sibling;
  } finally {
    for (const block of blocks) allocator.discard(catalog, leafUnits, block);
    client.endSplit(request);
    if (request.locked) yield* unlock(request);
  }
}

/** Items get new checksums in the sibling, which must not make a damaged item look intact. */
function refuseDamaged(
  client: LeafClient,
  { words, upper, leaf, idLow, idHigh }: LeafRequest,
): void {
  for (let entry = 0; entry < upper.length; entry++) {
    if (upper[entry] === 0 || client.sums.holds(words, imageOf(client, entry), idLow, idHigh))
      continue;
    invariant(false, `entry ${entry} of the full leaf at ${leaf} does not match its checksum`);
  }
}

/** Bytes of the longest intent of a split. It fits a slot or, if not, a block of a leaf's size. */
function intentBytes({ shape, replicas }: LeafGeometry): number {
  const words = (WORDS_WRITTEN + replicas) * writeBytes(8) + writeBytes(BOUNDS_BYTES);
  return HEAD_BYTES + words + shape.span * writeBytes(ITEM_AT + 8);
}

function* halve(
  client: LeafClient,
  request: LeafRequest,
  sibling: Address,
  block: Address,
): Operation<void> {
  const { geometry } = client;
  const { intent, leaf } = request;
  const image = client.spareImages.pop() ?? new Scratch(geometry.leafBytes);
  image.u8.fill(0);
  const tag = client.newTag();
  newSibling(client, request, sibling, tag, image);
  const changed = share(client, request, image);
  addSequence(request, 1);
  for (const entry of changed) {
    const from = imageOf(client, entry) >> 2;
    const at = intent.add(FIRST_LEAF, leaf + geometry.entryAt(entry) + SUM_AT, ITEM_AT + 8) >> 2;
    for (let i = 0; i < (ITEM_AT + 8) >> 2; i++) {
      intent.memory.i32[at + i] = request.words.i32[from + i];
    }
  }
  const at = intent.add(FIRST_LEAF, leaf + BOUNDS_AT, BOUNDS_BYTES);
  const lower = { memory: intent.memory, at };
  client.writeBounds(request, sibling, tag, lower, { memory: image, at: BOUNDS_AT });
  addReplicas(client, request, at);
  writeReplicas(geometry, image);
  addVacancy(request);
  addSequence(request, 2);
  intent.addRelease(SECOND_LEAF);
  yield* carryOut(client, request, block, (batch) => {
    client.postBounds(request, batch);
    batch.write(sibling, geometry.leafBytes, image, 0);
  });
  client.spareImages.push(image);
}

/** Writes the header of the sibling, which this operation has locked. */
function newSibling(
  { geometry }: LeafClient,
  request: LeafRequest,
  sibling: Address,
  tag: number,
  image: Scratch,
): void {
  const { seed, span } = geometry.shape;
  const low = identityLow(sibling, tag, seed);
  const high = identityHigh(sibling, tag, seed);
  request.intent.setLeaf(SECOND_LEAF, sibling, low, high);
  setWord(image, 0, request.ownLow, request.ownHigh);
  setWord(image, 8, low, high);
  const bits = Math.ceil(span / geometry.perVacancyBit);
  setWord(image, VACANCY_AT, maskOf(bits), maskOf(bits - 32));
}

/** A word whose lowest `bits` of 32 bits are set. */
function maskOf(bits: number): number {
  if (bits >= 32) return -1;
  return bits <= 0 ? 0 : (1 << bits) - 1;
}

/**
 * Moves items from the leaf's image to the sibling's; returns the entries of the leaf that change.
 */
function share(client: LeafClient, request: LeafRequest, image: Scratch): number[] {
  const { geometry, sums } = client;
  const { words, intent, upper } = request;
  const { span } = geometry.shape;
  const { low, high } = intent.identity(SECOND_LEAF);
  const changed: number[] = [];
  for (let entry = 0; entry < span; entry++) {
    const at = imageOf(client, entry);
    const there = geometry.entryAt(entry);
    if (upper[entry] !== 0) {
      const [from, to] = [at >> 2, there >> 2];
      for (let i = 0; i < geometry.entryBytes >> 2; i++) image.i32[to + i] = words.i32[from + i];
      sums.seal(image, there, low, high);
      setWord(words, at + ITEM_AT, 0, 0);
      noteEmptied(client, request, entry);
      if (geometry.perVacancyBit === 1) clearVacancy(image, entry);
    }
    const hops = hopsOf(words, at);
    let gone = 0;
    for (let left = hops; left !== 0; left &= left - 1) {
      const away = 31 - Math.clz32(left & -left);
      if (upper[geometry.after(entry, away)] !== 0) gone |= 1 << away;
    }
    setHops(image, there, gone);
    setHops(words, at, hops & ~gone);
    if (upper[entry] !== 0 || gone !== 0) changed.push(entry);
  }
  return changed;
}

function clearVacancy({ i32 }: Scratch, bit: number): void {
  i32[(VACANCY_AT + 4 * (bit >>> 5)) >> 2] &= ~(1 << (bit & 31));
}

/**
 * Adds the WRITEs of the bounds' replicas, copied from the bounds at offset `bounds` of the intent.
 */
export function addReplicas(
  { geometry }: LeafClient,
  { intent, leaf }: LeafRequest,
  bounds: number,
): void {
  const { i32 } = intent.memory;
  for (let replica = 0; replica < geometry.replicas; replica++) {
    const at = leaf + geometry.replicaAt(replica);
    intent.addWord(FIRST_LEAF, at, i32[bounds >> 2], i32[(bounds >> 2) + 1]);
  }
}

/** Copies the first word of a new leaf's bounds to its replicas. */
export function writeReplicas(geometry: LeafGeometry, image: Scratch): void {
  const word = BOUNDS_AT >> 2;
  for (let replica = 0; replica < geometry.replicas; replica++) {
    setWord(image, geometry.replicaAt(replica), image.i32[word], image.i32[word + 1]);
  }
}

/** Writes the image of an empty, unlocked leaf, except its bounds. */
export function newLeaf(geometry: LeafGeometry, leaf: Address, tag: number, image: Scratch): void {
  const { seed, span } = geometry.shape;
  const low = identityLow(leaf, tag, seed);
  const high = identityHigh(leaf, tag, seed);
  setWord(image, 0, low, freeHigh(high));
  setWord(image, 8, low, high);
  const bits = Math.ceil(span / geometry.perVacancyBit);
  setWord(image, VACANCY_AT, maskOf(bits), maskOf(bits - 32));
}
