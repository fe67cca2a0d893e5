import {
  bytesToValue,
  FLAG_CHAINED,
  HEADER_BYTES,
  headBytes,
  KEY_BYTES_AND_KIND,
  unitsOf,
} from '../../records/layout.ts';
import { Batch, type Operation, UNIT_BYTES } from '../../verbs/index.ts';
import { KEY_UNITS } from '../substrates/record-visits.ts';
import type { KeyOrder } from './key-order.ts';
import type { HalfOpenRange } from './key-range.ts';
import { areSame, compareKeys } from './keys.ts';
import type { LeafPicture } from './leaf-walk.ts';
import type { Part } from './scan-plan.ts';
import { hintOf, isLive, lengthOf, recordOf } from './slot.ts';
import type { ChimeRequest } from './tree.ts';

/**
 * The records of some parts of leaves, read in one doorbell, or what of them holds most keys; keys
 * of over 16 KB (or that end behind what was read) take a second one. Their numbers in `keys` go
 * part by part; those of the i-th part that was posted end before `ends[i]`.
 */
export class RecordReads {
  readonly #request: ChimeRequest;
  readonly #keys: KeyOrder;
  readonly #keysOnly: boolean;
  /** What was posted, in order. */
  readonly parts: Part[] = [];
  readonly ends: number[] = [];
  #bytes = 0;

  /** Of parts of these leaves. */
  constructor(
    request: ChimeRequest,
    leaves: readonly LeafPicture[],
    keys: KeyOrder,
    keysOnly: boolean,
  ) {
    this.#request = request;
    this.#keys = keys;
    this.#keysOnly = keysOnly;
    keys.clear();
    keys.ensure(leaves.reduce((sum, { slots }) => sum + slots.length / 2, 0));
    request.batch.clear();
  }

  /**
   * Adds the READs of a part's records, one for those that lie side by side; how many of these are
   * certainly in the range.
   */
  post(part: Part): number {
    const { batch, incoming } = this.#request;
    const keys = this.#keys;
    const { slots } = part.leaf;
    const { inside } = part;
    let certain = 0;
    let at = this.#bytes;
    /** What has not been posted yet: from an address to before `end`, and where it is read to. */
    let begin = 0;
    let end = 0;
    let beginAt = at;
    for (let i = 0; i < slots.length; i += 2) {
      const low = slots[i];
      const high = slots[i + 1];
      if (!isOf(part, low, high)) continue;
      const hint = hintOf(high);
      const length = unitsRead(high, this.#keysOnly) * UNIT_BYTES;
      // Nothing has been read yet that would be lost.
      if (at + length > incoming.u8.length) incoming.ensure(2 * (at + length));
      const record = recordOf(low, high);
      if (record !== end) {
        if (end > begin) batch.read(begin, end - begin, incoming, beginAt);
        begin = record;
        beginAt = at;
      }
      end = record + length;
      keys.add(at, hint);
      certain += (inside >>> hint) & 1;
      at += length;
    }
    if (end > begin) batch.read(begin, end - begin, incoming, beginAt);
    this.#bytes = at;
    this.parts.push(part);
    this.ends.push(keys.count);
    return certain;
  }

  *read(): Operation<void> {
    const request = this.#request;
    const keys = this.#keys;
    if (keys.count === 0) return;
    yield request.batch;
    const kinds = keys.measure(request.incoming);
    if (this.#keysOnly || ((kinds >>> 24) & FLAG_CHAINED) !== 0) {
      yield* readLong(request, this.parts, keys, this.#bytes, this.#keysOnly);
    }
  }
}

/** Whether an entry is of the part; an empty or claimed one is of none. */
function isOf({ read }: Part, low: number, high: number): boolean {
  return ((read >>> hintOf(high)) & 1) !== 0 && isLive(low, high);
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
  return unitsOf(keysOnly ? bytesToValue(kind) : headBytes(kind & 0xffff));
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
