import assert from 'node:assert/strict';
import { test } from 'node:test';
import { freshStore } from '../../tests/support/pools.ts';

const MIB = 2 ** 20;
const SHORT = 'x'.repeat(3000);

for (const index of ['race', 'chime', 'sephash'] as const) {
  test(`${index}: records that take blocks of several sizes find room in a full pool`, (t) => {
    const sizes = { size: 8 * MIB, index, maxRecords: 1_000_000, eviction: 'lru' } as const;
    for (const bytes of [30_000, 300_000]) {
      const store = freshStore(t, 'memory', sizes);
      for (let i = 0; i < 3000; i++) store.set(`short ${i}`, SHORT);
      const before = store.stats().bound?.records ?? 0;
      assert.ok(before < 3000, 'the pool is full');
      for (let i = 0; i < 5; i++) {
        const value = `${i}`.repeat(bytes);
        store.set('long', value);
        assert.equal(store.get('long'), value);
      }
      const left = store.stats().bound?.records ?? 0;
      assert.ok(left > before / 2, `${before} records, then ${left}`);
    }
  });
}
