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
import {
  addSequence,
  addVacancy,
  carryOut,
  encodeItem,
  insertItem,
  writtenBytes,
} from './change-leaf.ts';
import { hopsOf, isEmpty, itemHigh, NONE, setHops } from './entry.ts';
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
import { beginIntent, lockLeaf, postFirstWrites, unlock } from './lock-leaf.ts';
import { makeRoom, noteEmptied, noteTaken } from './make-room.ts';
import { imageOf, postEntries } from './read-leaf.ts';

/** Words that a split writes besides entries and replicas: sequence twice, vacancy, two owners. */
const WORDS_WRITTEN = 5;
const BOUNDS_BYTES = HEADER_BYTES - BOUNDS_AT;

/** How a split ended: the sibling, and whether the request's new item is in a half. */
export interface Split {
  /** NULL_ADDRESS: a hop has made room, and the leaf was not split. */
  readonly sibling: Address;
  readonly hasItem: boolean;
}

const NO_SPLIT: Split = { sibling: NULL_ADDRESS, hasItem: true };

/**
 * Half-split (CHIME section 4.4): the items that `client.divide` chooses move to the same entries
 * of a new sibling, and the request's new item goes to its half.
 *
 *   D[first WRITEs to blocks; READ leaf; READs of what follows]
 *   D[WRITE sibling; WRITE block of the intent; intent; sequence odd; entries; bounds; vacancy;
 *     sequence even; unlock sibling; unlock leaf]
 *
 * The sibling is created locked. Until the old copies of its items are gone, no client may change
 * the new ones: a search that still found an old copy would return a stale value.
 *
 * The leaf is full, and locked unless the caller has released it to claim memory. If this client
 * has no spare blocks, it releases the leaf: no memory is claimed under a lock. After that the leaf
 * may have room, or even the key, so the item is not put there. Undefined if the leaf has room by
 * then, the split must be prepared again, or another one must be completed first. In any case the
 * leaf is released in the end.
 */
export function* splitLeaf(client: LeafClient, request: LeafRequest): Operation<Split | undefined> {
  const { allocator, catalog, geometry } = client;
  const { leafUnits } = geometry;
  const bytes = intentBytes(geometry);
  const count = bytes > INTENT_BYTES ? 2 : 1;
  let blocks = request.locked ? allocator.takeTogether(catalog, leafUnits, count) : [];
  const keepsLock = blocks.length > 0;
  try {
    if (keepsLock) {
      const hasAll = request.known === geometry.shape.span && request.moves === 0;
      yield* readWhole(client, request, bytes, blocks);
      if (!hasAll && (yield* insertItem(client, request))) return NO_SPLIT;
    } else {
      if (request.locked) yield* unlock(request);
      yield* client.prepareSplit(request);
      blocks = yield* allocator.allocateTogether(catalog, leafUnits, count);
      request.intent.ensure(bytes);
      for (let attempt = 1; !(yield* lockLeaf(client, request, attempt, blocks)); ) attempt++;
      if (!client.maySplit(request) || (yield* makeRoom(client, request)) >= 0) return undefined;
    }
    if (!(yield* client.divide(request))) return undefined;
    refuseDamaged(client, request);
    // From here on the blocks must not be freed: if this client dies or fails, others read them.
    const [sibling, block = NULL_ADDRESS] = blocks.splice(0);
    const hasItem = yield* halve(client, request, sibling, block, keepsLock);
    if (block !== NULL_ADDRESS) allocator.discard(catalog, leafUnits, block);
    client.splits++;
    return { sibling, hasItem };
  } finally {
    for (const block of blocks) allocator.discard(catalog, leafUnits, block);
    client.endSplit(request);
    if (request.locked) yield* unlock(request);
  }
}

