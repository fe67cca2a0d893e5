import assert from 'node:assert/strict';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { test } from 'node:test';
import { freshStore } from '../../tests/support/pools.ts';

const WRITES = 20_000;
/** Evictions of one write: its own, and what a remedy may add. */
const BURST_MAX = 64;

test('sephash: writes of one size to a full pool evict one record each, and never sweep', (t) => {
  const sizes = { size: 12 * 2 ** 20, index: 'sephash', maxRecords: 2 ** 30 } as const;
  const store = freshStore(t, 'memory', { ...sizes, eviction: 'lru' });
  const bound = () => store.stats().bound ?? assert.fail('the store has no bound');
  let written = 0;
  while (bound().evictions === 0) {
    for (let i = 0; i < 1000; i++) store.set(`k${written++}`, 'v'.repeat(100));
  }
  let evicted = 0;
  let sweeps = 0;
  const countEviction = () => evicted++;
  const countSweep = () => sweeps++;
  subscribe('stepwell:eviction', countEviction);
  subscribe('stepwell:sweep', countSweep);
  t.after(() => {
    unsubscribe('stepwell:eviction', countEviction);
    unsubscribe('stepwell:sweep', countSweep);
  });
  let most = 0;
  for (let i = 0; i < WRITES; i++) {
    const before = evicted;
    store.set(`k${written + i}`, 'v'.repeat(100));
    most = Math.max(most, evicted - before);
  }
  assert.ok(most <= BURST_MAX, `one write evicted ${most} records`);
  assert.equal(sweeps, 0);
  assert.ok(evicted < 1.5 * WRITES, `${evicted} evicted`);
});
