import assert from 'node:assert/strict';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { mock, test } from 'node:test';
import { checkSync, openSync } from '../../open.ts';
import { freshUrl, keepOpen } from '../../tests/support/pools.ts';

const MIB = 2 ** 20;
/** So short that it stands in a leaf. */
const VALUE = 'v'.repeat(32);

const ORDERS: Record<string, (i: number) => string> = {
  ascend: (i) => `k${1e9 + i}`,
  descend: (i) => `k${1e9 - i}`,
  'ascend in two places': (i) => `${i % 2}${1e9 + i}`,
};

for (const [order, key] of Object.entries(ORDERS)) {
  const policies = order === 'ascend' ? (['lru', 'adaptive'] as const) : (['lru'] as const);
  for (const eviction of policies) {
    test(`a full store keeps the newest of keys that ${order}: ${eviction}`, (t) => {
      const url = freshUrl(t, 'file');
      const options = { size: 4 * MIB, index: 'chime', maxRecords: 1_000_000, eviction } as const;
      const store = keepOpen(t, openSync(url, options));
      let written = 0;
      const evictions = () => store.stats().bound?.evictions ?? 0;
      while (evictions() === 0) {
        for (let i = 0; i < 1000; i++) store.set(key(written++), VALUE);
      }
      const held = store.size;
      const filled = written;
      while (written < filled + 1.5 * held) store.set(key(written++), VALUE);
      const evicted = evictions() / (written - filled);
      assert.ok(evicted < 1.2, `evicts ${evicted} records for each one that is written`);
      assert.ok(store.size > 0.9 * held, `holds ${store.size} records, and once ${held}`);
      for (let i = written - 1000; i < written; i++) assert.equal(store.get(key(i)), VALUE);
      let newest = 0;
      for (let i = written - store.size; i < written; i++) if (store.has(key(i))) newest++;
      assert.ok(newest > 0.5 * store.size, `${newest} of the ${store.size} newest are there`);
      store.close();
      assert.deepEqual(checkSync(url).problems, []);
    });
  }
}

test('a subscriber that writes when a record is evicted does not wait for that eviction', (t) => {
  const options = {
    size: 4 * MIB,
    index: 'chime',
    maxRecords: 1_000_000,
    eviction: 'lru',
  } as const;
  const store = keepOpen(t, openSync(freshUrl(t, 'file'), options));
  let written = 0;
  const put = () => store.set(ORDERS.ascend(written++), VALUE);
  let depth = 0;
  let nested = 0;
  const write = () => {
    if (depth++ === 0) put();
    depth--;
    nested++;
  };
  subscribe('stepwell:eviction', write);
  t.after(() => unsubscribe('stepwell:eviction', write));
  const waits = mock.method(Atomics, 'wait');
  t.after(() => waits.mock.restore());
  while (nested < 1000) put();
  assert.ok(waits.mock.callCount() < 1000, `${waits.mock.callCount()} pauses`);
});
