import { HEADER_BYTES, KEY_BYTES_AND_KIND } from '../../records/layout.ts';
import type { Scratch } from '../../verbs/index.ts';
import { compareKeys } from './keys.ts';

/** Bytes of a key that are compared as a number, behind what all keys of a run begin with. */
const RANK_BYTES = 5;
/** Entries of a run at most; their numbers share a double with the rank. */
const RUN_MAX = 1024;

/**
 * Records that were read into one scratch, and the order of their keys. A run (the records of one
 * leaf) is sorted by numbers, and keys are compared as a whole only where those are the same.
 */
export class KeyOrder {
  count = 0;
  /** Where each record was read to. */
  at = new Int32Array(RUN_MAX);
  keyBytes = new Int32Array(RUN_MAX);
  /** The numbers of the records in the order of their keys, run by run. */
  sorted = new Int32Array(RUN_MAX);
  /** By place: whether the number is that of the place before. */
  #tied = new Uint8Array(RUN_MAX);
  readonly #ranks = new Float64Array(RUN_MAX);

  clear(): void {
    this.count = 0;
  }

  /** Room for so many records; before the first is added. */
  ensure(records: number): void {
    if (records <= this.at.length) return;
    this.at = new Int32Array(2 * records);
    this.keyBytes = new Int32Array(2 * records);
    this.sorted = new Int32Array(2 * records);
    this.#tied = new Uint8Array(2 * records);
  }

  add(at: number): void {
    this.at[this.count++] = at;
  }

  /**
   * Takes over from the records that have been read how long their keys are. Returns all bits of
   * the words that say so, which have the records' flags.
   */
  measure({ i32 }: Scratch): number {
    const { at, keyBytes, count } = this;
    let kinds = 0;
    for (let i = 0; i < count; i++) {
      const kind = i32[(at[i] + KEY_BYTES_AND_KIND) >> 2];
      keyBytes[i] = kind & 0xffff;
      kinds |= kind;
    }
    return kinds;
  }

  /** Sorts the records from number `first` to before `end`, whose keys have been read whole. */
  sort({ u8 }: Scratch, first: number, end: number): void {
    const { sorted } = this;
    const ranks = this.#ranks;
    const shared = this.#sharedBytes(u8, first, end);
    for (let i = first; i < end; i++) {
      ranks[i - first] = this.#rankOf(u8, i, shared) * RUN_MAX + (i - first);
    }
    const count = end - first;
    (count === RUN_MAX ? ranks : ranks.subarray(0, count)).sort();
    let before = -1;
    for (let i = first; i < end; i++) {
      const rank = Math.floor(ranks[i - first] / RUN_MAX);
      sorted[i] = first + (ranks[i - first] - rank * RUN_MAX);
      this.#tied[i] = rank === before ? 1 : 0;
      if (rank === before) this.#sink(u8, first, i);
      before = rank;
    }
  }

  /** Whether the record at a place of the order has the key of the one before it. */
  isRepeated({ u8 }: Scratch, place: number): boolean {
    if (this.#tied[place] === 0) return false;
    return this.#compare(u8, this.sorted[place - 1], this.sorted[place]) === 0;
  }

  /** Brings the record at a place of the order before those of its run that are behind it. */
  #sink(u8: Uint8Array, first: number, place: number): void {
    const { sorted } = this;
    for (let i = place; i > first && this.#compare(u8, sorted[i - 1], sorted[i]) > 0; i--) {
      const other = sorted[i];
      sorted[i] = sorted[i - 1];
      sorted[i - 1] = other;
    }
  }

  #compare(u8: Uint8Array, a: number, b: number): number {
    const { at, keyBytes } = this;
    const [aAt, bAt] = [at[a] + HEADER_BYTES, at[b] + HEADER_BYTES];
    return compareKeys(u8, aAt, keyBytes[a], u8, bAt, keyBytes[b]);
  }

  /** How many bytes all keys of the run begin with. */
  #sharedBytes(u8: Uint8Array, first: number, end: number): number {
    const { at, keyBytes } = this;
    const one = at[first] + HEADER_BYTES;
    let shared = keyBytes[first];
    for (let i = first + 1; i < end && shared > 0; i++) {
      const other = at[i] + HEADER_BYTES;
      shared = Math.min(shared, keyBytes[i]);
      let same = 0;
      while (same < shared && u8[one + same] === u8[other + same]) same++;
      shared = same;
    }
    return shared;
  }

  #rankOf(u8: Uint8Array, i: number, shared: number): number {
    const from = this.at[i] + HEADER_BYTES + shared;
    const left = this.keyBytes[i] - shared;
    let rank = 0;
    for (let j = 0; j < RANK_BYTES; j++) rank = rank * 256 + (j < left ? u8[from + j] : 0);
    return rank;
  }
}
