import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { KEY_BYTES, KeyGenerator } from '../keys.ts';
import { Permutation } from '../permutation.ts';
import { VALUE_BYTES, ValueGenerator } from '../values.ts';

describe('KeyGenerator', () => {
  it('gives the same 16 bytes as a string and as bytes', () => {
    const keys = new KeyGenerator(9);
    for (const index of [0, 1, 4095, 2 ** 32 - 1, 2 ** 32, 2 ** 52]) {
      const text = keys.string(index);
      assert.match(text, /^[0-9a-f]{16}$/);
      assert.equal(keys.bytes(index).length, KEY_BYTES);
      assert.deepEqual([...keys.bytes(index)], [...Buffer.from(text)]);
    }
  });

  it('writes at any offset and touches nothing else', () => {
    const target = new Uint8Array(20).fill(7);
    new KeyGenerator().write(5, target, 3);
    assert.deepEqual([...target.subarray(0, 3), target[19]], [7, 7, 7, 7]);
    assert.equal(Buffer.from(target.subarray(3, 19)).toString(), new KeyGenerator().string(5));
  });

  it('never gives one key to two indexes, and other keys for another seed', () => {
    const keys = new KeyGenerator();
    const others = new KeyGenerator(1);
    const seen = new Set<string>();
    for (let index = 0; index < 50_000; index++) seen.add(keys.string(index));
    for (let index = 0; index < 50_000; index++) seen.add(keys.string(index + 2 ** 40));
    assert.equal(seen.size, 100_000);
    for (let index = 0; index < 1000; index++) assert.ok(!seen.has(others.string(index)));
  });

  it('orders keys without regard to their indexes', () => {
    const keys = new KeyGenerator();
    let ascending = 0;
    for (let index = 0; index < 10_000; index++) {
      if (keys.string(index) < keys.string(index + 1)) ascending++;
    }
    assert.ok(Math.abs(ascending - 5000) < 200, `${ascending} of 10000 neighbours ascend`);
  });

  it('uses every digit evenly at every place', () => {
    const keys = new KeyGenerator();
    const counts = Array.from({ length: 16 }, () => new Map<string, number>());
    for (let index = 0; index < 16_000; index++) {
      [...keys.string(index)].forEach((digit, place) => {
        counts[place].set(digit, (counts[place].get(digit) ?? 0) + 1);
      });
    }
    for (const place of counts) {
      const chiSquare = [...place.values()].reduce((sum, n) => sum + (n - 1000) ** 2 / 1000, 0);
      assert.ok(place.size === 16 && chiSquare < 45, `chi-square ${chiSquare}`);
    }
  });
});

describe('Permutation', () => {
  it('is a bijection of every size, also of those next to powers of two', () => {
    for (const size of [1, 2, 3, 7, 8, 9, 63, 64, 65, 1000, 4097]) {
      const permutation = new Permutation(size, 5);
      const images = new Set<number>();
      for (let index = 0; index < size; index++) {
        const image = permutation.at(index);
        assert.ok(image >= 0 && image < size);
        images.add(image);
      }
      assert.equal(images.size, size);
    }
  });

  it('differs by seed and moves nearly everything', () => {
    const first = new Permutation(1000, 1);
    const second = new Permutation(1000, 2);
    let equal = 0;
    let fixed = 0;
    for (let index = 0; index < 1000; index++) {
      if (first.at(index) === second.at(index)) equal++;
      if (first.at(index) === index) fixed++;
    }
    assert.ok(equal < 10 && fixed < 10, `${equal} equal, ${fixed} fixed`);
  });

  it('refuses a size that it cannot permute', () => {
    for (const size of [0, -1, 1.5, 2 ** 32 + 1]) {
      assert.throws(() => new Permutation(size, 0), RangeError);
    }
  });
});

describe('ValueGenerator', () => {
  it('makes values that know their record and their version', () => {
    const values = new ValueGenerator();
    const value = values.buffer(2 ** 40 + 17, 3);
    assert.equal(value.length, VALUE_BYTES);
    assert.ok(values.belongsTo(value, 2 ** 40 + 17));
    assert.ok(!values.belongsTo(value, 17));
    assert.notDeepEqual(value, values.buffer(2 ** 40 + 17, 4));
    assert.deepEqual(value, values.buffer(2 ** 40 + 17, 3));
  });

  it('notices every changed byte', () => {
    const values = new ValueGenerator();
    for (let at = 0; at < VALUE_BYTES; at++) {
      const value = values.buffer(12345, 1);
      value[at] ^= 1;
      assert.ok(!values.belongsTo(value, 12345), `byte ${at}`);
    }
    assert.ok(!values.belongsTo(values.buffer(1).subarray(1), 1));
  });
});
