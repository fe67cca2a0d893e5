// On what the package ships, where operations are plain functions: see scripts/test.ts.
import '../../../../../scripts/fresh-build.mjs';
import assert from 'node:assert/strict';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { type TestContext, test } from 'node:test';
import type { OpenOptions } from '../../../api.ts';
import { freshStore } from '../../../tests/support/pools.ts';

const WRITES = 20_000;
/** Evictions of one write: its own, and what a remedy may add. */
const BURST_MAX = 64;
/** The same, where each record that is evicted is free at once. */
const TABLE_BURST_MAX = 20;

/** Stores new keys of one size, some more after the pool is full; counts what they evict. */
function writesWhenFull(t: TestContext, options: OpenOptions, writes: number, valueBytes: number) {
  const store = freshStore(t, 'memory', { maxRecords: 2 ** 30, eviction: 'lru', ...options });
  const value = 'v'.repeat(valueBytes);
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
  let left = writes;
  for (let written = 0; left > 0; written++) {
    const before = evicted;
    store.set(`k${written}`, value);
    most = Math.max(most, evicted - before);
    if (evicted > 0) left--;
  }
  return { most, evicted, sweeps };
}

test('sephash: writes of one size to a full pool evict one record each, and never sweep', (t) => {
  const options = { size: 12 * 2 ** 20, index: 'sephash' } as const;
  const { most, evicted, sweeps } = writesWhenFull(t, options, WRITES, 100);
  assert.ok(most <= BURST_MAX, `one write evicted ${most} records`);
  assert.equal(sweeps, 0);
  assert.ok(evicted < 1.5 * WRITES, `${evicted} evicted`);
});

/** The pool is full of leaves or buckets, of which one is wanted, within so many writes. */
const SPLITTING = [
  { index: 'hstore', mebibytes: 12, writes: 24_000 },
  { index: 'chime', mebibytes: 6, writes: 12_000 },
] as const;

for (const { index, mebibytes, writes } of SPLITTING) {
  test(`${index}: no write empties a chunk because a table lacks one, in ${mebibytes} MiB`, (t) => {
    const options = { size: mebibytes * 2 ** 20, index };
    const { most, evicted, sweeps } = writesWhenFull(t, options, writes, 100);
    assert.ok(most <= TABLE_BURST_MAX, `one write evicted ${most} records`);
    assert.equal(sweeps, 0);
    assert.ok(evicted < 1.5 * writes, `${evicted} evicted`);
  });
}
