import { CODEC_STATE } from '../../../records/codec.ts';
import { HEADER_BYTES } from '../../../records/layout.ts';
import { Scratch } from '../../../verbs/index.ts';
import type { RecordBlock } from '../../contract.ts';
import { codecOf, flagsIn, itemHigh, valueAt, valueBytesOf } from '../../substrates/leaf/entry.ts';
import { CONTENT_AT } from '../../substrates/leaf/layout.ts';
import { compareKeys } from '../nodes/keys.ts';

/** Bytes of a key, behind the prefix that all keys share, that are compared as one number. */
const RANK_BYTES = 5;
/** No leaf has more entries: a rank and the number of its item share one double. */
const RUN_MAX = 1024;
/** Up to this many ranks a loop sorts faster than the built-in. */
const INSERTED_MAX = 64;
const NO_WORDS = new Scratch(0);

/**
 * The items of one leaf that a scan visits, and the order of their keys. Inline items stand in the
 * leaf's image, others in records that were read; a key stands behind 16 bytes in both, padded with
 * zeros to whole words.
 */
export class KeyOrder {
  count = 0;
  /** Whether `sorted` is up to date. */
  isSorted = false;
  /** Whether the items are known to be whole. The order holds only for those that are. */
  isVerified = false;
  /** Which of the sorted ones are in the range of a scan. */
  first = 0;
  end = 0;
  /** Offset of each item, and whether that is in the records instead of the image. */
  readonly at: Int32Array;
  readonly isRecord: Uint8Array;
  readonly keyBytes: Int32Array;
  /** The numbers of the items in the order of their keys. */
  readonly sorted: Int32Array;
  readonly #ranks: Float64Array;
  #image = NO_WORDS;
  #records = NO_WORDS;

  /** `span`: entries of a leaf. */
  constructor(span: number) {
    this.at = new Int32Array(span);
    this.isRecord = new Uint8Array(span);
    this.keyBytes = new Int32Array(span);
    this.sorted = new Int32Array(span);
    this.#ranks = new Float64Array(span);
  }

  /** Forgets all items. */
  clear(isVerified: boolean): void {
    this.count = 0;
    this.isSorted = false;
    this.isVerified = isVerified;
    this.first = 0;
    this.end = 0;
  }

  add(at: number, keyBytes: number, isRecord: boolean): void {
    this.isSorted = false;
    this.at[this.count] = at;
    this.keyBytes[this.count] = keyBytes;
    this.isRecord[this.count++] = isRecord ? 1 : 0;
  }

  /** Adds an item of the image whose key is above those of all that were added. */
  append(at: number, keyBytes: number): void {
    this.sorted[this.count] = this.count;
    this.add(at, keyBytes, false);
    this.isSorted = true;
  }

  sort(image: Scratch, records: Scratch): void {
    if (this.isSorted) return;
    this.isSorted = true;
    this.#image = image;
    this.#records = records;
    const { sorted, count } = this;
    const ranks = this.#ranks;
    const shared = this.#sharedBytes();
    for (let i = 0; i < count; i++) ranks[i] = this.#rankOf(i, shared) * RUN_MAX + i;
    if (count <= INSERTED_MAX) this.#insertRanks();
    else ranks.subarray(0, count).sort();
    let before = -1;
    for (let place = 0; place < count; place++) {
      const rank = Math.floor(ranks[place] / RUN_MAX);
      const one = ranks[place] - rank * RUN_MAX;
      let to = place;
      // Keys of equal rank differ further on.
      if (rank === before) {
        for (; to > 0 && this.#compare(sorted[to - 1], one) > 0; to--) sorted[to] = sorted[to - 1];
      }
      sorted[to] = one;
      before = rank;
    }
  }

  #wordsOf(i: number): Scratch {
    return this.isRecord[i] !== 0 ? this.#records : this.#image;
  }

  #insertRanks(): void {
    const ranks = this.#ranks;
    for (let place = 1; place < this.count; place++) {
      const rank = ranks[place];
      let to = place;
      for (; to > 0 && ranks[to - 1] > rank; to--) ranks[to] = ranks[to - 1];
      ranks[to] = rank;
    }
  }

  #compare(a: number, b: number): number {
    const { at, keyBytes } = this;
    const [aAt, bAt] = [at[a] + HEADER_BYTES, at[b] + HEADER_BYTES];
    const [aBytes, bBytes] = [this.#wordsOf(a).u8, this.#wordsOf(b).u8];
    return compareKeys(aBytes, aAt, keyBytes[a], bBytes, bAt, keyBytes[b]);
  }

  /** Length of the prefix that all keys share. Compares whole words. */
  #sharedBytes(): number {
    const { at, keyBytes, count } = this;
    if (count === 0) return 0;
    const one = this.#wordsOf(0).i32;
    const oneAt = (at[0] + HEADER_BYTES) >> 2;
    let shared = keyBytes[0];
    for (let i = 1; i < count; i++) {
      const other = this.#wordsOf(i).i32;
      const otherAt = (at[i] + HEADER_BYTES) >> 2;
      if (keyBytes[i] < shared) shared = keyBytes[i];
      for (let word = 0; 4 * word < shared; word++) {
        const difference = one[oneAt + word] ^ other[otherAt + word];
        if (difference === 0) continue;
        const lowest = 31 - Math.clz32(difference & -difference);
        shared = Math.min(shared, 4 * word + (lowest >> 3));
      }
    }
    return shared;
  }

  #rankOf(i: number, shared: number): number {
    const { u8 } = this.#wordsOf(i);
    const from = this.at[i] + HEADER_BYTES + shared;
    const left = this.keyBytes[i] - shared;
    if (left >= RANK_BYTES) {
      const high = (u8[from] << 24) | (u8[from + 1] << 16) | (u8[from + 2] << 8) | u8[from + 3];
      return (high >>> 0) * 256 + u8[from + 4];
    }
    let rank = 0;
    for (let j = 0; j < RANK_BYTES; j++) rank = rank * 256 + (j < left ? u8[from + j] : 0);
    return rank;
  }
}

/** Items of a leaf's image, which a scan hands out together as records. */
export class ItemBlock implements RecordBlock {
  words = new Scratch(0);
  count = 0;
  readonly keyAt: Int32Array;
  readonly keyBytes: Int32Array;
  readonly valueAt: Int32Array;
  readonly valueBytes: Int32Array;
  readonly codec: Uint8Array;

  constructor(span: number) {
    this.keyAt = new Int32Array(span);
    this.keyBytes = new Int32Array(span);
    this.valueAt = new Int32Array(span);
    this.valueBytes = new Int32Array(span);
    this.codec = new Uint8Array(span);
  }

  /** Takes the items in an order's range. False if one has times, or is the state of a helper. */
  fill(words: Scratch, order: KeyOrder, reverse: boolean, limit: number): boolean {
    const { at, keyBytes, sorted, first, end } = order;
    const count = Math.min(limit, end - first);
    for (let i = 0; i < count; i++) {
      const one = sorted[reverse ? end - 1 - i : first + i];
      const item = itemHigh(words, at[one]);
      const codec = codecOf(item);
      if (flagsIn(item) !== 0 || codec === CODEC_STATE) return false;
      this.keyAt[i] = at[one] + CONTENT_AT;
      this.keyBytes[i] = keyBytes[one];
      this.valueAt[i] = at[one] + valueAt(item);
      this.valueBytes[i] = valueBytesOf(item);
      this.codec[i] = codec;
    }
    this.words = words;
    this.count = count;
    return true;
  }
}
