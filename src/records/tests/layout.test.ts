import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { UNIT_BYTES } from '../../verbs/index.ts';
import {
  CONTINUATION_HEADER_BYTES,
  CONTINUATION_UNITS,
  fitsOneBlock,
  KEY_BYTES_MAX,
  LINK_BYTES,
  pad8,
  planChain,
  SLOT_SIZE_CLASS,
  SLOT_UNITS_MAX,
  sizeClassOf,
  TIMES_BYTES,
  unitsOf,
  VALUE_BYTES_MAX,
  valueOffset,
} from '../layout.ts';

/** A head block that holds the longest key and a link. */
const UNITS_MAX = unitsOf(valueOffset(KEY_BYTES_MAX) + LINK_BYTES);

test('a size class holds what it is asked for, without much waste', () => {
  for (let units = 1; units <= UNITS_MAX; units++) {
    const size = sizeClassOf(units);
    assert.ok(Number.isInteger(size) && size >= units, `${units} -> ${size}`);
    assert.equal(sizeClassOf(size), size, `class ${size} is its own class`);
    if (units > 1) assert.ok(size >= sizeClassOf(units - 1), `monotone at ${units}`);
    if (units <= 8) assert.equal(size, units);
    else if (units <= 256 || units > CONTINUATION_UNITS) assert.ok(size <= 1.25 * units);
    else assert.equal(size, CONTINUATION_UNITS);
  }
});

test('there are few size classes', () => {
  const classes = new Set(Array.from({ length: UNITS_MAX }, (_, i) => sizeClassOf(i + 1)));
  assert.ok(classes.size < 50, `${classes.size}`);
});

test('the table of the slot lengths agrees with sizeClassOf', () => {
  assert.equal(SLOT_SIZE_CLASS.length, SLOT_UNITS_MAX + 1);
  for (let units = 1; units <= SLOT_UNITS_MAX; units++) {
    assert.equal(SLOT_SIZE_CLASS[units], sizeClassOf(units));
  }
});

test('pad8, unitsOf and valueOffset', () => {
  for (let n = 0; n < 200; n++) {
    assert.equal(pad8(n), Math.ceil(n / 8) * 8);
    assert.equal(unitsOf(n), Math.ceil(n / 64));
    assert.equal(valueOffset(n) % 8, 0);
    assert.ok(valueOffset(n) >= 16 + n);
  }
  assert.equal(unitsOf(valueOffset(16) + 32), 1, '16-byte keys with 32-byte values take one unit');
});

const lengths = fc.tuple(
  fc.oneof(fc.nat(80), fc.integer({ min: 16_200, max: 16_400 }), fc.nat(KEY_BYTES_MAX)),
  fc.oneof(fc.nat(80), fc.integer({ min: 16_200, max: 16_400 }), fc.nat(VALUE_BYTES_MAX)),
);

test('a chain has room for all of the value and begins with a full head', () => {
  fc.assert(
    fc.property(lengths, ([keyBytes, valueBytes]) => {
      const { headUnits, inlineBytes, pieces } = planChain(keyBytes, valueBytes);
      const head = valueOffset(keyBytes) + LINK_BYTES + inlineBytes;
      assert.equal(headUnits, unitsOf(head));
      const whole = pieces.reduce((sum, piece) => sum + piece.bytes, inlineBytes);
      assert.equal(whole, valueBytes);
      for (const [i, { bytes, units }] of pieces.entries()) {
        assert.ok(bytes > 0);
        assert.ok(units <= CONTINUATION_UNITS);
        assert.equal(units, sizeClassOf(units));
        assert.ok(CONTINUATION_HEADER_BYTES + pad8(bytes) <= units * UNIT_BYTES);
        if (i < pieces.length - 1)
          assert.equal(units, CONTINUATION_UNITS, 'only the last is short');
      }
      // A record's times are in its first block, however long its key is.
      assert.ok(inlineBytes >= Math.min(valueBytes, TIMES_BYTES));
      if (inlineBytes > TIMES_BYTES) assert.ok(headUnits <= SLOT_UNITS_MAX);
      if (pieces.length > 0 && inlineBytes > TIMES_BYTES) assert.equal(headUnits, SLOT_UNITS_MAX);
      // The inline part is copied in whole words, with the pieces right behind it.
      if (pieces.length > 0) assert.equal(inlineBytes % 8, 0);
      if (pieces.length > 1)
        for (const { bytes } of pieces.slice(0, -1)) assert.equal(bytes % 8, 0);
    }),
    { numRuns: 500 },
  );
});

test('what fits one block fits the length field of a slot', () => {
  fc.assert(
    fc.property(lengths, ([keyBytes, valueBytes]) => {
      const units = unitsOf(valueOffset(keyBytes) + pad8(valueBytes));
      assert.equal(fitsOneBlock(keyBytes, valueBytes), units <= SLOT_UNITS_MAX);
    }),
  );
  assert.ok(fitsOneBlock(16, 16_288));
  assert.ok(!fitsOneBlock(16, 16_289));
});
