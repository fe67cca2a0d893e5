import {
  FLAG_CHAINED,
  HEADER_BYTES,
  KEY_BYTES_AND_KIND,
  LINK_BYTES,
  unitsOf,
  valueOffset,
} from '../../records/layout.ts';
import { Batch, type Operation, UNIT_BYTES } from '../../verbs/index.ts';
import { KEY_UNITS } from '../record-visits.ts';
import type { KeyOrder } from './key-order.ts';
import type { HalfOpenRange } from './key-range.ts';
import { areSame, compareKeys } from './keys.ts';
import type { Part } from './scan-plan.ts';
import { hintOf, isLive, lengthOf, recordOf } from './slot.ts';
import type { ChimeRequest } from './tree.ts';

/**
 * Reads the records of some parts of leaves in one doorbell, or what of them holds most keys; keys
 * of over 16 KB (or that end behind what was read) take a second one. Their numbers in `keys` go
 * part by part; those of part i end before `ends[i]`.
 */
export function* readRecords(
  request: ChimeRequest,
  parts: readonly Part[],
  keys: KeyOrder,
  keysOnly: boolean,
): Operation<number[]> {
  const { batch, incoming } = request;
  keys.clear();
  keys.ensure(parts.reduce((sum, { leaf }) => sum + leaf.slots.length / 2, 0));
  batch.clear();
  const ends: number[] = [];
  let bytes = 0;
  for (const part of parts) {
    bytes = postRecords(part, request, keys, bytes, keysOnly);
    ends.push(keys.count);
  }
  if (keys.count === 0) return ends;
  yield batch;
  const kinds = keys.measure(incoming);
  if (keysOnly || ((kinds >>> 24) & FLAG_CHAINED) !== 0) {
    yield* readLong(request, parts, keys, bytes, keysOnly);
  }
  return ends;
}

/** Whether an entry is of the part; an empty or claimed one is of none. */
function isOf({ least, most }: Part, low: number, high: number): boolean {
  if (!isLive(low, high)) return false;
  const hint = hintOf(high);
  return hint === 0 || (hint >= least && hint <= most);
}

/** Adds the READs of a part's records, to `bytes` and behind it; where they end. */
function postRecords(
  part: Part,
  { batch, incoming }: ChimeRequest,
  keys: KeyOrder,
  bytes: number,
  keysOnly: boolean,
): number {
  const { slots } = part.leaf;
  let at = bytes;
  for (let i = 0; i < slots.length; i += 2) {
    const low = slots[i];
    const high = slots[i + 1];
    if (!isOf(part, low, high)) continue;
    const length = unitsRead(high, keysOnly) * UNIT_BYTES;
    // Nothing has been read yet that would be lost.
    if (at + length > incoming.u8.length) incoming.ensure(2 * (at + length));
    batch.read(recordOf(low, high), length, incoming, at);
    keys.add(at, hintOf(high));
    at += length;
  }
  return at;
}

function unitsRead(high: number, keysOnly: boolean): number {
  const units = lengthOf(high);
  return keysOnly && units > KEY_UNITS ? KEY_UNITS : units;
}

/** Reads records whose key (and link) end behind what was read again, behind the others. */
function* readLong(
  { incoming }: ChimeRequest,
  parts: readonly Part[],
  keys: KeyOrder,
  bytes: number,
  keysOnly: boolean,
): Operation<void> {
  let end = bytes;
  let number = 0;
  let batch: Batch | undefined;
  for (const part of parts) {
    const { slots } = part.leaf;
    for (let i = 0; i < slots.length; i += 2) {
      const [low, high] = [slots[i], slots[i + 1]];
      if (!isOf(part, low, high)) continue;
      const one = number++;
      const needed = unitsNeeded(incoming.i32[(keys.at[one] + KEY_BYTES_AND_KIND) >> 2], keysOnly);
      if (needed <= unitsRead(high, keysOnly)) continue;
      keys.at[one] = end;
      batch ??= new Batch();
      batch.read(recordOf(low, high), needed * UNIT_BYTES, incoming, end);
      end += needed * UNIT_BYTES;
    }
  }
  if (batch === undefined) return;
  if (end > incoming.u8.length) {
    const records = incoming.u8.slice(0, bytes);
    incoming.ensure(end);
    incoming.u8.set(records, 0);
  }
  yield batch;
}

/** Lines of a record with its whole key, and the link behind it; 0 for those that a slot tells. */
function unitsNeeded(kind: number, keysOnly: boolean): number {
  if (!keysOnly && ((kind >>> 24) & FLAG_CHAINED) === 0) return 0;
  return unitsOf(valueOffset(kind & 0xffff) + (keysOnly ? 0 : LINK_BYTES));
}

/** The places of the order, from `first` to before `end`, whose keys are in the range and part. */
export function placesIn(
  { from, to }: HalfOpenRange,
  u8: Uint8Array,
  keys: KeyOrder,
  part: Part,
  first: number,
  end: number,
): { begin: number; end: number } {
  let [low, high] = [first, end];
  // Entries whose slots have no hint have one now, which may be of another part.
  while (low < high && keys.hintAt(low) !== 0 && keys.hintAt(low) < part.least) low++;
  while (low < high && keys.hintAt(high - 1) > part.most) high--;
  const { borders } = part.leaf;
  const begin = areSame(from, borders.lower) ? low : placeOf(from, u8, keys, low, high);
  const isOpen = to === undefined || areSame(to, borders.upper);
  return { begin, end: isOpen ? high : placeOf(to, u8, keys, begin, high) };
}

/** The first place whose key is not below this one. */
function placeOf(
  key: Uint8Array,
  u8: Uint8Array,
  { sorted, at, keyBytes }: KeyOrder,
  first: number,
  end: number,
): number {
  let low = first;
  let high = end;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const i = sorted[middle];
    const order = compareKeys(u8, at[i] + HEADER_BYTES, keyBytes[i], key, 0, key.length);
    if (order < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}
