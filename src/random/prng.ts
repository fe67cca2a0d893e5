/**
 * xoshiro128** 1.1 (Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2021).
 * The state is the object's own, so two streams never disturb each other and one seed replays a
 * run.
 */
export class Prng {
  #a: number;
  #b: number;
  #c: number;
  #d: number;

  private constructor(a: number, b: number, c: number, d: number) {
    if ((a | b | c | d) === 0) throw new RangeError('a generator cannot start from the zero state');
    this.#a = a;
    this.#b = b;
    this.#c = c;
    this.#d = d;
  }

  /** Any integer is a seed; neighbouring seeds give unrelated streams. */
  static fromSeed(seed: number): Prng {
    const low = seed >>> 0;
    const high = Math.floor(seed / 2 ** 32) >>> 0;
    const start = (low ^ mix32(high)) >>> 0;
    // A Weyl sequence through the finalizer (splitmix32): never four zero words in a row.
    const word = (n: number) => mix32((start + Math.imul(n, 0x9e3779b9)) >>> 0);
    return new Prng(word(1), word(2), word(3), word(4));
  }

  static fromState(a: number, b: number, c: number, d: number): Prng {
    return new Prng(a | 0, b | 0, c | 0, d | 0);
  }

  /** 32 random bits, unsigned. */
  next32(): number {
    const product = Math.imul(this.#b, 5);
    const result = Math.imul((product << 7) | (product >>> 25), 9) >>> 0;
    const shifted = this.#b << 9;
    this.#c ^= this.#a;
    this.#d ^= this.#b;
    this.#b ^= this.#c;
    this.#a ^= this.#d;
    this.#c ^= shifted;
    this.#d = (this.#d << 11) | (this.#d >>> 21);
    return result;
  }

  /** Uniform in [0, 1) with 53 random bits. */
  nextDouble(): number {
    const high = this.next32() >>> 5;
    const low = this.next32() >>> 6;
    return (high * 2 ** 26 + low) / 2 ** 53;
  }

  /** A uniform integer of [0, bound); its bias is below bound / 2^53. */
  below(bound: number): number {
    return Math.floor(this.nextDouble() * bound);
  }

  /** An independent stream, which depends on the label and on how far this one has been drawn. */
  fork(label: number): Prng {
    return Prng.fromSeed(this.next32() + 2 ** 21 * mix32(label));
  }
}

/** The finalizer of MurmurHash3 (Appleby): a bijection of 32-bit words that mixes every bit. */
export function mix32(word: number): number {
  let h = word;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}
