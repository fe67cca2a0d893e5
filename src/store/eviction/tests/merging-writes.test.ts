import assert from 'node:assert/strict';
import { test } from 'node:test';
import { freshStore } from '../../tests/support/pools.ts';

const MIB = 2 ** 20;
const BOUND = { maxRecords: 2 ** 30, eviction: 'lru' } as const;
const FILL = 45_000;
const WRITES = 5000;
/**
 * For a sample, the searches of the new key and of the victim, and the merge. Half of the merged
 * entries are tombstones: with two records read for each, a merge alone had more READs.
 */
const READS_MAX = 120;

test('sephash: in a full pool a write that merges a segment reads about as much as others', (t) => {
  const store = freshStore(t, 'memory', { index: 'sephash', size: 8 * MIB, ...BOUND });
  const value = 'v'.repeat(100);
  for (let i = 0; i < FILL; i++) store.set(`k${i}`, value);
  assert.ok((store.stats().bound?.evictions ?? 0) > 0, 'the pool is full');
  const reads: number[] = [];
  let before = store.counters();
  for (let i = FILL; i < FILL + WRITES; i++) {
    store.set(`k${i}`, value);
    const after = store.counters();
    const merges = (after.resizes?.merges ?? 0) - (before.resizes?.merges ?? 0);
    if (merges === 1) reads.push(after.traffic.reads - before.traffic.reads);
    before = after;
  }
  assert.ok(reads.length > WRITES / 200, `${reads.length} writes have merged a segment`);
  const many = reads.filter((one) => one > READS_MAX);
  assert.equal(many.length, 0, `some read ${Math.max(0, ...many)} times`);
});

test('sephash: in a full pool hardly a write merges for memory, or twice', (t) => {
  const store = freshStore(t, 'memory', { index: 'sephash', size: 8 * MIB, ...BOUND });
  const value = 'v'.repeat(100);
  // Until enough blocks are free, writes do.
  const first = FILL + WRITES;
  for (let i = 0; i < first; i++) store.set(`k${i}`, value);
  const merges: number[] = [];
  let before = store.counters().resizes?.merges ?? 0;
  for (let i = first; i < first + WRITES; i++) {
    store.set(`k${i}`, value);
    const after = store.counters().resizes?.merges ?? 0;
    if (after > before) merges.push(after - before);
    before = after;
  }
  const several = merges.filter((count) => count > 1).length;
  assert.ok(several <= WRITES / 1000, `${several} writes have merged more than once`);
  // A segment is full when it has as many new records and tombstones as a CurSegment has entries.
  assert.ok(merges.length <= WRITES / 50, `${merges.length} writes have merged`);
});
