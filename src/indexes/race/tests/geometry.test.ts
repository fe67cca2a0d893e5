import assert from 'node:assert/strict';
import { test } from 'node:test';
import { throwsCode } from '../../../store/tests/support/codes.ts';
import { fingerprintOf, RaceGeometry, raceShape } from '../geometry.ts';

const MIB = 2 ** 20;

function geometry(groups: number, associativity = 7): RaceGeometry {
  return new RaceGeometry({ associativity, groups, initialDepth: 0, maxDepth: 4, seed: 0 });
}

/** Evenly spread and random, with the extremes. */
function* hashes(count: number): Iterable<number> {
  yield* [0, -1, 1, 0x7fffffff, -0x80000000];
  for (let i = 0; i < count; i++) yield (Math.random() * 2 ** 32) | 0;
}

test('a bucket with 7 slots is a line, and a combined bucket is two of them', () => {
  const shape = geometry(64);
  assert.equal(shape.bucketBytes, 64);
  assert.equal(shape.combinedBytes, 128);
  assert.equal(shape.buckets, 192);
  assert.equal(shape.slots, 192 * 7);
  assert.equal(shape.subtableBytes, 64 + 192 * 64);
  assert.equal(shape.subtableUnits, 193);
  assert.equal(shape.bucketAddress(4096, 2), 4096 + 64 + 128);
});

test('the two choices are combined buckets of different groups', () => {
  for (const groups of [2, 3, 5, 64, 1000, 65_536]) {
    const shape = geometry(groups);
    for (const h2 of hashes(300)) {
      for (const h3 of [0, -1, (Math.random() * 2 ** 32) | 0]) {
        const first = shape.firstChoice(h2);
        const second = shape.secondChoice(h2, h3);
        for (const choice of [first, second]) {
          assert.ok(Number.isInteger(choice) && choice >= 0);
          // Main and overflow, or overflow and main, but never across two groups.
          assert.ok(choice + 1 < shape.buckets && choice % 3 !== 2, `${choice}`);
        }
        assert.notEqual(Math.floor(first / 3), Math.floor(second / 3));
      }
    }
  }
});

test('first buckets are uniform within 5 %, for the first choice and for the second', () => {
  const shape = geometry(8);
  const samples = 400_000;
  const first = new Map<number, number>();
  const second = new Map<number, number>();
  for (let i = 0; i < samples; i++) {
    const h2 = (Math.random() * 2 ** 32) | 0;
    const a = shape.firstChoice(h2);
    const b = shape.secondChoice(h2, (Math.random() * 2 ** 32) | 0);
    first.set(a, (first.get(a) ?? 0) + 1);
    second.set(b, (second.get(b) ?? 0) + 1);
  }
  for (const counts of [first, second]) {
    assert.equal(counts.size, 16, 'two combined buckets in each of 8 groups');
    for (const [bucket, count] of counts) {
      const share = (count * 16) / samples;
      assert.ok(Math.abs(share - 1) < 0.05, `bucket ${bucket}: ${share}`);
    }
  }
});

test('a fingerprint is the top byte and never 0', () => {
  assert.equal(fingerprintOf(0), 1);
  assert.equal(fingerprintOf(0x00ffffff), 1);
  assert.equal(fingerprintOf(0x02000000), 2);
  assert.equal(fingerprintOf(-1), 255);
});

test('shapes within and outside the bounds', () => {
  const shape = raceShape({}, 64 * MIB, 9);
  assert.deepEqual(shape.associativity, 7);
  assert.equal(shape.groups, 64);
  assert.equal(shape.initialDepth, 1);
  assert.equal(shape.seed, 9);
  assert.ok(shape.maxDepth >= 4 && shape.maxDepth <= 24);
  assert.equal(raceShape({ maxDepth: 0 }, MIB, 0).initialDepth, 0);
  assert.equal(raceShape({}, 2 ** 50, 0).maxDepth, 24);
  const wrong: Parameters<typeof raceShape>[0][] = [
    { associativity: 0 },
    { associativity: 65 },
    { associativity: 1.5 },
    { groups: 1 },
    { groups: 65_537 },
    { maxDepth: 25 },
    { maxDepth: -1 },
    { initialDepth: -1 },
    { initialDepth: 5, maxDepth: 4 },
    { groups: Number.NaN },
    { groups: '64' as never },
  ];
  for (const wishes of wrong) throwsCode('SW_INVALID_ARGUMENT', () => raceShape(wishes, MIB, 0));
});
