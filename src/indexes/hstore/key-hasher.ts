import { HASH_PADDING, KeyHash } from '../../records/hash.ts';
import { Scratch } from '../../verbs/index.ts';

/** Hashes keys that are strings of a character for each byte. */
export class KeyHasher {
  readonly #seed: number;
  readonly #hash = new KeyHash();
  readonly #bytes = new Scratch(256);

  constructor(seed: number) {
    this.#seed = seed;
  }

  /** The same object every time. */
  hash(key: string): Readonly<KeyHash> {
    const { length } = key;
    this.#bytes.ensure(length + 2 * HASH_PADDING);
    this.#bytes.buffer.write(key, 0, length, 'latin1');
    this.#bytes.u8.fill(0, length, length + HASH_PADDING);
    this.#hash.compute(this.#bytes.i32, 0, length, this.#seed);
    return this.#hash;
  }
}
