import { Buffer } from 'node:buffer';
import { mix32 } from '../../src/random/prng.ts';

export const KEY_BYTES = 16;

const ROUNDS = 4;

/**
 * The 16-byte key of a record's index: 16 hexadecimal digits, as a string or as the same bytes.
 * The 64-bit number behind the digits is a bijection of the index (a Feistel network), so keys are
 * distinct, and neither their order nor their prefixes reveal anything about the index.
 */
export class KeyGenerator {
  readonly #seed: number;
  readonly #scratch = Buffer.alloc(KEY_BYTES);
  // The two digits of each byte as one little-endian 16-bit word: eight stores instead of sixteen.
  readonly #digits: Uint16Array;

  constructor(seed = 0) {
    this.#seed = mix32(seed ^ 0x2545f491);
    this.#digits = digitPairs();
  }

  /** Writes the key of `index` (below 2^53) into `target`, which needs no alignment. */
  write(index: number, target: Uint8Array, offset = 0): void {
    let left = Math.floor(index / 2 ** 32) >>> 0;
    let right = index >>> 0;
    for (let round = 1; round <= ROUNDS; round++) {
      const next = left ^ mix32((right ^ this.#seed) + Math.imul(round, 0x9e3779b9));
      left = right;
      right = next;
    }
    this.#hex(left, target, offset);
    this.#hex(right, target, offset + 8);
  }

  /** A new flat string. Concatenation would make a rope, which V8 flattens at its first use. */
  string(index: number): string {
    this.write(index, this.#scratch);
    return this.#scratch.toString('latin1');
  }

  bytes(index: number): Uint8Array {
    const key = new Uint8Array(KEY_BYTES);
    this.write(index, key);
    return key;
  }

  #hex(word: number, target: Uint8Array, offset: number): void {
    for (let byte = 0; byte < 4; byte++) {
      const pair = this.#digits[(word >>> (24 - 8 * byte)) & 0xff];
      target[offset + 2 * byte] = pair & 0xff;
      target[offset + 2 * byte + 1] = pair >>> 8;
    }
  }
}

/** The same numbers as 8 bytes. */
export class ShortKeyGenerator extends KeyGenerator {
  override bytes(index: number): Uint8Array {
    return Buffer.from(this.string(index), 'hex');
  }
}

function digitPairs(): Uint16Array {
  const pairs = new Uint16Array(256);
  for (let byte = 0; byte < 256; byte++) {
    const digits = byte.toString(16).padStart(2, '0');
    pairs[byte] = digits.charCodeAt(0) | (digits.charCodeAt(1) << 8);
  }
  return pairs;
}
