import { pad8, HEADER_BYTES as RECORD_HEADER_BYTES } from '../../../records/layout.ts';
import { type Batch, type Operation, type Scratch, UNIT_BYTES } from '../../../verbs/index.ts';
import {
  codecOf,
  fingerprintOf,
  flagsIn,
  hopsOf,
  isEmpty,
  isIndirect,
  itemHigh,
  keyBytesOf,
  linesOf,
  PREFIX_AT,
  recordOf,
  valueAt,
  valueBytesOf,
  versionOf,
} from './entry.ts';
import {
  BOUNDS_READ_BYTES,
  CONTENT_AT,
  HEADER_BYTES,
  IDENTITY_AT,
  SEQUENCE_AT,
  VACANCY_AT,
} from './layout.ts';
import type { LeafClient } from './leaf-client.ts';
import { FIRST_SEQUENCE_AT, IMAGE_AT, type LeafRequest } from './leaf-request.ts';

/** Identity and sequence. */
const LAST_READ_BYTES = 16;

/** Offset in a request's words of an entry. */
export function imageOf({ geometry }: LeafClient, entry: number): number {
  return IMAGE_AT + geometry.entryAt(entry);
}

/** Sets the key's home and fingerprint. */
export function prepare({ geometry }: LeafClient, request: LeafRequest): void {
  request.home = geometry.homeOf(request.hash.h2);
  request.fingerprint = request.hash.h1;
  request.forgetHolder();
}

/** Adds the READs of `count` entries from `first` on, wrapping around. */
export function postEntries(
  { geometry }: LeafClient,
  { leaf, words }: LeafRequest,
  first: number,
  count: number,
  batch: Batch,
): Batch {
  const { entryBytes } = geometry;
  const straight = Math.min(count, geometry.shape.span - first);
  const at = geometry.startAt(first);
  const end = geometry.entryAt(first + straight - 1) + entryBytes;
  batch.read(leaf + at, end - at, words, IMAGE_AT + at);
  if (straight < count) {
    const bytes = geometry.entryAt(count - straight - 1) + entryBytes - HEADER_BYTES;
    batch.read(leaf + HEADER_BYTES, bytes, words, IMAGE_AT + HEADER_BYTES);
  }
  return batch;
}

/** Adds the READs of a search. */
export function postSearch(client: LeafClient, request: LeafRequest, batch: Batch): Batch {
  return postBracket(client, request, request.home, client.geometry.shape.neighbourhood, batch);
}

/** Adds the READ of the neighbourhood alone, without the proof of a miss. */
export function postNeighbourhood(client: LeafClient, request: LeafRequest, batch: Batch): Batch {
  const { neighbourhood } = client.geometry.shape;
  request.known = neighbourhood;
  return postEntries(client, request, request.home, neighbourhood, batch);
}

/** Adds D[READ sequence; (bounds); entries; identity and sequence]: see `isStill`. */
export function postBracket(
  client: LeafClient,
  request: LeafRequest,
  first: number,
  count: number,
  batch: Batch,
): Batch {
  const { leaf, words } = request;
  request.known = count;
  batch.read(leaf + SEQUENCE_AT, 8, words, FIRST_SEQUENCE_AT);
  if (request.readsBounds) {
    batch.read(leaf + VACANCY_AT, BOUNDS_READ_BYTES, words, IMAGE_AT + VACANCY_AT);
  }
  postEntries(client, request, first, count, batch);
  return batch.read(leaf + IDENTITY_AT, LAST_READ_BYTES, words, IMAGE_AT + IDENTITY_AT);
}

/** Adds D[READ sequence; READ bounds; READ identity and sequence]. */
export function postHeader({ leaf, words }: LeafRequest, batch: Batch): Batch {
  batch.read(leaf + SEQUENCE_AT, 8, words, FIRST_SEQUENCE_AT);
  batch.read(leaf + VACANCY_AT, BOUNDS_READ_BYTES, words, IMAGE_AT + VACANCY_AT);
  return batch.read(leaf + IDENTITY_AT, LAST_READ_BYTES, words, IMAGE_AT + IDENTITY_AT);
}

/** Whether the image is of the request's leaf. */
export function isLeafStill({ words, idLow, idHigh }: LeafRequest): boolean {
  const { i32 } = words;
  return i32[(IMAGE_AT + 8) >> 2] === idLow && i32[(IMAGE_AT + 12) >> 2] === idHigh;
}

/**
 * Whether no key of the leaf was inserted, removed or moved while entries and bounds were read: the
 * sequence was even, and the same before and after. The bounds have a READ of their own in between,
 * because words of one READ come in any order. Bounds read together with the last sequence could
 * belong to a split that came after it.
 */
export function isStill({ words }: LeafRequest): boolean {
  const { i32 } = words;
  const before = FIRST_SEQUENCE_AT >> 2;
  const after = (IMAGE_AT + SEQUENCE_AT) >> 2;
  if ((i32[before] & 1) !== 0) return false;
  return i32[before] === i32[after] && i32[before + 1] === i32[after + 1];
}

/**
 * Looks for the key among the items of its home. True if an inline item has it; that becomes the
 * found one. Gathers indirect items that may have it as candidates.
 */
export function lookInNeighbourhood(client: LeafClient, request: LeafRequest): boolean {
  const { geometry } = client;
  const { words, home } = request;
  request.candidates.count = 0;
  for (let hops = hopsOf(words, imageOf(client, home)); hops !== 0; hops &= hops - 1) {
    const distance = 31 - Math.clz32(hops & -hops);
    if (distance >= geometry.shape.neighbourhood) return false;
    if (isKey(client, request, imageOf(client, geometry.after(home, distance)))) return true;
  }
  return false;
}

