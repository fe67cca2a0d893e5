import { invariant } from '../../../errors.ts';
import {
  bytesToValue,
  FLAG_CHAINED,
  KEY_BYTES_AND_KIND,
  unitsOf,
  valueOffset,
} from '../../../records/layout.ts';
import { Batch, type Operation, UNIT_BYTES } from '../../../verbs/index.ts';
import { common, type HalfOpenRange, isEmpty as isEmptyRange } from '../../substrates/key-range.ts';
import {
  type EntrySums,
  isEmpty,
  isIndirect,
  itemHigh,
  keyBytesOf,
  linesOf,
  PREFIX_AT,
  recordOf,
} from '../../substrates/leaf/entry.ts';
import { CONTENT_AT } from '../../substrates/leaf/layout.ts';
import { IMAGE_AT } from '../../substrates/leaf/leaf-request.ts';
import { KEY_UNITS } from '../../traversal/visit-records.ts';
import type { ChimeGeometry } from '../geometry.ts';
import { compareKeys, compareWhole } from '../nodes/keys.ts';
import type { Borders } from '../nodes/node-arena.ts';
import type { ChimeRequest } from '../request.ts';
import type { LeafOrders } from './leaf-orders.ts';

/** A leaf as it was at one moment, and the keys of it that count: from `lower` to below `upper`. */
export interface LeafPicture {
  /** Has the leaf's image, until the walk goes on. */
  request: ChimeRequest;
  lower: Uint8Array;
  /** Undefined: there is no higher key. */
  upper: Uint8Array | undefined;
  /** The keys that the leaf may have, whether they count or not. */
  leaf: Borders;
}

/** An indirect item that may be in the range; its record is read to `at`. */
interface ReadRecord {
  entry: number;
  at: number;
}

/** The items of a picture that are, or may be, in a range: inline ones in its request's order. */
export interface LeafItems {
  picture: LeafPicture;
  range: HalfOpenRange;
  records: ReadRecord[];
}

const TORN = -1;

/** What a scan wants of the leaves that it has read. */
export interface Wanted {
  range: HalfOpenRange;
  /** Most records to find, from this end of the range. */
  limit: number;
  reverse: boolean;
  keysOnly: boolean;
}

/** What a client knows of leaves. */
export interface LeafReader {
  readonly geometry: ChimeGeometry;
  readonly sums: EntrySums;
  readonly orders?: LeafOrders;
}

/**
 * Gathers the items of some pictures that are in a range. Reads the records of longer items that
 * are or may be in it into `request.incoming`, in one doorbell. Undefined if an item that counts is
 * being written in a leaf whose order was only remembered.
 */
export function* readItems(
  reader: LeafReader,
  pictures: readonly LeafPicture[],
  wanted: Wanted,
  request: ChimeRequest,
): Operation<LeafItems[] | undefined> {
  const { incoming } = request;
  const { keysOnly } = wanted;
  const items: LeafItems[] = [];
  let end = 0;
  let { limit } = wanted;
  for (const picture of pictures) {
    const range = common({ from: picture.lower, to: picture.upper }, wanted.range);
    const found: LeafItems = { picture, range, records: [] };
    items.push(found);
    if (isEmptyRange(range) || limit === 0) {
      picture.request.order.clear(true);
      continue;
    }
    const count = gather(reader, found, wanted.reverse, limit);
    if (count === TORN) return undefined;
    limit = Math.max(0, limit - count);
    for (const record of found.records) {
      record.at = end;
      end += unitsRead(linesOf(picture.request.words, record.entry), keysOnly) * UNIT_BYTES;
    }
  }
  if (end === 0) return items;
  incoming.ensure(end);
  const batch = request.batch.clear();
  for (const { picture, records } of items) {
    const { words } = picture.request;
    for (const { entry, at } of records) {
      const bytes = unitsRead(linesOf(words, entry), keysOnly) * UNIT_BYTES;
      batch.read(recordOf(words, entry), bytes, incoming, at);
    }
  }
  yield batch;
  yield* readLong(items, request, end, keysOnly);
  return items;
}

