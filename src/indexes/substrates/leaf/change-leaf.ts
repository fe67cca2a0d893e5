import { invariant } from '../../../errors.ts';
import { FIRST_LEAF } from '../../../pool/intents/intent.ts';
import { NO_SLOT } from '../../../pool/intents/intent-slots.ts';
import { pad8, HEADER_BYTES as RECORD_HEADER_BYTES, valueOffset } from '../../../records/layout.ts';
import { flagsOf } from '../../../records/times.ts';
import {
  type Address,
  type Batch,
  NULL_ADDRESS,
  type Operation,
  readInteger,
  type Scratch,
  writeInteger,
} from '../../../verbs/index.ts';
import {
  hopsOf,
  indirectItem,
  inlineItem,
  isEmpty,
  itemHigh,
  LINES_AT,
  PREFIX_AT,
  RECORD_AT,
  setHops,
} from './entry.ts';
import { CONTENT_AT, ITEM_AT, SEQUENCE_AT, SUM_AT, VACANCY_AT } from './layout.ts';
import type { LeafClient } from './leaf-client.ts';
import { IMAGE_AT, type LeafRequest } from './leaf-request.ts';
import { makeRoom, noteEmptied, noteTaken } from './make-room.ts';
import { imageOf } from './read-leaf.ts';

/**
 * Writes the request's new item and its checksum into the entry at `entry` of `memory`; keeps the
 * entry's hop bitmap.
 */
export function encodeItem(
  client: LeafClient,
  request: LeafRequest,
  memory: Scratch,
  entry: number,
  version: number,
): void {
  const { keyBytes, outgoing, inline } = request;
  const { valueBytes, codec: valueCodec } = request.record;
  const { geometry } = client;
  const { i32 } = memory;
  const content = (entry + CONTENT_AT) >> 2;
  const item = (entry + ITEM_AT) >> 2;
  const from = RECORD_HEADER_BYTES >> 2;
  i32[item] = version;
  if (inline) {
    i32[item + 1] = inlineItem(keyBytes, valueBytes, valueCodec, flagsOf(request.record.expiry));
    const words = (pad8(keyBytes) + pad8(valueBytes)) >> 2;
    for (let i = 0; i < words; i++) i32[content + i] = outgoing.i32[from + i];
  } else {
    invariant(request.record.block > 0, 'an item has no record');
    i32[item + 1] = indirectItem(keyBytes);
    i32[content] = request.fingerprint;
    i32[(entry + LINES_AT) >> 2] = request.record.headUnits;
    writeInteger(memory, entry + RECORD_AT, request.record.block);
    const prefix = (entry + PREFIX_AT) >> 2;
    const room = (geometry.itemBytes - PREFIX_AT) >> 2;
    const words = Math.min(room, pad8(keyBytes) >> 2);
    for (let i = 0; i < room; i++) i32[prefix + i] = i < words ? outgoing.i32[from + i] : 0;
  }
  if (geometry.accessAt > 0) {
    const times = valueOffset(keyBytes) >> 2;
    const access = (entry + geometry.accessAt) >> 2;
    for (let i = 0; i < 2; i++) i32[access + i] = outgoing.i32[times + i];
  }
  client.sums.seal(memory, entry, request.idLow, request.idHigh);
}

/** Bytes to write of an entry with this item; the whole entry if it has an access word. */
export function writtenBytes({ geometry, sums }: LeafClient, item: number): number {
  return geometry.accessAt > 0 ? geometry.entryBytes : sums.usedBytes(item);
}

/** D[intent; (record's header); entry; owner]: gives the found item the request's value. */
export function* updateItem(client: LeafClient, request: LeafRequest): Operation<void> {
  const { intent, words, entry, leaf, outgoing, inline } = request;
  const { block } = request.record;
  const version = (request.found.version + 1) >>> 0;
  request.reseal(version);
  if (!inline) {
    // The record's version is known only now, and no other client knows the record yet.
    const at = intent.add(FIRST_LEAF, block, RECORD_HEADER_BYTES);
    for (let i = 0; i < RECORD_HEADER_BYTES >> 2; i++) {
      intent.memory.i32[(at >> 2) + i] = outgoing.i32[i];
    }
  }
  invariant(!isEmpty(itemHigh(words, entry)), 'an entry is updated that has no item');
  const item = inline
    ? inlineItem(request.keyBytes, request.record.valueBytes, 0, 0)
    : indirectItem(0);
  const at = intent.add(FIRST_LEAF, leaf + entry - IMAGE_AT, writtenBytes(client, item));
  setHops(intent.memory, at, hopsOf(words, entry));
  encodeItem(client, request, intent.memory, at, version);
  request.writtenAt = at;
  // From here on the record is linked, by this client or by one that repairs.
  request.record.forgetBlock();
  yield* carryOut(client, request, NULL_ADDRESS);
  yield* retireOld(client, request);
}

/** D[intent; access word; owner]: restarts the expiry of the found inline item, after a read. */
export function* touchItem(client: LeafClient, request: LeafRequest): Operation<void> {
  const { intent, leaf, timesAt } = request;
  const at = intent.add(FIRST_LEAF, leaf + timesAt - IMAGE_AT, 8);
  client.records.writeAccess(intent.memory, at);
  yield* carryOut(client, request, NULL_ADDRESS);
}

/**
 * D[intent; sequence odd; entries; hop bitmaps; vacancy; sequence even; owner]: inserts the
 * request's item, whose key is absent, into its neighbourhood. If the nearest empty entry is too
 * far, hops bring it near, which may take one more READ. False if that is impossible: then nothing
 * has changed, and the leaf is still locked.
 */