/** Reads the locked leaf, unless its whole image is known and unchanged by hops. */
function* readWhole(
  client: LeafClient,
  request: LeafRequest,
  bytes: number,
  blocks: readonly Address[],
): Operation<void> {
  request.intent.ensure(bytes);
  beginIntent(request);
  request.batch.clear();
  postFirstWrites(request, blocks);
  const { span } = client.geometry.shape;
  if (request.known < span || request.moves > 0)
    postEntries(client, request, 0, span, request.batch);
  request.known = span;
  client.postAhead(request, request.batch);
  yield request.batch;
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
function intentBytes({ shape, replicas, entryBytes }: LeafGeometry): number {
  const words = (WORDS_WRITTEN + replicas) * writeBytes(8) + writeBytes(BOUNDS_BYTES);
  const entries = (shape.span - 1) * writeBytes(ITEM_AT + 8) + writeBytes(entryBytes);
  return HEAD_BYTES + words + entries;
}

function* halve(
  client: LeafClient,
  request: LeafRequest,
  sibling: Address,
  block: Address,
  inserts: boolean,
): Operation<boolean> {
  const { geometry } = client;
  const { intent, leaf } = request;
  const image = client.spareImages.pop() ?? new Scratch(geometry.leafBytes);
  image.u8.fill(0);
  const tag = client.newTag();
  newSibling(client, request, sibling, tag, image);
  const rehomed = share(client, request, image);
  const isUpper = client.isUpper(request);
  const insert = isUpper ? insertUpper : insertLower;
  const own = inserts ? insert(client, request, image) : NONE;
  const ownLower = isUpper ? NONE : own;
  if (ownLower !== NONE) rehomed.add(request.home);
  addSequence(request, 1);
  addEntries(client, request, rehomed, ownLower);
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
  return own !== NONE;
}

/**
 * Adds the WRITEs of the words that change in the leaf's entries: hop bitmaps, emptied items, and
 * the new item. With all words of each entry, the intent could outgrow its block.
 */
function addEntries(
  client: LeafClient,
  { intent, leaf, upper, words }: LeafRequest,
  rehomed: ReadonlySet<number>,
  own: number,
): void {
  for (let entry = 0; entry < upper.length; entry++) {
    const at = imageOf(client, entry);
    const begin = entry === own || rehomed.has(entry) ? SUM_AT : ITEM_AT;
    const emptied = upper[entry] !== 0 ? ITEM_AT + 8 : ITEM_AT;
    const end = entry === own ? writtenBytes(client, itemHigh(words, at)) : emptied;
    if (begin === end) continue;
    const to = intent.add(FIRST_LEAF, leaf + at + begin - IMAGE_AT, end - begin) >> 2;
    const from = (at + begin) >> 2;
    for (let i = 0; i < (end - begin) >> 2; i++) intent.memory.i32[to + i] = words.i32[from + i];
  }
}

/** Puts the request's new item into the image of its leaf; returns its entry, or NONE. */
function insertLower(client: LeafClient, request: LeafRequest): number {
  const entry = insertInto(client, request, request.words, IMAGE_AT);
  if (entry !== NONE) noteTaken(client, request, entry);
  return entry;
}

/** As `insertLower`, into that of the sibling. */
function insertUpper(client: LeafClient, request: LeafRequest, image: Scratch): number {
  const entry = insertInto(client, request, image, 0);
  if (entry === NONE) return NONE;
  const { low, high } = request.intent.identity(SECOND_LEAF);
  client.sums.seal(image, client.geometry.entryAt(entry), low, high);
  if (client.geometry.perVacancyBit === 1) clearVacancy(image, entry);
  return entry;
}

/** Without a hop: almost always an item of the neighbourhood has gone to the other half. */
function insertInto(client: LeafClient, request: LeafRequest, memory: Scratch, at: number): number {
  const { geometry } = client;
  const { home, record } = request;
  for (let away = 0; away < geometry.shape.neighbourhood; away++) {
    const entry = geometry.after(home, away);
    const there = at + geometry.entryAt(entry);
    if (!isEmpty(itemHigh(memory, there))) continue;
    if (record.version !== record.firstVersion) request.reseal(record.firstVersion);
    encodeItem(client, request, memory, there, record.version | 0);
    const homeAt = at + geometry.entryAt(home);
    setHops(memory, homeAt, hopsOf(memory, homeAt) | (1 << away));
    record.forgetBlock();
    return entry;
  }
  return NONE;
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

/** Moves items of the image to the sibling's; returns the homes that lose some of theirs. */
function share(client: LeafClient, request: LeafRequest, image: Scratch): Set<number> {
  const { geometry, sums } = client;
  const { words, intent, upper } = request;
  const { span } = geometry.shape;
  const { low, high } = intent.identity(SECOND_LEAF);
  const rehomed = new Set<number>();
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
    if (gone !== 0) rehomed.add(entry);
  }
  return rehomed;
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
