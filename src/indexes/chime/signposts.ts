import { compareKeys } from './keys.ts';

/** Bytes of a separator that are compared at once. */
const WORD_BYTES = 4;

/**
 * The separators of a remembered node so that a key finds its way among them by few comparisons of
 * numbers: what all of them begin with, once, and of each the four bytes behind that. Whole keys
 * are compared only where those are the same.
 */
export class Signposts {
  readonly #separators: readonly Uint8Array[];
  /** Bytes that all separators begin with. */
  readonly #shared: number;
  /** First the shared bytes, one an element, then a word for each separator. */
  readonly #words: Uint32Array;

  constructor(separators: readonly Uint8Array[]) {
    this.#separators = separators;
    const shared = sharedBytes(separators);
    this.#shared = shared;
    this.#words = new Uint32Array(shared + separators.length);
    for (let i = 0; i < shared; i++) this.#words[i] = separators[0][i];
    separators.forEach((separator, i) => {
      this.#words[shared + i] = wordAt(separator, shared, separator.length);
    });
  }

  get bytes(): number {
    return this.#words.byteLength;
  }

  /** How many separators are below the key, or with `orEqual` not above it. */
  upTo(key: Uint8Array, at: number, bytes: number, orEqual: boolean): number {
    const words = this.#words;
    const shared = this.#shared;
    const count = words.length - shared;
    for (let i = 0; i < shared; i++) {
      if (i === bytes) return 0;
      const difference = key[at + i] - words[i];
      if (difference !== 0) return difference < 0 ? 0 : count;
    }
    const word = wordAt(key, at + shared, at + bytes);
    let low = shared;
    let high = words.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (words[middle] < word) low = middle + 1;
      else high = middle;
    }
    while (low < words.length && words[low] === word) {
      const separator = this.#separators[low - shared];
      const order = compareKeys(separator, 0, separator.length, key, at, bytes);
      if (order > 0 || (order === 0 && !orEqual)) break;
      low++;
    }
    return low - shared;
  }
}

function sharedBytes(separators: readonly Uint8Array[]): number {
  if (separators.length < 2) return 0;
  // They ascend, so what the first and the last share all of them have.
  const first = separators[0];
  const last = separators[separators.length - 1];
  let shared = 0;
  while (shared < first.length && first[shared] === last[shared]) shared++;
  return shared;
}

/** The bytes from `at` to `end` as a number that orders as they do, zeros behind them. */
function wordAt(key: Uint8Array, at: number, end: number): number {
  let word = 0;
  for (let i = at; i < at + WORD_BYTES; i++) word = (word << 8) | (i < end ? key[i] : 0);
  return word >>> 0;
}