function unitsRead(units: number, keysOnly: boolean): number {
  return keysOnly ? Math.min(units, KEY_UNITS) : units;
}

/**
 * Fills the order of a picture's request. Returns how many items it has that are in the range for
 * sure, or TORN when an item that counts is being written.
 */
function gather(reader: LeafReader, found: LeafItems, reverse: boolean, limit: number): number {
  const { request, leaf } = found.picture;
  const { order, words } = request;
  if (!order.isSorted) {
    if (!addInline(reader.geometry, request)) {
      return addInRange(reader.geometry, found, reverse, limit);
    }
    order.sort(words, words);
    reader.orders?.note(request);
  }
  const isWhole = covers(found.range, leaf);
  const { from, to } = found.range;
  const first = isWhole ? 0 : countBelow(reader, request, from);
  const end = isWhole || to === undefined ? order.count : countBelow(reader, request, to);
  if (first === TORN || end === TORN) return TORN;
  order.first = reverse ? Math.max(first, end - limit) : first;
  order.end = reverse ? end : Math.min(end, first + limit);
  if (!order.isVerified && !areWhole(reader, request)) return TORN;
  return order.end - order.first;
}

/** How many keys of a sorted leaf are below another one, or TORN. */
function countBelow({ sums }: LeafReader, request: ChimeRequest, key: Uint8Array): number {
  const { order, words, idLow, idHigh } = request;
  let low = 0;
  for (let high = order.count; low < high; ) {
    const middle = (low + high) >>> 1;
    const one = order.sorted[middle];
    const at = order.at[one];
    if (!order.isVerified && !sums.holds(words, at, idLow, idHigh)) return TORN;
    const bytes = order.keyBytes[one];
    if (compareKeys(words.u8, at + CONTENT_AT, bytes, key, 0, key.length) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Whether the items that a scan will visit are whole. */
function areWhole({ sums }: LeafReader, { order, words, idLow, idHigh }: ChimeRequest): boolean {
  const { at, sorted, first, end } = order;
  for (let i = first; i < end; i++) {
    if (!sums.holds(words, at[sorted[i]], idLow, idHigh)) return false;
  }
  return true;
}

/** Adds all items of a leaf. False if one is indirect. */
function addInline({ entriesAt }: ChimeGeometry, { order, words }: ChimeRequest): boolean {
  for (let entry = 0; entry < entriesAt.length; entry++) {
    const at = IMAGE_AT + entriesAt[entry];
    const item = itemHigh(words, at);
    if (isEmpty(item)) continue;
    if (isIndirect(item)) return false;
    order.add(at, keyBytesOf(item), false);
  }
  order.end = order.count;
  return true;
}

/**
 * Adds the items in the range, and records that may be in it; returns how many certainly are. It
 * leaves out records that `limit` or more items precede.
 */
function addInRange(
  geometry: ChimeGeometry,
  { picture, range, records }: LeafItems,
  reverse: boolean,
  limit: number,
): number {
  const { words, order } = picture.request;
  const { entriesAt } = geometry;
  const prefixMax = geometry.itemBytes - PREFIX_AT;
  const isWhole = covers(range, picture.leaf);
  const sure: Prefix[] = [];
  const isLimited = limit < entriesAt.length;
  let count = 0;
  order.clear(true);
  for (let entry = 0; entry < entriesAt.length; entry++) {
    const at = IMAGE_AT + entriesAt[entry];
    const item = itemHigh(words, at);
    if (isEmpty(item)) continue;
    if (isIndirect(item)) {
      const place = isWhole ? SURE : placeOf(words.u8, at + PREFIX_AT, prefixMax, range);
      if (place === OUTSIDE) continue;
      records.push({ entry: at, at: 0 });
      if (place !== SURE) continue;
      count++;
      if (isLimited) sure.push({ at: at + PREFIX_AT, bytes: prefixMax });
    } else if (isWhole || isIn(words.u8, at + CONTENT_AT, keyBytesOf(item), range)) {
      order.add(at, keyBytesOf(item), false);
      count++;
      const bytes = Math.min(prefixMax, keyBytesOf(item));
      if (isLimited) sure.push({ at: at + CONTENT_AT, bytes });
    }
  }
  order.end = order.count;
  if (count <= limit) return count;
  const direction = reverse ? -1 : 1;
  const compare = (a: Prefix, b: Prefix) => direction * comparePadded(words.u8, a, b);
  const last = sure.sort(compare)[limit - 1];
  const isNear = ({ entry }: ReadRecord) =>
    compare({ at: entry + PREFIX_AT, bytes: prefixMax }, last) <= 0;
  records.splice(0, records.length, ...records.filter(isNear));
  return limit;
}

/** The first bytes of a key, at most as many as an indirect item has. */
interface Prefix {
  at: number;
  bytes: number;
}

/** As if both were padded with zeros. */
function comparePadded(u8: Uint8Array, a: Prefix, b: Prefix): number {
  for (let i = 0; i < Math.max(a.bytes, b.bytes); i++) {
    const difference = (i < a.bytes ? u8[a.at + i] : 0) - (i < b.bytes ? u8[b.at + i] : 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

function covers({ from, to }: HalfOpenRange, { lower, upper }: Borders): boolean {
  if (compareWhole(from, lower) > 0) return false;
  return to === undefined || (upper !== undefined && compareWhole(to, upper) >= 0);
}

function isIn(u8: Uint8Array, at: number, bytes: number, { from, to }: HalfOpenRange): boolean {
  if (compareKeys(u8, at, bytes, from, 0, from.length) < 0) return false;
  return to === undefined || compareKeys(u8, at, bytes, to, 0, to.length) < 0;
}

const OUTSIDE = 0;
const UNSURE = 1;
const SURE = 2;

/** Whether a key that begins with these bytes, or ends and is padded with zeros, is in a range. */
function placeOf(u8: Uint8Array, at: number, bytes: number, { from, to }: HalfOpenRange): number {
  const [low, high] = [Math.min(bytes, from.length), Math.min(bytes, to?.length ?? 0)];
  const above = compareKeys(u8, at, low, from, 0, low);
  const below = to === undefined ? -1 : compareKeys(u8, at, high, to, 0, high);
  if (above < 0 || below > 0) return OUTSIDE;
  return (above > 0 || low === 0) && below < 0 ? SURE : UNSURE;
}

/** Reads those records again, behind the others, whose key, link or times were cut off. */
function* readLong(
  items: readonly LeafItems[],
  { incoming }: ChimeRequest,
  bytes: number,
  keysOnly: boolean,
): Operation<void> {
  const again: { record: ReadRecord; address: number; needed: number }[] = [];
  let end = bytes;
  for (const { picture, records } of items) {
    const { words } = picture.request;
    for (const record of records) {
      const kind = incoming.i32[(record.at + KEY_BYTES_AND_KIND) >> 2];
      if (!keysOnly && ((kind >>> 24) & FLAG_CHAINED) === 0) continue;
      const needed = unitsOf(bytesToValue(kind));
      if (needed <= unitsRead(linesOf(words, record.entry), keysOnly)) continue;
      again.push({ record, address: recordOf(words, record.entry), needed });
      end += needed * UNIT_BYTES;
    }
  }
  if (again.length === 0) return;
  const read = incoming.u8.slice(0, bytes);
  incoming.ensure(end);
  incoming.u8.set(read, 0);
  const batch = new Batch();
  end = bytes;
  for (const { record, address, needed } of again) {
    record.at = end;
    batch.read(address, needed * UNIT_BYTES, incoming, end);
    end += needed * UNIT_BYTES;
  }
  yield batch;
}

/** Adds the items in records, if they are in range, to the order of the others. */
export function addRecords(
  { picture, range, records }: LeafItems,
  { incoming }: ChimeRequest,
): void {
  const { order } = picture.request;
  for (const { at } of records) {
    const keyBytes = incoming.i32[(at + KEY_BYTES_AND_KIND) >> 2] & 0xffff;
    invariant(at + valueOffset(keyBytes) <= incoming.u8.length, 'a key is longer than its record');
    if (isIn(incoming.u8, at + CONTENT_AT, keyBytes, range)) order.add(at, keyBytes, true);
  }
  if (records.length > 0) order.end = order.count;
}
