import { HEADER_BYTES, KEY_BYTES_AND_KIND } from '../../records/layout.ts';
import type { Scratch } from '../../verbs/index.ts';
import type { KeyScale } from './key-scale.ts';
import { compareKeys } from './keys.ts';
import { HINT_MAX } from './slot.ts';

/** Bytes of a key that are compared as a number, behind what all keys of a group begin with. */
const RANK_BYTES = 5;
/** Entries of a run at most; their numbers share a double with the rank. */
const RUN_MAX = 1024;
/** Of a larger group the keys are first compared by numbers. */
const INSERTED_MAX = 12;

/**
 * Records that were read into one scratch, and the order of their keys. A run (the records of one
 * leaf) is dealt out by the hints of its keys, which leaves groups of a few; in a group keys are
 * compared.
 */
export class KeyOrder {
  count = 0;
  /** Where each record was read to. */
  at = new Int32Array(RUN_MAX);
  keyBytes = new Int32Array(RUN_MAX);
  /** The numbers of the records in the order of their keys, run by run. */
  sorted = new Int32Array(RUN_MAX);
  /** Whether in one of the runs that were sorted two records have the same key. */
  hasRepeats = false;
  /** Where in its leaf's range a record's key is; 0 for unknown. */
  #hints = new Uint8Array(RUN_MAX);
  readonly #ends = new Int32Array(HINT_MAX + 2);
  readonly #ranks = new Float64Array(RUN_MAX);
  readonly #group = new Int32Array(RUN_MAX);

  clear(): void {
    this.count = 0;
    this.hasRepeats = false;
  }

  /** Room for so many records; before the first is added. */
  ensure(records: number): void {
    if (records <= this.at.length) return;
    this.at = new Int32Array(2 * records);
    this.keyBytes = new Int32Array(2 * records);
    this.sorted = new Int32Array(2 * records);
    this.#hints = new Uint8Array(2 * records);
  }

  add(at: number, hint: number): void {
    this.#hints[this.count] = hint;
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

  /**
   * Sorts the records from number `first` to before `end`, whose keys have been read whole and are
   * of the leaf with this scale; without one they are one group.
   */
  sort({ u8 }: Scratch, first: number, end: number, scale: KeyScale | undefined): void {
    const hints = this.#hints;
    const ends = this.#ends.fill(0);
    for (let i = first; i < end; i++) {
      if (scale === undefined) hints[i] = 0;
      else if (hints[i] === 0) hints[i] = this.#hintOf(u8, i, scale);
      ends[hints[i] + 1]++;
    }
    ends[0] = first;
    for (let hint = 0; hint <= HINT_MAX; hint++) ends[hint + 1] += ends[hint];
    // What was where a group begins ends where it ends.
    const { sorted } = this;
    for (let i = first; i < end; i++) sorted[ends[hints[i]]++] = i;
    let begin = first;
    for (let hint = 0; begin < end; hint++) {
      if (ends[hint] - begin > 1) this.#sortGroup(u8, begin, ends[hint], scale?.shared ?? 0);
      begin = ends[hint];
    }
  }

  /** The hint of the key at a place of the order. */
  hintAt(place: number): number {
    return this.#hints[this.sorted[place]];
  }

  /** Whether the record at a place of the order has the key of the one before it. */
  isRepeated({ u8 }: Scratch, place: number): boolean {
    return this.#compare(u8, this.sorted[place - 1], this.sorted[place], 0) === 0;
  }

  #hintOf(u8: Uint8Array, i: number, scale: KeyScale): number {
    const at = this.at[i] + HEADER_BYTES;
    return scale.hintOf(u8, at, at + this.keyBytes[i]);
  }

  /** Sorts the records at some places, whose keys have the first `shared` bytes in common. */
  #sortGroup(u8: Uint8Array, begin: number, end: number, shared: number): void {
    if (end - begin > INSERTED_MAX) this.#sortByRanks(u8, begin, end);
    const { sorted } = this;
    for (let place = begin + 1; place < end; place++) {
      const one = sorted[place];
      let to = place;
      for (; to > begin; to--) {
        const order = this.#compare(u8, sorted[to - 1], one, shared);
        if (order === 0) this.hasRepeats = true;
        if (order <= 0) break;
        sorted[to] = sorted[to - 1];
      }
      sorted[to] = one;
    }
  }

  /** Up to keys that are the same in the bytes that count. */
  #sortByRanks(u8: Uint8Array, begin: number, end: number): void {
    const { sorted } = this;
    const count = end - begin;
    const group = this.#group;
    const ranks = this.#ranks;
    for (let i = 0; i < count; i++) group[i] = sorted[begin + i];
    const shared = this.#sharedBytes(u8, count);
    for (let i = 0; i < count; i++) ranks[i] = this.#rankOf(u8, group[i], shared) * RUN_MAX + i;
    (count === RUN_MAX ? ranks : ranks.subarray(0, count)).sort();
    for (let i = 0; i < count; i++) sorted[begin + i] = group[ranks[i] % RUN_MAX];
  }

  #compare(u8: Uint8Array, a: number, b: number, shared: number): number {
    const { at, keyBytes } = this;
    const before = HEADER_BYTES + shared;
    const [aAt, bAt] = [at[a] + before, at[b] + before];
    return compareKeys(u8, aAt, keyBytes[a] - shared, u8, bAt, keyBytes[b] - shared);
  }

  /** How many bytes all keys of the group begin with. */
  #sharedBytes(u8: Uint8Array, count: number): number {
    const { at, keyBytes } = this;
    const group = this.#group;
    const one = at[group[0]] + HEADER_BYTES;
    let shared = keyBytes[group[0]];
    for (let i = 1; i < count && shared > 0; i++) {
      const other = at[group[i]] + HEADER_BYTES;
      shared = Math.min(shared, keyBytes[group[i]]);
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