export function* insertItem(client: LeafClient, request: LeafRequest): Operation<boolean> {
  const free = yield* makeRoom(client, request);
  if (free < 0) return false;
  if (request.moves > 0) client.hops++;
  if (request.record.version !== request.record.firstVersion)
    request.reseal(request.record.firstVersion);
  const { words, home, moves, moved, homes } = request;
  const { geometry } = client;
  invariant(isEmpty(itemHigh(words, imageOf(client, free))), 'an entry gets a second item');
  const distance = geometry.distance(home, free);
  invariant(distance < geometry.shape.neighbourhood, 'an item is put outside its neighbourhood');
  encodeItem(client, request, words, imageOf(client, free), request.record.version | 0);
  const homeEntry = imageOf(client, home);
  setHops(words, homeEntry, hopsOf(words, homeEntry) | (1 << distance));
  addSequence(request, 1);
  // An item's new copy is written before its old one is overwritten, so no search misses both.
  moved[moves] = free;
  homes[moves] = home;
  for (let i = 0; i <= moves; i++) addEntry(client, request, moved[i]);
  for (let i = 0; i <= moves; i++) {
    if (!isAmong(moved, moves, homes[i])) addHops(client, request, homes[i]);
  }
  // Only the first entry was empty; each of the others was emptied by the hop before.
  noteTaken(client, request, moved[0]);
  addVacancy(request);
  addSequence(request, 2);
  request.record.forgetBlock();
  yield* carryOut(client, request, NULL_ADDRESS);
  return true;
}

function isAmong(entries: Int32Array, last: number, entry: number): boolean {
  const at = entries.indexOf(entry);
  return at >= 0 && at <= last;
}

/** D[intent; sequence odd; entry; hop bitmap; vacancy; sequence even; owner]. */
export function* removeItem(client: LeafClient, request: LeafRequest): Operation<void> {
  const { intent, words, entry, leaf, home } = request;
  const { geometry } = client;
  const at = entry - IMAGE_AT;
  const position = geometry.entryOf(at);
  const homeEntry = imageOf(client, home);
  const [hops, own] = [hopsOf(words, homeEntry), 1 << geometry.distance(home, position)];
  invariant((hops & own) !== 0, 'the home of a removed item does not name it');
  setHops(words, homeEntry, hops & ~own);
  addSequence(request, 1);
  intent.addWord(FIRST_LEAF, leaf + at + ITEM_AT, 0, 0);
  addHops(client, request, home);
  noteEmptied(client, request, position);
  addVacancy(request);
  addSequence(request, 2);
  yield* carryOut(client, request, NULL_ADDRESS);
  yield* retireOld(client, request);
}

/** The last batch of an operation under the lock: D[before; intent; writes; …; owner; behind]. */
export function* carryOut(
  { pool }: LeafClient,
  request: LeafRequest,
  block: Address,
  before?: (batch: Batch) => void,
  behind?: (batch: Batch) => void,
): Operation<void> {
  const { intent, slot, leaf, batch } = request;
  invariant(request.locked && slot !== NO_SLOT, 'a leaf is changed without its lock');
  intent.addRelease(FIRST_LEAF);
  batch.clear();
  before?.(batch);
  intent.postWhole(pool.intents.address(pool.layout.nodeOf(leaf), slot), batch, block);
  intent.postWrites(batch);
  behind?.(batch);
  // If the batch fails, its intent may be whole. Then this operation must not free the lock, and no
  // other may use the slot, which the lock names.
  request.locked = false;
  request.slot = NO_SLOT;
  yield batch;
  request.slot = slot;
}

/** Retires the record of the found item, which was replaced or removed. */
function* retireOld({ records }: LeafClient, request: LeafRequest): Operation<void> {
  if (request.found.isInline) return;
  const { foundRecord } = request;
  if (request.found.isChained) yield* records.retireChain(request, foundRecord);
  else records.retireFound(request, foundRecord, request.foundLines);
}

/** Adds the WRITE of the sequence: as it was read, plus `more`. */
export function addSequence({ intent, leaf, words }: LeafRequest, more: number): void {
  // An intent that makes it odd makes it even again before it unlocks.
  const seen = words.i32[(IMAGE_AT + SEQUENCE_AT) >> 2];
  invariant((seen & 1) === 0, 'the sequence of a locked leaf is odd');
  const at = intent.add(FIRST_LEAF, leaf + SEQUENCE_AT, 8);
  writeInteger(intent.memory, at, readInteger(words, IMAGE_AT + SEQUENCE_AT) + more);
}

/** Adds the WRITE of a whole entry of the image. */
function addEntry(client: LeafClient, request: LeafRequest, entry: number): void {
  const { intent, leaf, words } = request;
  const from = imageOf(client, entry);
  const bytes = writtenBytes(client, itemHigh(words, from));
  const at = intent.add(FIRST_LEAF, leaf + from - IMAGE_AT, bytes);
  for (let i = 0; i < bytes >> 2; i++)
    intent.memory.i32[(at >> 2) + i] = words.i32[(from >> 2) + i];
}

/** Adds the WRITE of the word with an entry's hop bitmap. */
function addHops(client: LeafClient, { intent, leaf, words }: LeafRequest, entry: number): void {
  const from = imageOf(client, entry) + SUM_AT;
  const { i32 } = words;
  intent.addWord(FIRST_LEAF, leaf + from - IMAGE_AT, i32[from >> 2], i32[(from >> 2) + 1]);
}

export function addVacancy({ intent, leaf, words }: LeafRequest): void {
  const { i32 } = words;
  const from = (IMAGE_AT + VACANCY_AT) >> 2;
  intent.addWord(FIRST_LEAF, leaf + VACANCY_AT, i32[from], i32[from + 1]);
}
