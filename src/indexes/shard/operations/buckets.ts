import {
  type Batch,
  highHalf,
  lowHalf,
  NULL_ADDRESS,
  type Operation,
} from '../../../verbs/index.ts';
import { BUCKETS_AT } from '../../substrates/claims/slot-request.ts';
import { CycleGuard } from '../../substrates/cycle-guard.ts';
import {
  hashOfPlace,
  LEVEL_OF_PLACE,
  LEVEL3_LINK,
  NODE_BYTES,
  NODE_LINK,
  PLACES,
} from '../table/geometry.ts';
import type { ShardRequest } from '../table/request.ts';
import {
  isEmpty,
  isFresh,
  isInUse,
  isLive,
  isOpen,
  isOutdated,
  MATCH_MASK,
  OVERFLOW_MASK,
  PENDING,
  pointerAt,
  SETTLED_MASK,
  stampFor,
  stampOf,
} from '../table/slot.ts';
import type { ShardTable } from '../table/table.ts';

/** A bucket that is of the request's version, and stays so. */
export const SETTLED = 0;
/** The bucket has not been moved to that version yet, or is being moved to it. */
export const BEHIND = 1;
/** The bucket has left that version, or is about to: the table has been resized. */
export const AHEAD = 2;

/** Adds the READ of the key's bucket of level 1, at the version that the client knows. */
export function postLevel1(table: ShardTable, request: ShardRequest, batch: Batch): Batch {
  request.segments = table.segments;
  request.version = request.segments.version;
  request.isWide = false;
  request.forgetNodes();
  table.locateBucket(request, 0);
  return repostLevel1(table, request, batch);
}

/** Begins another attempt. Returns whether this client's move has already read level 1 for it. */
export function isReadAgain(table: ShardTable, request: ShardRequest): boolean {
  const { segments } = table;
  const isCurrent = request.segments === segments && request.version === segments.version;
  const isRead = request.isRead && isCurrent;
  request.isRead = false;
  request.isWide = false;
  request.forgetNodes();
  return isRead;
}

export function repostLevel1(
  { geometry }: ShardTable,
  { addresses, words }: ShardRequest,
  batch: Batch,
): Batch {
  return batch.read(addresses[0], geometry.bucketBytes[0], words, BUCKETS_AT);
}

/** Adds the READs of the key's buckets of levels 2 and 3. */
export function postLower(table: ShardTable, request: ShardRequest, batch: Batch): Batch {
  request.isWide = true;
  request.forgetNodes();
  for (let place = 1; place < PLACES; place++) table.locateBucket(request, place);
  return repostLower(table, request, batch);
}

/** The same READs again, with those of the chain nodes that are known. */
export function repostLower(table: ShardTable, request: ShardRequest, batch: Batch): Batch {
  const { addresses, at, words, nodes, nodesAt } = request;
  for (let place = 1; place < PLACES; place++) {
    const bytes = table.geometry.bucketBytes[LEVEL_OF_PLACE[place]];
    batch.read(addresses[place], bytes, words, at[place]);
  }
  for (let i = 0; i < nodes.length; i++) {
    batch.read(nodes[i], NODE_BYTES, words, nodesAt + i * NODE_BYTES);
  }
  return batch;
}

/** Reads the chain nodes that the words name and that have not been read: one round trip each. */
export function* readChain(request: ShardRequest): Operation<void> {
  if (lastLink(request) === NULL_ADDRESS) return;
  const guard = new CycleGuard();
  for (let link = lastLink(request); link !== NULL_ADDRESS; link = lastLink(request)) {
    guard.pass(link);
    request.growNodes();
    const at = request.nodesAt + request.nodes.length * NODE_BYTES;
    request.nodes.push(link);
    yield request.batch.clear().read(link, NODE_BYTES, request.words, at);
  }
}

/** Offset in the words of the last link that was read. */
export function lastLinkAt({ at, nodes, nodesAt }: ShardRequest): number {
  if (nodes.length === 0) return at[PLACES - 1] + LEVEL3_LINK;
  return nodesAt + (nodes.length - 1) * NODE_BYTES + NODE_LINK;
}

export function lastLink(request: ShardRequest): number {
  // If the bucket is not in use, a slow mover may still write behind its first word.
  if (!isInUse(highHalf(request.words, request.at[PLACES - 1]))) return NULL_ADDRESS;
  return pointerAt(request.words, lastLinkAt(request));
}

