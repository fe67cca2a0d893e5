import { HASH_PADDING, KeyHash } from '../../../records/hash.ts';
import { HEADER_BYTES, KEY_BYTES_AND_KIND, pad8 } from '../../../records/layout.ts';
import { Batch, type Operation, Scratch, UNIT_BYTES } from '../../../verbs/index.ts';
import { recordOf, unitsOfEntry } from '../segments/entry.ts';

/** Lines of a record that are read first; a longer key costs another READ. */
const KEY_UNITS = 4;
/** Records that are read in one doorbell. */
const RECORDS_AT_ONCE = 128;

/** Reads the keys of records, many in a doorbell: for merges and splits. */
export class RecordKeys {
  /** The beginnings of the records, one after the other. */
  readonly #records = new Scratch(RECORDS_AT_ONCE * UNIT_BYTES);
  #offsets = new Int32Array(RECORDS_AT_ONCE);
  /** Keys longer than KEY_UNITS, by index of the entry. */
  readonly #long = new Map<number, Scratch>();
  readonly #key = new Scratch(KEY_UNITS * UNIT_BYTES + 2 * HASH_PADDING);
  readonly #hash = new KeyHash();
  readonly #batch = new Batch();
  readonly #seed: number;

  constructor(seed: number) {
    this.#seed = seed;
  }

  /** Reads the keys of entries (pairs of halves), for `same`. */
  *load(entries: Int32Array): Operation<void> {
    const count = entries.length / 2;
    if (this.#offsets.length < count) this.#offsets = new Int32Array(2 * count);
    this.#records.ensure(this.#place(entries));
    for (let first = 0; first < count; first += RECORDS_AT_ONCE) {
      yield this.#postSome(entries, first, Math.min(count, first + RECORDS_AT_ONCE));
    }
    this.#long.clear();
    for (let i = 0; i < count; i++) {
      const bytes = this.#keyBytes(i);
      if (HEADER_BYTES + bytes <= KEY_UNITS * UNIT_BYTES) continue;
      const key = new Scratch(bytes + 2 * HASH_PADDING);
      const record = recordOf(entries[2 * i], entries[2 * i + 1]);
      yield this.#batch.clear().read(record + HEADER_BYTES, pad8(bytes), key, 0);
      this.#long.set(i, key);
    }
  }

  /** Whether two of the records that were loaded have the same key. */
  same(one: number, other: number): boolean {
    const bytes = this.#keyBytes(one);
    if (bytes !== this.#keyBytes(other)) return false;
    // Keys are padded with zeros to a whole word.
    const words = pad8(bytes) >> 2;
    const first = this.#keyWords(one);
    const second = this.#keyWords(other);
    const firstAt = this.#keyAt(one);
    const secondAt = this.#keyAt(other);
    for (let i = 0; i < words; i++) if (first[firstAt + i] !== second[secondAt + i]) return false;
    return true;
  }

  /** For each entry, the hash word of its key that chooses the segment. */
  *hashes(entries: Int32Array): Operation<Int32Array> {
    const hashes = new Int32Array(entries.length / 2);
    for (let first = 0; first < entries.length; first += 2 * RECORDS_AT_ONCE) {
      const some = entries.subarray(first, first + 2 * RECORDS_AT_ONCE);
      yield* this.load(some);
      for (let i = 0; i < some.length / 2; i++) hashes[first / 2 + i] = this.#hashOf(i);
    }
    return hashes;
  }

  #hashOf(i: number): number {
    const bytes = this.#keyBytes(i);
    const key = this.#key;
    key.ensure(bytes + 2 * HASH_PADDING);
    const from = this.#keyAt(i);
    key.i32.set(this.#keyWords(i).subarray(from, from + (pad8(bytes) >> 2)), 0);
    key.u8.fill(0, bytes, bytes + HASH_PADDING);
    this.#hash.compute(key.i32, 0, bytes, this.#seed);
    return this.#hash.h1;
  }

  /** Assigns each record an offset in `#records`; returns how many bytes they take. */
  #place(entries: Int32Array): number {
    let bytes = 0;
    for (let i = 0; i < entries.length / 2; i++) {
      this.#offsets[i] = bytes;
      bytes += linesOf(entries[2 * i + 1]) * UNIT_BYTES;
    }
    return bytes;
  }

  #postSome(entries: Int32Array, first: number, end: number): Batch {
    this.#batch.clear();
    for (let i = first; i < end; i++) {
      const high = entries[2 * i + 1];
      const bytes = linesOf(high) * UNIT_BYTES;
      this.#batch.read(recordOf(entries[2 * i], high), bytes, this.#records, this.#offsets[i]);
    }
    return this.#batch;
  }

  #keyBytes(i: number): number {
    return this.#records.i32[(this.#offsets[i] + KEY_BYTES_AND_KIND) >> 2] & 0xffff;
  }

  #keyWords(i: number): Int32Array {
    return (this.#long.get(i) ?? this.#records).i32;
  }

  #keyAt(i: number): number {
    return this.#long.has(i) ? 0 : (this.#offsets[i] + HEADER_BYTES) >> 2;
  }
}

/** Lines of a record that are read for its key. */
function linesOf(high: number): number {
  return Math.min(KEY_UNITS, unitsOfEntry(high));
}
