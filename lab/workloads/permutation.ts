import { mix32 } from '../../src/random/prng.ts';

const ROUNDS = 4;

/**
 * A pseudo-random bijection of [0, size), computed point by point without a table. It is a Feistel
 * network over the next even number of bits, applied again until the result is below `size` (cycle
 * walking: Black and Rogaway, "Ciphers with arbitrary finite domains", 2002).
 */
export class Permutation {
  readonly size: number;
  readonly #seed: number;
  readonly #halfBits: number;

  constructor(size: number, seed: number) {
    if (!Number.isInteger(size) || size < 1 || size > 2 ** 32) {
      throw new RangeError(`a permutation needs a size from 1 to 2^32, got ${size}`);
    }
    this.size = size;
    this.#seed = mix32(seed ^ 0x5bd1e995);
    this.#halfBits = Math.max(1, Math.ceil(Math.log2(size) / 2));
  }

  /** The image of `index`. The domain is below 4x the size, so few steps of the cycle suffice. */
  at(index: number): number {
    let point = index;
    do point = this.#encipher(point);
    while (point >= this.size);
    return point;
  }

  #encipher(point: number): number {
    const scale = 2 ** this.#halfBits;
    const mask = scale - 1;
    let left = Math.floor(point / scale);
    let right = point % scale;
    for (let round = 0; round < ROUNDS; round++) {
      const next = left ^ (mix32((right + Math.imul(round + 1, this.#seed | 1)) >>> 0) & mask);
      left = right;
      right = next;
    }
    return left * scale + right;
  }
}
