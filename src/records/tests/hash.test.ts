import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { Scratch } from '../../verbs/index.ts';
import { HASH_PADDING, hashWords, KeyHash } from '../hash.ts';

interface Reference {
  x86: {
    hash128(bytes: Uint8Array, seed?: number): string;
    hash32(bytes: Uint8Array, seed?: number): number;
  };
}

// The package has no types.
const reference: Reference = createRequire(import.meta.url)('murmurhash3js-revisited');

function ours(bytes: Uint8Array, seed: number, at = 0): string {
  const scratch = new Scratch(at + bytes.length + 2 * HASH_PADDING);
  scratch.u8.fill(0xaa);
  scratch.u8.set(bytes, at);
  scratch.u8.fill(0, at + bytes.length, at + bytes.length + HASH_PADDING);
  const hash = new KeyHash();
  hash.compute(scratch.i32, at >> 2, bytes.length, seed);
  return [hash.h1, hash.h2, hash.h3, hash.h4].map((h) => hex(h)).join('');
}

const hex = (word: number) => (word >>> 0).toString(16).padStart(8, '0');

function randomBytes(length: number): Uint8Array {
  return Uint8Array.from({ length }, () => Math.random() * 256);
}

test('murmur3 x86_128 as published, for every length up to 64 bytes', () => {
  for (let length = 0; length <= 64; length++) {
    const ascending = Uint8Array.from({ length }, (_, i) => i + 1);
    for (const bytes of [new Uint8Array(length), ascending, randomBytes(length)]) {
      for (const seed of [0, 1, 0x7fffffff, 0xdeadbeef, 0xffffffff]) {
        const text = `seed ${seed}, bytes ${Buffer.from(bytes).toString('hex')}`;
        assert.equal(ours(bytes, seed), reference.x86.hash128(bytes, seed), text);
      }
    }
  }
});

test('murmur3 x86_128 as published, for long keys and random ones', () => {
  for (const length of [65, 127, 128, 1000, 65_535]) {
    const bytes = randomBytes(length);
    assert.equal(ours(bytes, 5), reference.x86.hash128(bytes, 5));
  }
  for (let i = 0; i < 500; i++) {
    const bytes = randomBytes(Math.floor(Math.random() * 200));
    const seed = Math.floor(Math.random() * 2 ** 32);
    const text = `seed ${seed}, bytes ${Buffer.from(bytes).toString('hex')}`;
    assert.equal(ours(bytes, seed), reference.x86.hash128(bytes, seed), text);
  }
});

test('the place of the key in the scratch does not matter', () => {
  const bytes = randomBytes(37);
  assert.equal(ours(bytes, 9, 16), ours(bytes, 9));
  assert.equal(ours(bytes, 9, 64), ours(bytes, 9));
});

test('trailing zero bytes are part of the key', () => {
  const hashes = Array.from({ length: 40 }, (_, zeros) => ours(new Uint8Array(zeros), 3));
  assert.equal(new Set(hashes).size, hashes.length);
});

test('hashWords depends on every word, on the order and on the seed', () => {
  const words = Int32Array.from({ length: 20 }, (_, i) => i * 0x01010101);
  const whole = hashWords(words, 0, 20, 7);
  assert.notEqual(hashWords(words, 0, 20, 8), whole);
  assert.notEqual(hashWords(words, 0, 19, 7), whole);
  assert.notEqual(hashWords(words.toReversed(), 0, 20, 7), whole);
  for (let i = 0; i < 20; i++) {
    const changed = words.slice();
    changed[i] ^= 1;
    assert.notEqual(hashWords(changed, 0, 20, 7), whole);
  }
  const half = hashWords(words, 0, 10, 7);
  assert.equal(hashWords(words, 10, 10, half), whole, 'calls chain');
  assert.equal(hashWords(words, 0, 0, 7), 7);
});
