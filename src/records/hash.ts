/**
 * MurmurHash3 x86_128 (Austin Appleby, public domain algorithm) over 32-bit words, because 64-bit
 * arithmetic in JavaScript means BigInt. The caller zero-pads the input to 16 bytes. So the tail
 * needs no code of its own, except that the last block skips one mixing step.
 */
export class KeyHash {
  h1 = 0;
  h2 = 0;
  h3 = 0;
  h4 = 0;

  /** Hashes `bytes` bytes, from word `start` on. */
  compute(words: Int32Array, start: number, bytes: number, seed: number): void {
    let h1 = seed | 0;
    let h2 = h1;
    let h3 = h1;
    let h4 = h1;
    const blocks = bytes >>> 4;
    let at = start;
    for (let i = 0; i < blocks; i++, at += 4) {
      h1 ^= scramble1(words[at]);
      h1 = (Math.imul((((h1 << 19) | (h1 >>> 13)) + h2) | 0, 5) + 0x561ccd1b) | 0;
      h2 ^= scramble2(words[at + 1]);
      h2 = (Math.imul((((h2 << 17) | (h2 >>> 15)) + h3) | 0, 5) + 0x0bcaa747) | 0;
      h3 ^= scramble3(words[at + 2]);
      h3 = (Math.imul((((h3 << 15) | (h3 >>> 17)) + h4) | 0, 5) + 0x96cd1c35) | 0;
      h4 ^= scramble4(words[at + 3]);
      h4 = (Math.imul((((h4 << 13) | (h4 >>> 19)) + h1) | 0, 5) + 0x32ac3b17) | 0;
    }
    if ((bytes & 15) !== 0) {
      h1 ^= scramble1(words[at]);
      h2 ^= scramble2(words[at + 1]);
      h3 ^= scramble3(words[at + 2]);
      h4 ^= scramble4(words[at + 3]);
    }
    h1 ^= bytes;
    h2 ^= bytes;
    h3 ^= bytes;
    h4 ^= bytes;
    h1 = (h1 + h2 + h3 + h4) | 0;
    h2 = finalMix(h2 + h1);
    h3 = finalMix(h3 + h1);
    h4 = finalMix(h4 + h1);
    h1 = finalMix(h1);
    h1 = (h1 + h2 + h3 + h4) | 0;
    this.h1 = h1;
    this.h2 = (h2 + h1) | 0;
    this.h3 = (h3 + h1) | 0;
    this.h4 = (h4 + h1) | 0;
  }
}

/** Bytes of a scratch that must be zero behind a key so that it can be hashed. */
export const HASH_PADDING = 16;

function scramble1(word: number): number {
  const k = Math.imul(word, 0x239b961b);
  return Math.imul((k << 15) | (k >>> 17), 0xab0e9789);
}

function scramble2(word: number): number {
  const k = Math.imul(word, 0xab0e9789);
  return Math.imul((k << 16) | (k >>> 16), 0x38b34ae5);
}

function scramble3(word: number): number {
  const k = Math.imul(word, 0x38b34ae5);
  return Math.imul((k << 17) | (k >>> 15), 0xa1e38b93);
}

function scramble4(word: number): number {
  const k = Math.imul(word, 0xa1e38b93);
  return Math.imul((k << 18) | (k >>> 14), 0x239b961b);
}

export function finalMix(value: number): number {
  let h = value | 0;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return h ^ (h >>> 16);
}

/** MurmurHash3 x86_32's body over whole words; chain calls by passing the last result as seed. */
export function hashWords(words: Int32Array, start: number, count: number, seed: number): number {
  let h = seed | 0;
  const end = start + count;
  for (let at = start; at < end; at++) {
    let k = Math.imul(words[at], 0xcc9e2d51);
    k = Math.imul((k << 15) | (k >>> 17), 0x1b873593);
    h ^= k;
    h = (Math.imul((h << 13) | (h >>> 19), 5) + 0xe6546b64) | 0;
  }
  return h;
}
