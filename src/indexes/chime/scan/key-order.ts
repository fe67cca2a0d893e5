import { HEADER_BYTES } from '../../../records/layout.ts';
import { compareKeys } from '../nodes/keys.ts';

/** Bytes of a key that are compared as a number, behind what all keys of a run begin with. */
const RANK_BYTES = 5;
/** Entries of a run at most; their numbers share a double with the rank. */
const RUN_MAX = 1024;
/** Of a larger run the keys are first compared by numbers. */
const INSERTED_MAX = 12;

/**
 * The items of one leaf that a scan visits, and the order of their keys. Inline items stand in the
 * leaf's image, others in records that were read; a key stands behind 16 bytes in both.
 */
export class KeyOrder {
  count = 0;
  /** Where each item stands, and whether in the image or among the records. */
  readonly at = new Int32Array(RUN_MAX);
  readonly isRecord = new Uint8Array(RUN_MAX);
  readonly keyBytes = new Int32Array(RUN_MAX);
  /** The numbers of the items in the order of their keys. */
  readonly sorted = new Int32Array(RUN_MAX);
  readonly #ranks = new Float64Array(RUN_MAX);
  readonly #group = new Int32Array(RUN_MAX);
  #image: Uint8Array = new Uint8Array(0);
  #records: Uint8Array = new Uint8Array(0);

  clear(): void {
    this.count = 0;
  }

  add(at: number, keyBytes: number, isRecord: boolean): void {
    this.at[this.count] = at;
    this.keyBytes[this.count] = keyBytes;
    this.isRecord[this.count++] = isRecord ? 1 : 0;
  }

  sort(image: Uint8Array, records: Uint8Array): void {
    this.#image = image;
    this.#records = records;
    const { sorted, count } = this;
    for (let i = 0; i < count; i++) sorted[i] = i;
    if (count > INSERTED_MAX) this.#sortByRanks();
    for (let place = 1; place < count; place++) {
      const one = sorted[place];
      let to = place;
      for (; to > 0 && this.#compare(sorted[to - 1], one) > 0; to--) sorted[to] = sorted[to - 1];
      sorted[to] = one;
    }
  }

  #bytesOf(i: number): Uint8Array {
    return this.isRecord[i] !== 0 ? this.#records : this.#image;
  }

  /** Up to keys that are the same in the bytes that count. */
  #sortByRanks(): void {
    const { sorted, count } = this;
    const group = this.#group;
    const ranks = this.#ranks;
    for (let i = 0; i < count; i++) group[i] = sorted[i];
    const shared = this.#sharedBytes();
    for (let i = 0; i < count; i++) ranks[i] = this.#rankOf(group[i], shared) * RUN_MAX + i;
    (count === RUN_MAX ? ranks : ranks.subarray(0, count)).sort();
    for (let i = 0; i < count; i++) sorted[i] = group[ranks[i] % RUN_MAX];
  }

  #compare(a: number, b: number): number {
    const { at, keyBytes } = this;
    const [aAt, bAt] = [at[a] + HEADER_BYTES, at[b] + HEADER_BYTES];
    return compareKeys(this.#bytesOf(a), aAt, keyBytes[a], this.#bytesOf(b), bAt, keyBytes[b]);
  }

  /** How many bytes all keys begin with. */
  #sharedBytes(): number {
    const { at, keyBytes, count } = this;
    const one = this.#bytesOf(0);
    const oneAt = at[0] + HEADER_BYTES;
    let shared = keyBytes[0];
    for (let i = 1; i < count && shared > 0; i++) {
      const other = this.#bytesOf(i);
      const otherAt = at[i] + HEADER_BYTES;
      shared = Math.min(shared, keyBytes[i]);
      let same = 0;
      while (same < shared && one[oneAt + same] === other[otherAt + same]) same++;
      shared = same;
    }
    return shared;
  }

  #rankOf(i: number, shared: number): number {
    const u8 = this.#bytesOf(i);
    const from = this.at[i] + HEADER_BYTES + shared;
    const left = this.keyBytes[i] - shared;
    let rank = 0;
    for (let j = 0; j < RANK_BYTES; j++) rank = rank * 256 + (j < left ? u8[from + j] : 0);
    return rank;
  }
}