/** As `lookInNeighbourhood`, but ignores the hop bitmap, which may be stale while keys move. */
export function lookEverywhere(client: LeafClient, request: LeafRequest): boolean {
  const { geometry } = client;
  request.candidates.count = 0;
  for (let distance = 0; distance < geometry.shape.neighbourhood; distance++) {
    const entry = imageOf(client, geometry.after(request.home, distance));
    if (isKey(client, request, entry)) return true;
  }
  return false;
}

/** Adds the speculative READ of one entry (CHIME section 4.3). */
export function postSpot(
  client: LeafClient,
  request: LeafRequest,
  spot: number,
  batch: Batch,
): Batch {
  const { geometry } = client;
  const at = geometry.entryAt(spot);
  return batch.read(request.leaf + at, geometry.entryBytes, request.words, IMAGE_AT + at);
}

/** As `lookInNeighbourhood`, for one entry. */
export function lookAtSpot(client: LeafClient, request: LeafRequest, spot: number): boolean {
  request.candidates.count = 0;
  return isKey(client, request, imageOf(client, spot));
}

/**
 * Whether the entry holds the key in a whole inline item, then the found one. Notes a candidate.
 */
function isKey(client: LeafClient, request: LeafRequest, entry: number): boolean {
  const { words, keyBytes, idLow, idHigh } = request;
  const item = itemHigh(words, entry);
  if (isEmpty(item) || keyBytesOf(item) !== (keyBytes & 0xff)) return false;
  if (isIndirect(item)) {
    if (fingerprintOf(words, entry) !== request.fingerprint) return false;
    if (!isPrefix(client, request, entry)) return false;
    if (client.sums.holds(words, entry, idLow, idHigh)) addCandidate(request, entry);
    return false;
  }
  if (!isSameKey(request, entry + CONTENT_AT, pad8(keyBytes))) return false;
  if (!client.sums.holds(words, entry, idLow, idHigh)) return false;
  adoptInline(request, words, entry);
  return true;
}

/** Makes the inline item at `entry` of `words` the found one. */
export function adoptInline(request: LeafRequest, words: Scratch, entry: number): void {
  const item = itemHigh(words, entry);
  const version = versionOf(words, entry);
  const [bytes, codec] = [valueBytesOf(item), codecOf(item)];
  request.entry = entry;
  request.foundEntry = entry;
  request.found.adoptItem(words, entry + valueAt(item), bytes, codec, flagsIn(item), version);
}

/** Copies the found inline item, whose entry is about to be overwritten. */
export function keepFound({ geometry }: LeafClient, request: LeafRequest): void {
  const { words, entry, incoming } = request;
  incoming.ensure(geometry.entryBytes);
  incoming.u8.set(words.u8.subarray(entry, entry + geometry.entryBytes), 0);
  adoptInline(request, incoming, 0);
  request.entry = entry;
}

function isSameKey({ words, outgoing }: LeafRequest, at: number, bytes: number): boolean {
  const theirs = words.i32;
  const ours = outgoing.i32;
  const key = RECORD_HEADER_BYTES >> 2;
  for (let i = 0; i < bytes >> 2; i++) if (theirs[(at >> 2) + i] !== ours[key + i]) return false;
  return true;
}

function isPrefix({ geometry }: LeafClient, request: LeafRequest, entry: number): boolean {
  const room = geometry.itemBytes - PREFIX_AT;
  return isSameKey(request, entry + PREFIX_AT, Math.min(room, pad8(request.keyBytes)));
}

function addCandidate(request: LeafRequest, entry: number): void {
  const { words } = request;
  const i = request.candidates.count++;
  request.candidates.at[i] = entry;
  request.candidates.records[i] = recordOf(words, entry);
  request.candidates.units[i] = linesOf(words, entry);
}

/** Adds the READ of a candidate's record. */
export function postCandidate(request: LeafRequest, i: number, batch: Batch): Batch {
  const { incoming } = request;
  const { records: candidateRecord, units: candidateUnits } = request.candidates;
  const bytes = candidateUnits[i] * UNIT_BYTES;
  incoming.ensure(bytes);
  return batch.read(candidateRecord[i], bytes, incoming, 0);
}

/** Whether the candidate's record, which was read, has the key; it is then the found one. */
export function isCandidate(request: LeafRequest, i: number): boolean {
  if (!request.matches(0)) return false;
  request.entry = request.candidates.at[i];
  request.foundRecord = request.candidates.records[i];
  request.foundLines = request.candidates.units[i];
  return true;
}

/** Reads the candidates' records one by one: fingerprint and prefix seldom match by chance. */
export function* lookAtCandidates(request: LeafRequest): Operation<boolean> {
  for (let i = 0; i < request.candidates.count; i++) {
    yield postCandidate(request, i, request.batch.clear());
    if (isCandidate(request, i)) return true;
  }
  return false;
}

/**
 * Whether every item that the hop bitmap of the key's home names is whole. If the leaf was still, a
 * key that is not among them is absent. An item that is being written may have any key.
 */
export function isNeighbourhoodWhole(client: LeafClient, request: LeafRequest): boolean {
  const { geometry, sums } = client;
  const { words, home, idLow, idHigh } = request;
  for (let hops = hopsOf(words, imageOf(client, home)); hops !== 0; hops &= hops - 1) {
    const distance = 31 - Math.clz32(hops & -hops);
    if (distance >= geometry.shape.neighbourhood) return false;
    const entry = imageOf(client, geometry.after(home, distance));
    if (isEmpty(itemHigh(words, entry)) || !sums.holds(words, entry, idLow, idHigh)) return false;
  }
  return true;
}