/** Whether the bucket that was read for a place is SETTLED, BEHIND or AHEAD. */
export function verdictOf(table: ShardTable, request: ShardRequest, place: number): number {
  const { i32 } = request.words;
  const settled = stampFor(request.version);
  const from = request.at[place] >> 2;
  const end = (request.at[place] + table.geometry.bucketBytes[LEVEL_OF_PLACE[place]]) >> 2;
  for (let word = from; word < end; word += 2) {
    if ((i32[word + 1] & SETTLED_MASK) !== settled) {
      return stampOf(i32[word + 1]) > request.version ? AHEAD : BEHIND;
    }
  }
  return SETTLED;
}

/** The place of a bucket that is not settled; -1 if all buckets that were read are. */
export function unsettledPlace(table: ShardTable, request: ShardRequest): number {
  const first = request.isWide ? PLACES - 1 : 0;
  for (let place = first; place >= 0; place--) {
    if (verdictOf(table, request, place) !== SETTLED) return place;
  }
  return -1;
}

/** Forgets candidates; `gather` then adds to them place by place. */
export function beginGathering(request: ShardRequest): void {
  request.candidates.count = 0;
  request.candidates.mayBeLong = false;
}

/**
 * Collects the live entries of a place that have the key's fingerprint and segment id, in the key's
 * rotated order. Entries of other versions count, too, since a bucket's slots never serve another
 * bucket. A frozen entry counts only if it stays: if it leaves or its bucket is migrated, the new
 * bucket may already have a newer word. Also notes whether all entries are settled.
 */
export function gather(table: ShardTable, request: ShardRequest, place: number): void {
  const { geometry } = table;
  const start = request.at[place];
  if (!isInUse(highHalf(request.words, start))) {
    // A slow mover may have written the other words, in a place that no client uses now.
    request.isSettled = false;
    return;
  }
  const slots = geometry.entries[LEVEL_OF_PLACE[place]];
  const first = place === 0 ? geometry.startSlot(request.hash.h3) : 0;
  const from = start + 8 * first;
  const differing =
    gatherBetween(table, request, place, from, start + 8 * slots) |
    gatherBetween(table, request, place, start, from);
  request.isSettled = differing === 0;
}

/**
 * Takes the first entry of level 1 that matches the key in all fields as the only candidate. Nearly
 * always it is the key's, and near the start of the key's scan. If none matches, `isSettled` says
 * whether all entries are settled, as after `gather`.
 */
export function gatherFirst({ geometry }: ShardTable, request: ShardRequest): void {
  beginGathering(request);
  const { hash, version, words } = request;
  request.isSettled = false;
  if (!isInUse(highHalf(words, BUCKETS_AT))) return;
  const settled = stampFor(version);
  const segmentId = geometry.segmentId(hash.h1, version);
  const wanted = (request.fingerprint << 24) | settled | (segmentId << 4);
  const start = BUCKETS_AT + 8 * geometry.startSlot(hash.h3);
  const end = BUCKETS_AT + geometry.bucketBytes[0];
  const { i32 } = words;
  const differing =
    firstBetween(request, i32, start >> 2, end >> 2, wanted, settled) |
    (request.candidates.count > 0
      ? 0
      : firstBetween(request, i32, BUCKETS_AT >> 2, start >> 2, wanted, settled));
  request.isSettled = request.candidates.count === 0 && (differing & SETTLED_MASK) === 0;
}

/** After `gatherFirst`, if its entry was another key's: collects the others, as `gather` does. */
export function gatherOthers(table: ShardTable, request: ShardRequest): void {
  const tried = request.candidates.count > 0 ? request.candidateSlots[0] : 0;
  beginGathering(request);
  gather(table, request, 0);
  keepCandidates(request, (slot) => slot !== tried);
}

/** Drops the candidates that the test refuses. The others keep their order. */
export function keepCandidates(
  { candidates, candidateSlots }: ShardRequest,
  test: (slot: number) => boolean,
): void {
  let kept = 0;
  for (let i = 0; i < candidates.count; i++) {
    if (test(candidateSlots[i])) candidateSlots[kept++] = candidateSlots[i];
  }
  candidates.count = kept;
}

/**
 * Searches [from, end). Returns the bits in which the words before the match differ from settled.
 */
