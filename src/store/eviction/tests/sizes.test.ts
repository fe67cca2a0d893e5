import assert from 'node:assert/strict';
import { test } from 'node:test';
import { codeOf, throwsCode } from '../../tests/support/codes.ts';
import { freshStore, numbered } from '../../tests/support/pools.ts';
import { BoundedStore } from '../bounded-store.ts';

const BYTES_MAX = 8192;
const NONE = { maxBytes: BYTES_MAX, eviction: 'none' } as const;

test('a store in bytes that evicts nothing refuses what would be more than its bound', (t) => {
  const store = freshStore(t, 'memory', NONE);
  const bytes = () => store.stats().bound?.bytes ?? 0;
  for (const key of numbered('k', 40)) store.set(key, 'v'.repeat(100));
  assert.equal(bytes(), 40 * 192);
  const long = 'v'.repeat(1000);
  const writes: Record<string, () => unknown> = {
    set: () => store.set('new', long),
    'set, longer': () => store.set('k1', long),
    insert: () => store.insert('new', long),
    update: () => store.update('k1', long),
    swap: () => store.swap('k1', long),
    append: () => store.append('k1', long),
    'append, new': () => store.append('new', long),
    compareAndSet: () => store.compareAndSet('k1', store.getEntry('k1')?.version ?? 0, long),
    state: () => store.changeState('state', () => ({ result: 0, next: long })),
  };
  for (const [name, write] of Object.entries(writes)) {
    assert.equal(codeOf(write), 'SW_POOL_FULL', name);
  }
  // What stores nothing, or nothing longer, is not refused.
  assert.equal(store.insert('k1', long), false);
  assert.equal(store.update('new', long), false);
  store.set('k1', 'w');
  store.set('k2', 'w'.repeat(100));
  store.append('k3', 'w');
  assert.ok(bytes() <= BYTES_MAX);
  for (let i = 0; i < 8; i++) store.delete(`k${10 + i}`);
  store.set('new', long);
  store.append('k4', long.slice(0, 100));
  assert.ok(bytes() <= BYTES_MAX);
});

test('a record that alone is larger than the bound is refused, and evicts nothing', (t) => {
  for (const eviction of ['lru', 'none'] as const) {
    const store = freshStore(t, 'memory', { maxBytes: BYTES_MAX, eviction });
    const keys = numbered('k', 20);
    for (const key of keys) store.set(key, 'v');
    const tooLong = 'v'.repeat(BYTES_MAX);
    for (const write of [
      () => store.set('k1', tooLong),
      () => store.set('long', tooLong),
      () => store.insert('long', tooLong),
      () => store.append('k1', tooLong),
      () => store.changeState('long', () => ({ result: 0, next: tooLong })),
    ]) {
      throwsCode('SW_INVALID_VALUE', write);
    }
    assert.ok(keys.every((key) => store.get(key) === 'v'));
  }
});

test("a store full of helpers' states does not sample in vain for each write", (t) => {
  const limit = 160;
  const time = { now: 1_700_000_000_000 };
  const store = freshStore(t, 'memory', { maxRecords: limit, clock: () => time.now });
  const keepUntil = time.now + 1000;
  const states = numbered('state', 2 * limit);
  for (const name of states) store.changeState(name, () => ({ result: 0, next: 'v', keepUntil }));
  const samples = t.mock.method(BoundedStore.prototype, 'findVictim');
  for (const key of numbered('k', 100)) store.set(key, 'v');
  const count = samples.mock.callCount();
  assert.ok(count < 1000, `${count} samples`);
  const records = () => store.stats().bound?.records ?? 0;
  assert.ok(records() <= 2 * limit + limit / 8, `${records()} records`);
  time.now += 1000;
  for (const key of numbered('more', 2 * limit)) store.set(key, 'v');
  assert.equal(records(), limit);
});
