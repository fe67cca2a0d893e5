import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { lengthOf, pointerLow } from '../../../substrates/claims/slot-format.ts';
import {
  advanced,
  CLEARING,
  entryHigh,
  FROZEN,
  freshHigh,
  isEmpty,
  isFresh,
  isLive,
  leaves,
  OVERFLOW,
  OVERFLOW_MASK,
  PENDING,
  pointerOf,
  segmentIdOf,
  stampFor,
  stampOf,
  usedHigh,
  VERSION_MAX,
} from '../slot.ts';

const addresses = fc.oneof(
  fc.constantFrom(64, 2 ** 31 - 64, 2 ** 31, 2 ** 37, 2 ** 38 - 64, 2 ** 38, 2 ** 41 - 64),
  fc.bigInt({ min: 1n, max: 2n ** 35n - 1n }).map((units) => Number(units) * 64),
);
const fields = fc.record({
  address: addresses,
  units: fc.integer({ min: 1, max: 255 }),
  fingerprint: fc.integer({ min: 1, max: 255 }),
  id: fc.nat(15),
  version: fc.nat(VERSION_MAX),
  flags: fc.constantFrom(
    0,
    FROZEN,
    PENDING,
    OVERFLOW,
    CLEARING,
    FROZEN | OVERFLOW,
    OVERFLOW | CLEARING,
  ),
});

test('an entry keeps address, fingerprint, length, segment id, version and flags apart', () => {
  fc.assert(
    fc.property(fields, ({ address, units, fingerprint, id, version, flags }) => {
      const low = pointerLow(address);
      const high = entryHigh(address, fingerprint, units, id) | stampFor(version) | flags;
      assert.equal(pointerOf(low, high), address);
      assert.equal(lengthOf(high), units);
      assert.equal(high >>> 24, fingerprint);
      assert.equal(segmentIdOf(high), id);
      assert.equal(stampOf(high), version + 1);
      assert.equal(isEmpty(low, high), false);
      assert.equal(isLive(low, high), (flags & PENDING) === 0);
      assert.equal(leaves(high), ((id >> (version % 4)) & 1) === 1);
      const used = usedHigh(high);
      assert.ok(isEmpty(0, used) && !isFresh(0, used) && !isLive(0, used));
      assert.equal(used & OVERFLOW_MASK, high & OVERFLOW_MASK);
      assert.equal(stampOf(used), version + 1);
    }),
  );
});

test('the next version keeps the record and the overflow bit', () => {
  fc.assert(
    fc.property(fields, fc.nat(15), (given, id) => {
      const { address, units, fingerprint, version } = given;
      if (version === VERSION_MAX) return;
      const low = pointerLow(address);
      const high = entryHigh(address, fingerprint, units, given.id) | stampFor(version);
      const next = advanced(high | FROZEN | OVERFLOW, version + 1, id);
      assert.equal(pointerOf(low, next), address);
      assert.equal(stampOf(next), version + 2);
      assert.equal(segmentIdOf(next), id);
      assert.equal(next & (FROZEN | OVERFLOW_MASK), OVERFLOW);
      // Whatever was being found out about the old bucket says nothing of the new ones.
      for (const flags of [CLEARING, CLEARING | OVERFLOW]) {
        assert.equal(advanced(high | flags, version + 1, id) & OVERFLOW_MASK, OVERFLOW);
      }
      assert.equal(advanced(high, version + 1, id) & OVERFLOW_MASK, 0);
      assert.equal(segmentIdOf(advanced(high, version + 1, undefined)), given.id);
    }),
  );
});

test('a word of no bits has never been initialised, a fresh one has', () => {
  assert.equal(stampOf(0), 0);
  for (let version = 0; version <= VERSION_MAX; version++) {
    const high = freshHigh(version);
    assert.ok(isFresh(0, high) && stampOf(high) === version + 1);
  }
});
