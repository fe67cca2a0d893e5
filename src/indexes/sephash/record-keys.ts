import { HASH_PADDING, KeyHash } from '../../records/hash.ts';
import { HEADER_BYTES, KEY_BYTES_AND_KIND, pad8 } from '../../records/layout.ts';
import { Batch, type Operation, Scratch, UNIT_BYTES } from '../../verbs/index.ts';
import { recordOf, unitsOfEntry } from './entry.ts';

/** Lines of a record that are read at first; a longer key costs one more READ. */
const KEY_UNITS = 4;
const KEY_AREA = KEY_UNITS * UNIT_BYTES;
/** Records that are read in one doorbell. */
const RECORDS_AT_ONCE = 128;

/** Reads the keys of records, many in a doorbell: for merges and splits. */
export class RecordKeys {
  readonly #records = new Scratch(RECORDS_AT_ONCE * KEY_AREA);
  readonly #key = new Scratch(KEY_AREA + 2 * HASH_PADDING);
  readonly #hash = new KeyHash();
  readonly #batch = new Batch();
  readonly #seed: number;

  constructor(seed: number) {
    this.#seed = seed;
  }

  /** The keys of entries (pairs of halves), one character a byte. */
  *texts(entries: ArrayLike<number>): Operation<string[]> {
    const texts: string[] = [];
    yield* this.#each(entries, (key, bytes) => {
      texts.push(key.buffer.toString('latin1', 0, bytes));
    });
    return texts;
  }

  /** The hash words that choose segments, of the keys of entries. */
  *hashes(entries: ArrayLike<number>): Operation<Int32Array> {
    const hashes = new Int32Array(entries.length / 2);
    let i = 0;
    yield* this.#each(entries, ({ i32 }, bytes) => {
      this.#hash.compute(i32, 0, bytes, this.#seed);
      hashes[i++] = this.#hash.h1;
    });
    return hashes;
  }

  *#each(
    entries: ArrayLike<number>,
    visit: (key: Scratch, bytes: number) => void,
  ): Operation<void> {
    const count = entries.length / 2;
    for (let first = 0; first < count; first += RECORDS_AT_ONCE) {
      const some = Math.min(RECORDS_AT_ONCE, count - first);
      this.#batch.clear();
      for (let i = 0; i < some; i++) {
        const at = 2 * (first + i);
        const bytes = UNIT_BYTES * Math.min(KEY_UNITS, unitsOfEntry(entries[at + 1]));
        const record = recordOf(entries[at], entries[at + 1]);
        this.#batch.read(record, bytes, this.#records, i * KEY_AREA);
      }
      yield this.#batch;
      for (let i = 0; i < some; i++) {
        const at = 2 * (first + i);
        const bytes = yield* this.#copyKey(i * KEY_AREA, recordOf(entries[at], entries[at + 1]));
        visit(this.#key, bytes);
      }
    }
  }

  /** Puts the key of a record that was read at `here` in front of the zeros that hashing needs. */
  *#copyKey(here: number, record: number): Operation<number> {
    const keyBytes = this.#records.i32[(here + KEY_BYTES_AND_KIND) >> 2] & 0xffff;
    const key = this.#key;
    key.ensure(keyBytes + 2 * HASH_PADDING);
    if (HEADER_BYTES + keyBytes <= KEY_AREA) {
      const from = here + HEADER_BYTES;
      key.u8.set(this.#records.u8.subarray(from, from + keyBytes), 0);
    } else {
      yield this.#batch.clear().read(record + HEADER_BYTES, pad8(keyBytes), key, 0);
    }
    key.u8.fill(0, keyBytes, keyBytes + HASH_PADDING);
    return keyBytes;
  }
}