function firstBetween(
  request: ShardRequest,
  i32: Int32Array,
  from: number,
  end: number,
  wanted: number,
  settled: number,
): number {
  let differing = 0;
  for (let word = from; word < end; word += 2) {
    const high = i32[word + 1];
    if ((high & MATCH_MASK) === wanted) {
      request.candidateSlots[request.candidates.count++] = word << 2;
      return differing;
    }
    differing |= high ^ settled;
  }
  return differing;
}

function gatherBetween(
  { geometry }: ShardTable,
  request: ShardRequest,
  place: number,
  from: number,
  end: number,
): number {
  const { candidateSlots, fingerprint, version } = request;
  const { i32 } = request.words;
  const hash = hashOfPlace(request.hash, place);
  const print = fingerprint << 24;
  const settled = stampFor(version);
  const wanted = print | settled | (geometry.segmentId(hash, version) << 4);
  let count = request.candidates.count;
  let differing = 0;
  for (let word = from >> 2; word < end >> 2; word += 2) {
    const high = i32[word + 1];
    differing |= (high & SETTLED_MASK) ^ settled;
    if ((high & MATCH_MASK) === wanted) candidateSlots[count++] = word << 2;
    else if ((high & 0xff000000) === print && (high & SETTLED_MASK) !== settled) {
      if (isLive(i32[word], high) && !isOutdated(high, version)) {
        candidateSlots[count++] = word << 2;
      }
    }
  }
  request.candidates.count = count;
  return differing;
}

/** Adds the live entries of the chain nodes that have the key's fingerprint. */
export function gatherNodes(request: ShardRequest, pendingToo = false): void {
  const { candidateSlots, fingerprint, nodes, nodesAt, words } = request;
  for (let i = 0; i < nodes.length; i++) {
    const node = nodesAt + i * NODE_BYTES;
    for (let at = node; at < node + NODE_LINK; at += 8) {
      const high = highHalf(words, at);
      if (high >>> 24 !== fingerprint || isEmpty(lowHalf(words, at), high)) continue;
      if (pendingToo || (high & PENDING) === 0) candidateSlots[request.candidates.count++] = at;
    }
  }
}

/** Whether levels 2 and 3 may have keys of the level 1 bucket. */
export function hasOverflowed({ words }: ShardRequest): boolean {
  return (highHalf(words, BUCKETS_AT) & OVERFLOW_MASK) !== 0;
}

/** The first fresh slot of level 1 in the key's rotated order; 0 if there is none. */
export function firstFresh({ geometry }: ShardTable, request: ShardRequest): number {
  const start = geometry.startSlot(request.hash.h3);
  return firstOf(request, BUCKETS_AT, geometry.entries[0], start, isFresh);
}

/** The first slot of level 1 in the key's rotated order that is empty; 0 if there is none. */
export function firstEmpty({ geometry }: ShardTable, request: ShardRequest): number {
  const start = geometry.startSlot(request.hash.h3);
  return firstOf(request, BUCKETS_AT, geometry.entries[0], start, isEmpty);
}

function firstOf(
  { words }: ShardRequest,
  start: number,
  slots: number,
  first: number,
  test: (low: number, high: number) => boolean,
): number {
  for (let i = 0; i < slots; i++) {
    const at = start + 8 * ((first + i) % slots);
    if (test(lowHalf(words, at), highHalf(words, at))) return at;
  }
  return 0;
}

/**
 * An empty slot of level 2 (less loaded bucket first), level 3 or the chain; 0 if there is none.
 */
export function emptyBelow({ geometry }: ShardTable, request: ShardRequest): number {
  const { at, nodes, nodesAt } = request;
  const slots = geometry.entries[1];
  const [, choice1, choice2, level3] = at;
  const [light, heavy] =
    emptySlots(request, choice1, slots) >= emptySlots(request, choice2, slots)
      ? [choice1, choice2]
      : [choice2, choice1];
  const found =
    firstOf(request, light, slots, 0, isEmpty) ||
    firstOf(request, heavy, slots, 0, isEmpty) ||
    firstOf(request, level3, 1, 0, isEmpty);
  if (found !== 0) return found;
  const inNode = NODE_LINK >> 3;
  for (let i = 0; i < nodes.length; i++) {
    const slot = firstOf(request, nodesAt + i * NODE_BYTES, inNode, 0, isOpen);
    if (slot !== 0) return slot;
  }
  return 0;
}

function emptySlots({ words }: ShardRequest, start: number, slots: number): number {
  let count = 0;
  for (let at = start; at < start + 8 * slots; at += 8) {
    if (isEmpty(lowHalf(words, at), highHalf(words, at))) count++;
  }
  return count;
}
