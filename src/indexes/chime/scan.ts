import {
  FLAG_CHAINED,
  HEADER_BYTES,
  KEY_BYTES_AND_KIND,
  LINK_BYTES,
  unitsOf,
  valueOffset,
} from '../../records/layout.ts';
import { type Address, Batch, type Operation, UNIT_BYTES } from '../../verbs/index.ts';
import { compareWhole } from './keys.ts';
import { LeafWalk } from './leaf-walk.ts';
import { isLive, lengthOf, recordOf } from './slot.ts';
import type { ChimeRequest, ChimeTree } from './tree.ts';

/** A record of a leaf, and where its first block was read to. */
interface Entry {
  record: Address;
  at: number;
  key: Uint8Array;
}

/**
 * A forward scan (CHIME section 4.4): the records from a key on, in the order of their keys, those
 * of one leaf at a time. Each step is an operation of its own.
 *
 * Every key that is present throughout comes exactly once, with a value that was current at some
 * moment of the scan: it has one leaf to be met in, and one slot of that leaf while it is there.
 */
export class ChimeScan {
  readonly #tree: ChimeTree;
  readonly #leaves: LeafWalk;
  readonly #request: ChimeRequest;

  /** Goes on with `from`; undefined is the end. */
  constructor(tree: ChimeTree, from: Uint8Array | undefined) {
    this.#tree = tree;
    this.#leaves = new LeafWalk(tree, from);
    this.#request = tree.newRequest();
  }

  get done(): boolean {
    return this.#leaves.position === undefined;
  }

  /** The lowest key that the scan has not passed; undefined at the end. */
  get position(): Uint8Array | undefined {
    return this.#leaves.position;
  }

  /**
   * Visits the records of the next leaf, maybe none: the visitor finds each as the request's found
   * one, checked and complete. Two round trips, and those of chained values.
   */
  *next(visit: (request: ChimeRequest, keyBytes: number) => void): Operation<void> {
    this.#tree.cache.begin();
    const { slots, lower } = yield* this.#leaves.next();
    const entries = yield* this.#readRecords(slots);
    entries.sort((a, b) => compareWhole(a.key, b.key));
    const request = this.#request;
    let last: Uint8Array | undefined;
    for (const { at, key } of entries) {
      // A key that was removed and came back while the leaf was being read may stand there twice.
      const twice = last !== undefined && compareWhole(last, key) === 0;
      if (twice || compareWhole(key, lower) < 0) continue;
      last = key;
      request.adoptKey(request.incoming, at, key.length, this.#tree.geometry.shape.seed);
      yield* this.#tree.records.complete(request);
      visit(request, key.length);
    }
  }

  /** All records of the leaf in one doorbell; keys of over 16 KB take a second one. */
  *#readRecords(slots: Int32Array): Operation<Entry[]> {
    const { incoming } = this.#request;
    const entries: Entry[] = [];
    const units: number[] = [];
    let bytes = 0;
    for (let i = 0; i < slots.length; i += 2) {
      if (!isLive(slots[i], slots[i + 1])) continue;
      entries.push({ record: recordOf(slots[i], slots[i + 1]), at: bytes, key: NO_KEY });
      units.push(lengthOf(slots[i + 1]));
      bytes += lengthOf(slots[i + 1]) * UNIT_BYTES;
    }
    if (entries.length === 0) return entries;
    incoming.ensure(bytes);
    const batch = new Batch();
    entries.forEach(({ record, at }, i) => {
      batch.read(record, units[i] * UNIT_BYTES, incoming, at);
    });
    yield batch;
    yield* this.#readLong(entries, units, bytes);
    for (const entry of entries) {
      const begin = entry.at + HEADER_BYTES;
      const keyBytes = incoming.i32[(entry.at + KEY_BYTES_AND_KIND) >> 2] & 0xffff;
      entry.key = incoming.u8.slice(begin, begin + keyBytes);
    }
    return entries;
  }

  /** Records whose key and link are longer than a slot can say, again, behind the others. */
  *#readLong(entries: Entry[], units: readonly number[], bytes: number): Operation<void> {
    const { incoming } = this.#request;
    let end = bytes;
    const long: { record: Address; at: number; bytes: number }[] = [];
    entries.forEach((entry, i) => {
      const kind = incoming.i32[(entry.at + KEY_BYTES_AND_KIND) >> 2];
      if (((kind >>> 24) & FLAG_CHAINED) === 0) return;
      const needed = unitsOf(valueOffset(kind & 0xffff) + LINK_BYTES);
      if (needed <= units[i]) return;
      entry.at = end;
      long.push({ record: entry.record, at: end, bytes: needed * UNIT_BYTES });
      end += needed * UNIT_BYTES;
    });
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
}

const NO_KEY = new Uint8Array(0);
