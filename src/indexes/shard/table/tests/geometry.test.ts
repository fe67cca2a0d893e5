import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { codeOf } from '../../../../store/tests/support/codes.ts';
import { SHARD_TECHNIQUES, shardShape } from '../../parameters.ts';
import { LEVELS, ShardGeometry } from '../geometry.ts';
import { POOL_BYTES_MAX } from '../slot.ts';

const MIB = 2 ** 20;
const geometryOf = (wishes: Record<string, number>) =>
  new ShardGeometry(shardShape(wishes, 64 * MIB, 1));

test('defaults are those of the paper', () => {
  const shape = shardShape({}, 64 * MIB, 9);
  const { level1, level2, threshold, alpha, without, seed } = shape;
  assert.deepEqual(
    { level1, level2, threshold, alpha, without, seed },
    { level1: 64, level2: 8, threshold: 80, alpha: 1000, without: 0, seed: 9 },
  );
  assert.equal(new ShardGeometry(shape).bucketBytes[0], 512);
});

test('wrong parameters are refused', () => {
  const wrong: Record<string, unknown>[] = [
    ...[0, 3, 2 ** 21, 1.5, '4'].map((buckets) => ({ buckets })),
    ...[0, 129, -1].map((level1) => ({ level1 })),
    ...[0, 33, Number.NaN].map((level2) => ({ level2 })),
    ...[0, 101].map((threshold) => ({ threshold })),
    ...[0, 1_000_001].map((alpha) => ({ alpha })),
    ...[-1, 31].map((resizes) => ({ resizes })),
    { resizes: 9, buckets: 2 ** 20 },
    { without: 2 ** SHARD_TECHNIQUES.length },
  ];
  for (const wishes of wrong) {
    const make = () => shardShape(wishes as Record<string, number>, 64 * MIB, 1);
    assert.equal(codeOf(make), 'SW_INVALID_ARGUMENT', JSON.stringify(wishes));
  }
  const tooLarge = () => shardShape({}, POOL_BYTES_MAX + 64, 1);
  assert.equal(codeOf(tooLarge), 'SW_INVALID_ARGUMENT');
});

test('a bucket of one version is split into itself and a bucket of the next segment', () => {
  const places = fc.record({
    log: fc.nat(6),
    version: fc.nat(20),
    hash: fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }),
  });
  fc.assert(
    fc.property(places, ({ log, version, hash }) => {
      const geometry = geometryOf({ buckets: 2 ** log });
      const bucket = geometry.bucketOf(hash, version);
      const next = geometry.bucketOf(hash, version + 1);
      const bit = (geometry.segmentId(hash, version) >>> (version % 4)) & 1;
      assert.ok(bucket >= 0 && bucket < geometry.bucketsAt(version));
      assert.equal(next, bit === 1 ? bucket + geometry.bucketsAt(version) : bucket);
      if (next === bucket) return;
      assert.equal(geometry.bornAt(next), version + 1);
      assert.equal(geometry.parentOf(next), bucket);
    }),
  );
});

test('buckets of a segment lie side by side, level by level, none over another', () => {
  for (const [buckets, level1, level2] of [
    [4, 64, 8],
    [1, 3, 1],
  ]) {
    const geometry = geometryOf({ buckets, level1, level2 });
    const end = new Map<number, number>();
    for (let level = 0; level < LEVELS; level++) {
      for (let bucket = 0; bucket < geometry.bucketsAt(4); bucket++) {
        const segment = geometry.bornAt(bucket);
        const bytes = geometry.bucketBytes[level];
        const inSegment = bucket - geometry.firstBucket(segment);
        const offset = geometry.levelOffset(segment, level) + inSegment * bytes;
        assert.ok(offset >= (end.get(segment) ?? 0) && offset % 8 === 0);
        end.set(segment, offset + bytes);
      }
    }
    for (const [segment, bytes] of end) assert.ok(bytes <= 64 * geometry.segmentUnits(segment));
  }
});
