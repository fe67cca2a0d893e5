import {
  KEY_BYTES,
  type KeyGenerator,
  VALUE_BYTES,
  type ValueGenerator,
} from '../workloads/index.ts';

type Entry = readonly [Uint8Array, Uint8Array];

/**
 * Reusable key and value bytes for loads of more records than should be kept as objects. setMany
 * has copied an entry when it returns, so the next batch may overwrite it.
 */
export class Batch {
  readonly size: number;
  readonly #entries: Entry[];

  constructor(size: number) {
    this.size = size;
    this.#entries = Array.from(
      { length: size },
      () => [new Uint8Array(KEY_BYTES), new Uint8Array(VALUE_BYTES)] as const,
    );
  }

  /** The entries of the records from `from` to `end`, at most as many as the batch holds. */
  fill(from: number, end: number, keys: KeyGenerator, values: ValueGenerator): readonly Entry[] {
    const count = Math.min(this.size, end - from);
    for (let i = 0; i < count; i++) {
      keys.write(from + i, this.#entries[i][0]);
      values.write(from + i, 0, this.#entries[i][1]);
    }
    return count === this.size ? this.#entries : this.#entries.slice(0, count);
  }
}
