import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { lengthOf, pointerHigh, pointerLow } from '../../substrates/claims/slot-format.ts';
import {
  bucketHeaderHigh,
  depthOf,
  emptySlot,
  isReady,
  isVacant,
  ownsHash,
  PENDING,
  pointerOf,
  slotHigh,
  stampOf,
  UNMOVED,
  withStamp,
} from '../slot.ts';

const addresses = fc.oneof(
  fc.constantFrom(64, 2 ** 31 - 64, 2 ** 31, 2 ** 37, 2 ** 38 - 64, 2 ** 38, 2 ** 46 - 64),
  fc.bigInt({ min: 1n, max: 2n ** 40n - 1n }).map((units) => Number(units) * 64),
);

test('a slot keeps address, fingerprint, length and depth', () => {
  const fields = fc.tuple(addresses, fc.integer({ min: 1, max: 255 }), fc.nat(255), fc.nat(24));
  fc.assert(
    fc.property(fields, ([address, fingerprint, units, depth]) => {
      const low = pointerLow(address);
      const high = slotHigh(address, fingerprint, units, depth);
      for (const flags of [0, PENDING, UNMOVED, PENDING | UNMOVED]) {
        // Through an Int32Array, as in the pool.
        const [l, h] = Int32Array.of(low, high | flags);
        assert.equal(pointerOf(l, h), address);
        assert.equal(h >>> 24, fingerprint);
        assert.equal(lengthOf(h), units);
        assert.equal(stampOf(h), depth);
        assert.equal((h & PENDING) !== 0, (flags & PENDING) !== 0);
        assert.equal(isVacant(l, h), false);
        const frozen = withStamp(h, 24 - depth);
        assert.equal(stampOf(frozen), 24 - depth);
        assert.equal(pointerOf(l, frozen), address);
        assert.equal(frozen >>> 24, fingerprint);
        assert.equal(frozen & (PENDING | UNMOVED), flags);
      }
      assert.equal(pointerHigh(address), high & 0xff);
    }),
    { numRuns: 300 },
  );
});

test('an empty slot is vacant and matches no fingerprint', () => {
  for (let depth = 0; depth <= 24; depth++) {
    const high = emptySlot(depth);
    assert.equal(isVacant(0, high), true);
    assert.equal(isVacant(0, high | UNMOVED), true);
    assert.equal(high >>> 24, 0);
    assert.equal(stampOf(high), depth);
  }
});

test('a bucket header tells depth and state and matches no fingerprint', () => {
  for (let depth = 0; depth <= 24; depth++) {
    for (const ready of [true, false]) {
      const high = bucketHeaderHigh(depth, ready);
      assert.equal(depthOf(high), depth);
      assert.equal(isReady(high), ready);
      assert.equal(high >>> 24, 0);
    }
  }
});

test('a bucket owns the hashes that end with its suffix', () => {
  fc.assert(
    fc.property(fc.integer(), fc.integer({ min: 0, max: 24 }), fc.nat(), (hash, depth, other) => {
      const mask = 2 ** depth - 1;
      const header = bucketHeaderHigh(depth, true);
      assert.equal(ownsHash(hash & mask, header, hash), true);
      const suffix = other & mask;
      assert.equal(ownsHash(suffix, header, hash), suffix === (hash & mask));
    }),
  );
});
