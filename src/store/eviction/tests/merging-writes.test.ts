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

test('sephash: in a full pool no write merges for memory, and so several times', (t) => {
  const store = freshStore(t, 'memory', { index: 'sephash', size: 16 * MIB, ...BOUND });
  const value = 'v'.repeat(100);
  // Beyond what the pool holds: until enough blocks are free, writes merge for memory.
  const first = 2 * FILL;
  for (let i = 0; i < first; i++) store.set(`k${i}`, value);
  let several = 0;
  let before = store.counters().resizes?.merges ?? 0;
  for (let i = first; i < first + 2 * WRITES; i++) {
    store.set(`k${i}`, value);
    const after = store.counters().resizes?.merges ?? 0;
    if (after > before + 1) several++;
    before = after;
  }
  // A write and its eviction may each fill a segment.
  assert.ok(several <= 3, `${several} writes have merged several times`);
});
