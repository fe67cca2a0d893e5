import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { StoreStats } from '../../../store/api.ts';
import { freshStore } from '../../../store/tests/support/pools.ts';
import { KeyCount } from '../key-count.ts';

test('keys are counted without a look at records, those that have expired too', (t) => {
  let now = 1000;
  const store = freshStore(t, 'memory', { clock: () => now });
  for (let i = 0; i < 50; i++) store.set(`key ${i}`, 'x'.repeat(20_000), { ttlMs: 500 });
  const count = new KeyCount();
  const before = store.counters().traffic.bytesRead;
  assert.equal(count.of(store), 50);
  const read = store.counters().traffic.bytesRead - before;
  assert.ok(read < 50 * 20_000, `${read} bytes for one count`);
  now = 2000;
  assert.equal(store.size, 0, 'DBSIZE is exact');
  assert.equal(count.of(store), 50, 'as Redis counts what it has not taken out');
});

test('a count that took long is told again for a while', () => {
  let records = 7;
  const slow = {
    stats() {
      for (const end = performance.now() + 8; performance.now() < end; );
      return { records } as StoreStats;
    },
  };
  const count = new KeyCount();
  assert.equal(count.of(slow), 7);
  records = 8;
  assert.equal(count.of(slow), 7);
});
