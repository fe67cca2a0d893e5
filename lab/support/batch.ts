import {
  KEY_BYTES,
  type KeyGenerator,
  VALUE_BYTES,
  type ValueGenerator,
} from '../workloads/index.ts';

type Entry = readonly [Uint8Array, Uint8Array];

/**
 * Reusable buffers of keys and values, for loads too large to keep every record as an object.
 * setMany copies the entries, so the next batch may overwrite them once it has returned.
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

  /** The entries of records `from` to `end` - 1, or of as many as fit into the batch. */
  fill(from: number, end: number, keys: KeyGenerator, values: ValueGenerator): readonly Entry[] {
    const count = Math.min(this.size, end - from);
    for (let i = 0; i < count; i++) {
      keys.write(from + i, this.#entries[i][0]);
      values.write(from + i, 0, this.#entries[i][1]);
    }
    return count === this.size ? this.#entries : this.#entries.slice(0, count);
  }
}
