import { HASH_PADDING, KeyHash } from '../../records/hash.ts';
import { HEADER_BYTES, KEY_BYTES_AND_KIND, pad8 } from '../../records/layout.ts';
import { type Address, Batch, type Operation, Scratch, UNIT_BYTES } from '../../verbs/index.ts';

/** Lines of a record that are read first; a longer key costs another READ. */
const KEY_UNITS = 4;

/** Reads records and hashes their keys; a mover needs nothing else. */
export class KeyHashes {
  readonly #records = new Scratch(64);
  readonly #key = new Scratch(KEY_UNITS * UNIT_BYTES + HASH_PADDING);
  readonly #hash = new KeyHash();
  readonly #batch = new Batch();
  readonly #addresses: Address[] = [];

  clear(): void {
    this.#addresses.length = 0;
    this.#batch.clear();
  }

  /** Makes room for this many records; called before the first is added. */
  ensure(records: number): void {
    this.#records.ensure(records * KEY_UNITS * UNIT_BYTES);
  }

  /** Adds the READ of a record of `units` lines. */
  add(address: Address, units: number): void {
    const here = this.#addresses.length * KEY_UNITS * UNIT_BYTES;
    this.#addresses.push(address);
    const bytes = Math.min(units, KEY_UNITS) * UNIT_BYTES;
    this.#batch.read(address, bytes, this.#records, here);
  }

  /** Reads all in one doorbell, and visits their hashes in the order in which they were added. */
  *read(seed: number, visit: (index: number, hash: KeyHash) => void): Operation<void> {
    if (this.#addresses.length === 0) return;
    yield this.#batch;
    for (let i = 0; i < this.#addresses.length; i++) {
      yield* this.#compute(i, seed);
      visit(i, this.#hash);
    }
  }

  *#compute(index: number, seed: number): Operation<void> {
    const here = index * KEY_UNITS * UNIT_BYTES;
    const keyBytes = this.#records.i32[(here + KEY_BYTES_AND_KIND) >> 2] & 0xffff;
    const key = this.#key;
    key.ensure(keyBytes + 2 * HASH_PADDING);
    if (HEADER_BYTES + keyBytes <= KEY_UNITS * UNIT_BYTES) {
      const from = here + HEADER_BYTES;
      for (let i = 0; i < keyBytes; i++) key.u8[i] = this.#records.u8[from + i];
    } else {
      const address = this.#addresses[index] + HEADER_BYTES;
      yield this.#batch.clear().read(address, pad8(keyBytes), key, 0);
    }
    for (let i = keyBytes; i < keyBytes + HASH_PADDING; i++) key.u8[i] = 0;
    this.#hash.compute(key.i32, 0, keyBytes, seed);
  }
}
