/** Bits for each key that it may remember, in each generation. */
const BITS_PER_KEY = 16;
/** Two words of the newer generation beside two of the older one: 16 bytes of one cache line. */
const BLOCK_WORDS = 4;

/**
 * Which keys were read once, by their hashes: a Bloom filter of two generations. The newer one
 * takes `keys` keys, then forgets the older one and changes places with it, so a key is remembered
 * until that many others, or at most twice as many, were added.
 *
 * A key has four bits in a single block (Putze et al., "Cache-, Hash- and Space-Efficient Bloom
 * Filters", WEA 2007), because the cache line is most of what a question costs. Of the keys that
 * are new, 0.7 % seem to be known.
 */
export class SeenKeys {
  readonly #keys: number;
  readonly #words: Int32Array;
  /** Where the newer generation begins in each block: 0 or 2. */
  #newer = 0;
  #added = 0;

  constructor(keys: number) {
    this.#keys = keys;
    const blocks = 2 ** Math.ceil(Math.log2((keys * BITS_PER_KEY) / 64));
    this.#words = new Int32Array(BLOCK_WORDS * Math.max(1, blocks));
  }

  /** Whether the key with these hash words was added before; adds it if not. */
  hasOrAdd(h1: number, h2: number): boolean {
    const words = this.#words;
    const block = Math.imul(BLOCK_WORDS, h2) & (words.length - 1);
    // A shift uses five bits of its count.
    const first = (1 << h1) | (1 << (h1 >>> 5));
    const second = (1 << (h1 >>> 10)) | (1 << (h1 >>> 15));
    const newer = block + this.#newer;
    const older = newer ^ 2;
    if ((words[newer] & first) === first && (words[newer + 1] & second) === second) return true;
    if ((words[older] & first) === first && (words[older + 1] & second) === second) return true;
    words[newer] |= first;
    words[newer + 1] |= second;
    if (++this.#added >= this.#keys) this.#forgetOlder();
    return false;
  }

  #forgetOlder(): void {
    this.#added = 0;
    this.#newer ^= 2;
    const words = this.#words;
    for (let at = this.#newer; at < words.length; at += BLOCK_WORDS) words[at] = words[at + 1] = 0;
  }
}
