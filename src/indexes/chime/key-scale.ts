import { ALPHABETS, alphabetOf, charactersOf, numberOf } from './alphabets.ts';
import { HINT_MAX } from './slot.ts';

/** The keys that a leaf may have, from `lower` to below `upper`: for as long as it exists. */
export interface Borders {
  readonly lower: Uint8Array;
  /** Undefined: there is no higher key. */
  readonly upper: Uint8Array | undefined;
}

const LOWEST = new Uint8Array(0);
const HALF = 2 ** 32;
/** What a scale takes that is put away. */
export const SCALE_WORDS = 4;

/** Of a tree that is one leaf. */
export const EVERYTHING: Borders = { lower: LOWEST, upper: undefined };

/**
 * Where in a leaf's range a key is, as the number of 5 bits that a slot says of it (not in the
 * paper, whose leaves have the keys): so that who wants keys of a part of the range need not read
 * the records of the rest.
 *
 * It follows from the borders and the key alone and never orders two keys otherwise than they are:
 * of two different hints the higher one is of the higher key. A leaf's borders never change, so a
 * hint is right for as long as the key is in the leaf.
 */
export class KeyScale {
  /** In `ALPHABETS`. */
  #alphabet = 0;
  /** The borders as numbers. */
  #from = 0;
  #to = 0;
  /** Hints to a number; 0 when the borders are as good as the same. */
  #slope = 0;
  /** Bytes that all keys between the borders begin with. */
  shared = 0;

  set({ lower, upper }: Borders): this {
    return this.setBetween(lower, 0, lower.length, upper, 0, upper?.length ?? 0);
  }

  /** The same with borders that stand somewhere in two arrays. */
  setBetween(
    lower: Uint8Array,
    lowerAt: number,
    lowerEnd: number,
    upper: Uint8Array | undefined,
    upperAt: number,
    upperEnd: number,
  ): this {
    const most = upper === undefined ? 0 : Math.min(lowerEnd - lowerAt, upperEnd - upperAt);
    let shared = 0;
    while (shared < most && lower[lowerAt + shared] === upper?.[upperAt + shared]) shared++;
    let characters = charactersOf(lower, lowerAt + shared, lowerEnd);
    if (upper !== undefined) characters |= charactersOf(upper, upperAt + shared, upperEnd);
    const number = alphabetOf(characters, lower, lowerAt, lowerAt + shared);
    const alphabet = ALPHABETS[number];
    const from = numberOf(lower, lowerAt + shared, lowerEnd, alphabet);
    const to =
      upper === undefined ? alphabet.limit : numberOf(upper, upperAt + shared, upperEnd, alphabet);
    this.shared = shared;
    this.#stand(number, from, to);
    return this;
  }

  #stand(alphabet: number, from: number, to: number): void {
    this.#alphabet = alphabet;
    this.#from = from;
    this.#to = to;
    this.#slope = to > from ? HINT_MAX / (to - from) : 0;
  }

  /**
   * Puts the scale away in `SCALE_WORDS` words: the lower halves of both borders' numbers, their
   * upper halves (numbers have up to 41 bits), and `shared 16 | alphabet + 1`.
   */
  keep(words: Int32Array, at: number): void {
    const [from, to] = [this.#from, this.#to];
    words[at] = from;
    words[at + 1] = to;
    words[at + 2] = Math.floor(from / HALF) | (Math.floor(to / HALF) << 16);
    words[at + 3] = (this.shared << 8) | (this.#alphabet + 1);
  }

  /** Takes up what was put away there; false when that is nothing yet. */
  recall(words: Int32Array, at: number): boolean {
    const last = words[at + 3];
    if (last === 0) return false;
    const upperHalves = words[at + 2];
    const from = (upperHalves & 0xffff) * HALF + (words[at] >>> 0);
    const to = (upperHalves >>> 16) * HALF + (words[at + 1] >>> 0);
    this.shared = last >>> 8;
    this.#stand((last & 0xff) - 1, from, to);
    return true;
  }

  /** The hint of a key between the borders, 1 to `HINT_MAX`; 0 when it would say nothing. */
  hintOf(key: Uint8Array, at: number, end: number): number {
    const slope = this.#slope;
    if (slope === 0) return 0;
    const number = numberOf(key, at + this.shared, end, ALPHABETS[this.#alphabet]);
    const hint = 1 + Math.floor((number - this.#from) * slope);
    // Rounding, and keys that are as good as the upper border.
    return hint < HINT_MAX ? Math.max(1, hint) : HINT_MAX;
  }
}
