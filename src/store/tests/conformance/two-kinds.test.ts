import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { IndexName } from '../../api.ts';
import { checkSync, inspectSync, openSync } from '../../open.ts';
import { throwsCode } from '../support/codes.ts';
import { attachTo, freshStore, keepOpen, numbered, SMALL } from '../support/pools.ts';
import { crampedIndex } from './cases/suite.ts';

const KINDS: readonly IndexName[] = ['race', 'sephash'];

test('stores of both kinds in one pool know nothing of each other', (t) => {
  const first = freshStore(t, 'memory', { store: 'race', index: crampedIndex('race') });
  const stores = KINDS.map((index) =>
    keepOpen(t, openSync(first.handle, { store: index, index: crampedIndex(index) })),
  );
  const keys = numbered('k', 1500);
  stores.forEach((store, i) => {
    for (const key of keys) store.set(key, `${key} ${i}`);
    for (const key of keys.slice(0, 500)) store.set(key, `again ${i}`);
    store.deleteMany(keys.filter((_, at) => at % 3 === i));
  });
  stores.forEach((store, i) => {
    assert.equal(store.size, 1000);
    for (const [at, key] of keys.entries()) {
      const value = at < 500 ? `again ${i}` : `${key} ${i}`;
      assert.equal(store.get(key), at % 3 === i ? undefined : value);
    }
    assert.ok(store.stats().resizes.splits > 20);
  });
  const report = checkSync(first.handle);
  assert.deepEqual(report.problems, []);
  assert.deepEqual(
    report.stores.map(({ records }) => records),
    [1000, 1000],
  );
  const kinds = inspectSync(first.handle).stores.map(({ index }) => index);
  assert.deepEqual(kinds, KINDS);
  throwsCode('SW_STORE_MISMATCH', () => attachTo(t, stores[1], { index: 'race' }));
  throwsCode('SW_STORE_MISMATCH', () =>
    attachTo(t, stores[1], { index: { kind: 'sephash', ratio: 2 } }),
  );
  attachTo(t, stores[1], { index: crampedIndex('sephash') }).close();
});

test('directory and segments may lie in several regions', (t) => {
  const size = { size: 32 * 2 ** 20, regionSize: 2 ** 20 };
  for (const index of ['race', { kind: 'sephash', segmentBytes: 128 }] as const) {
    const store = freshStore(t, 'memory', { ...SMALL, ...size, index });
    const keys = numbered('k', 20_000);
    store.setMany(keys.map((key) => [key, key.padEnd(200)] as const));
    assert.ok(inspectSync(store.handle).regions > 4);
    keys.forEach((key) => {
      assert.equal(store.get(key), key.padEnd(200));
    });
    assert.deepEqual(checkSync(store.handle).problems, []);
  }
});

test('an index at its maximum depth takes no more keys, but lets keys be changed and deleted', (t) => {
  const index = { segmentBytes: 64, ratio: 1, initialDepth: 0, maxDepth: 2 };
  const store = freshStore(t, 'memory', { index: { kind: 'sephash', ...index } });
  const stored: string[] = [];
  throwsCode('SW_INDEX_FULL', () => {
    for (let i = 0; i < 1000; i++) {
      store.set(`k${i}`, 'v');
      stored.push(`k${i}`);
    }
  });
  assert.ok(stored.length >= 16);
  for (let round = 0; round < 20; round++) {
    for (const key of stored) assert.equal(store.update(key, `${round}`), true);
  }
  for (const key of stored) store.set(key, 'last');
  for (const key of stored) assert.equal(store.get(key), 'last');
  assert.deepEqual(checkSync(store.handle).problems, []);
  for (const key of stored) assert.equal(store.delete(key), true);
  assert.equal(store.size, 0);
  for (const key of stored.slice(0, 8)) store.set(key, 'again');
  assert.deepEqual(checkSync(store.handle).problems, []);
});
