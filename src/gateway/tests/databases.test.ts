import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Store, StoreStats } from '../../store/api.ts';
import { freshStore } from '../../store/tests/support/pools.ts';
import type { Operation } from '../../verbs/index.ts';
import { KeyCount } from '../databases.ts';
import { fakeStore, served } from './support/fake-store.ts';

test('keys are counted without a look at records, those that have expired too', (t) => {
  let now = 1000;
  const store = freshStore(t, 'memory', { clock: () => now, values: 'bytes' });
  for (let i = 0; i < 50; i++) store.set(`key ${i}`, 'x'.repeat(20_000), { ttlMs: 500 });
  const { store: operations, pool } = served(store as Store<Uint8Array>);
  const keyCount = new KeyCount();
  const count = () => pool.run(keyCount.of(operations));
  const before = store.counters().traffic.bytesRead;
  assert.equal(count(), 50);
  const read = store.counters().traffic.bytesRead - before;
  assert.ok(read < 50 * 20_000, `${read} bytes for one count`);
  now = 2000;
  assert.equal(store.size, 0, 'DBSIZE is exact');
  assert.equal(count(), 50, 'as Redis counts what it has not taken out');
});

test('a count that took long is told again for a while', () => {
  let records = 7;
  const slow = {
    // biome-ignore lint/correctness/useYield: an operation as that of a store
    *stats(): Operation<StoreStats> {
      for (const end = performance.now() + 8; performance.now() < end; );
      return { records } as StoreStats;
    },
  };
  const { pool } = fakeStore();
  const keyCount = new KeyCount();
  assert.equal(pool.run(keyCount.of(slow)), 7);
  records = 8;
  assert.equal(pool.run(keyCount.of(slow)), 7);
});
