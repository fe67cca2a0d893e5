import {
  FLAG_CHAINED,
  HEADER_BYTES,
  KEY_BYTES_AND_KIND,
  LINK_BYTES,
  unitsOf,
  valueOffset,
} from '../../records/layout.ts';
import { type Address, Batch, type Operation, UNIT_BYTES } from '../../verbs/index.ts';
import { KEY_UNITS } from '../record-visits.ts';
import type { HalfOpenRange } from './key-range.ts';
import { compareKeys } from './keys.ts';
import type { LeafPicture } from './leaf-walk.ts';
import { isLive, lengthOf, recordOf } from './slot.ts';
import type { ChimeRequest } from './tree.ts';

/** A record of a leaf, and where its first block was read to. */
export interface Entry {
  record: Address;
  units: number;
  /** Which leaf of the group. */
  leaf: number;
  /** In the request's `incoming`. */
  at: number;
  keyBytes: number;
  /** The key's first bytes as a number, which settles most comparisons. */
  rank: number;
}

const RANK_BYTES = 6;

/**
 * All records of some leaves in one doorbell, or what of them holds most keys; keys of over 16 KB
 * (or that end behind that part) take a second one.
 */
export function* readRecords(
  request: ChimeRequest,
  leaves: readonly LeafPicture[],
  keysOnly = false,
): Operation<Entry[]> {
  const { incoming } = request;
  const entries: Entry[] = [];
  let bytes = 0;
  leaves.forEach(({ slots }, leaf) => {
    for (let i = 0; i < slots.length; i += 2) {
      if (!isLive(slots[i], slots[i + 1])) continue;
      const whole = lengthOf(slots[i + 1]);
      const units = keysOnly ? Math.min(whole, KEY_UNITS) : whole;
      const record = recordOf(slots[i], slots[i + 1]);
      entries.push({ record, units, leaf, at: bytes, keyBytes: 0, rank: 0 });
      bytes += units * UNIT_BYTES;
    }
  });
  if (entries.length === 0) return entries;
  incoming.ensure(bytes);
  const batch = request.batch.clear();
  for (const { record, units, at } of entries) batch.read(record, units * UNIT_BYTES, incoming, at);
  yield batch;
  yield* readLong(request, entries, bytes, keysOnly);
  for (const entry of entries) {
    entry.keyBytes = incoming.i32[(entry.at + KEY_BYTES_AND_KIND) >> 2] & 0xffff;
    entry.rank = rankOf(incoming.u8, entry.at + HEADER_BYTES, entry.keyBytes);
  }
  return entries;
}

function rankOf(u8: Uint8Array, at: number, bytes: number): number {
  let rank = 0;
  for (let i = 0; i < RANK_BYTES; i++) rank = rank * 256 + (i < bytes ? u8[at + i] : 0);
  return rank;
}

/** The order of the keys of two entries that were read into the same memory. */
export function compareEntries(u8: Uint8Array, a: Entry, b: Entry): number {
  if (a.rank !== b.rank) return a.rank - b.rank;
  const [aAt, bAt] = [a.at + HEADER_BYTES, b.at + HEADER_BYTES];
  return compareKeys(u8, aAt, a.keyBytes, u8, bAt, b.keyBytes);
}

/** Whether the entry's key is in the range. */
export function holds({ from, to }: HalfOpenRange, u8: Uint8Array, entry: Entry): boolean {
  const at = entry.at + HEADER_BYTES;
  if (compareKeys(from, 0, from.length, u8, at, entry.keyBytes) > 0) return false;
  return to === undefined || compareKeys(u8, at, entry.keyBytes, to, 0, to.length) < 0;
}

/** Records whose key (and link) end behind what was read, again, behind the others. */
function* readLong(
  { incoming }: ChimeRequest,
  entries: Entry[],
  bytes: number,
  keysOnly: boolean,
): Operation<void> {
  let end = bytes;
  const long: { record: Address; at: number; bytes: number }[] = [];
  for (const entry of entries) {
    const kind = incoming.i32[(entry.at + KEY_BYTES_AND_KIND) >> 2];
    if (!keysOnly && ((kind >>> 24) & FLAG_CHAINED) === 0) continue;
    const needed = unitsOf(valueOffset(kind & 0xffff) + (keysOnly ? 0 : LINK_BYTES));
    if (needed <= entry.units) continue;
    entry.at = end;
    long.push({ record: entry.record, at: end, bytes: needed * UNIT_BYTES });
    end += needed * UNIT_BYTES;
  }
  if (long.length === 0) return;
  if (end > incoming.u8.length) {
    const records = incoming.u8.slice(0, bytes);
    incoming.ensure(end);
    incoming.u8.set(records, 0);
  }
  const batch = new Batch();
  for (const { record, at, bytes: size } of long) batch.read(record, size, incoming, at);
  yield batch;
}
