import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { hasCode } from '../../errors.ts';
import type { OpenOptions, Store, Value } from '../api.ts';
import { checkSync } from '../open.ts';
import { throwsCode } from './support/codes.ts';
import { attachTo, freshStore, numbered } from './support/pools.ts';

const MIB = 2 ** 20;
const TINY: OpenOptions = {
  size: 3 * MIB,
  maxClients: 8,
  index: { kind: 'race', groups: 16, maxDepth: 12 },
};

/** Puts until the pool is full; returns the keys whose puts were acknowledged. */
function fill(store: Store<Value>, value: Value): string[] {
  const keys: string[] = [];
  throwsCode('SW_POOL_FULL', () => {
    for (;;) {
      const key = `key ${keys.length}`;
      store.set(key, value);
      keys.push(key);
    }
  });
  assert.ok(keys.length > 10);
  return keys;
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

function assertAll(store: Store<Value>, keys: readonly string[], value: Value): void {
  for (const key of keys) if (store.get(key) !== value) assert.equal(store.get(key), value, key);
}

test('a full memory: pool is not told to grow', (t) => {
  const store = freshStore(t, 'memory', TINY);
  const add = () => {
    for (let i = 0; ; i++) store.set(`key ${i}`, 'v'.repeat(12_000));
  };
  const message = /create it with a larger size: a memory: pool cannot grow$/;
  assert.throws(add, { code: 'SW_POOL_FULL', message });
});

for (const kind of ['memory', 'shm'] as const) {
  for (const bytes of [40, 1000, 12_000, 60_000]) {
    test(`${kind}: a full pool of values of ${bytes} bytes loses nothing`, (t) => {
      const store = freshStore(t, kind, TINY);
      const other = attachTo(t, store);
      const value = 'v'.repeat(bytes);
      const keys = fill(store, value);
      assertAll(other, keys, value);
      assertAll(store, keys, value);
      assert.equal(store.size, keys.length);
      assert.deepEqual(checkSync(store.handle).problems, []);
      throwsCode('SW_POOL_FULL', () => store.setMany([['more', value.repeat(3)]]));
      assert.equal(store.has('more'), false);
      assertAll(other, keys, value);
    });
  }
}

test('deletes make room again', (t) => {
  const store = freshStore(t, 'memory', TINY);
  const value = 'v'.repeat(1000);
  const keys = fill(store, value);
  for (let round = 0; round < 4; round++) {
    const gone = keys.slice(0, keys.length / 2);
    assert.equal(store.deleteMany(gone), gone.length);
    for (const key of gone) store.set(key, value);
    assertAll(store, keys, value);
  }
  assert.deepEqual(checkSync(store.handle).problems, []);
});

test('overwriting in a full pool works, as long as values stay in their size', (t) => {
  const store = freshStore(t, 'memory', TINY);
  const keys = fill(store, 'v'.repeat(1000));
  store.deleteMany(keys.splice(-50));
  for (let i = 0; i < 3000; i++) store.set(keys[i % keys.length], 'w'.repeat(1000));
  assertAll(store, keys.slice(0, 50), 'w'.repeat(1000));
});

/** Sets a key in a full pool as soon as another client has given back a block for it. */
async function setOnceThereIsRoom(store: Store<Value>, key: string, value: Value): Promise<void> {
  for (let tries = 0; tries < 400; tries++) {
    try {
      return store.set(key, value);
    } catch (error) {
      if (!hasCode(error, 'SW_POOL_FULL')) throw error;
    }
    await wait(25);
  }
  assert.fail('the blocks do not come back');
}

test('what another client deletes makes room for the owner of its memory', async (t) => {
  const store = freshStore(t, 'memory', TINY);
  const other = attachTo(t, store);
  const keys = fill(store, 'v'.repeat(1000));
  const half = keys.slice(0, keys.length / 2);
  assert.equal(other.deleteMany(keys), keys.length);
  // Both clients go idle, and the one that retired the blocks gives them back bit by bit: the
  // first that comes back does not mean that there are more.
  for (const key of half) await setOnceThereIsRoom(store, key, 'w'.repeat(1000));
  assertAll(other, half, 'w'.repeat(1000));
});

test('what an idle client filled and another one empties has room for other sizes', async (t) => {
  const sleeper = freshStore(t, 'memory', TINY);
  const other = attachTo(t, sleeper);
  const large = 'v'.repeat(12_000);
  const keys = fill(sleeper, 'v'.repeat(1000));
  // The event loop turns: the one that has filled it is idle, and stays so.
  await turn();
  assert.equal(other.deleteMany(keys), keys.length);
  await turn();
  const again = fill(other, large);
  // A chunk has room for 21 of them, and the pool has 9 chunks beside its tables.
  assert.ok(again.length > 8 * 20, `${again.length} records`);
  assertAll(sleeper, again, large);
  // Now the other one is idle, and the sleeper takes its chunks back.
  await turn();
  assert.equal(sleeper.deleteMany(again), again.length);
  await turn();
  const back = fill(sleeper, 'v'.repeat(1000));
  assert.ok(back.length > 0.8 * keys.length, `${back.length} records, ${keys.length} at first`);
  assert.deepEqual(checkSync(sleeper.handle).problems, []);
});

test('deletes make room for values of another size', async (t) => {
  const store = freshStore(t, 'memory', TINY);
  fill(store, 'v'.repeat(1000));
  store.clear();
  await new Promise((resolve) => setTimeout(resolve, 200));
  for (let i = 0; i < 50; i++) store.set(`large ${i}`, 'w'.repeat(5000));
  assert.equal(store.get('large 49'), 'w'.repeat(5000));
});

test('a cleared pool has room for another size after everybody left and came back', (t) => {
  const first = freshStore(t, 'shm', TINY);
  fill(first, 'v'.repeat(1000));
  first.clear();
  first.close();
  const later = attachTo(t, first);
  for (let i = 0; i < 50; i++) later.set(`large ${i}`, 'w'.repeat(5000));
});

test('an index at its maximum depth: SW_INDEX_FULL, and nothing lost', (t) => {
  for (const maxDepth of [0, 2]) {
    const store = freshStore(t, 'memory', {
      index: { kind: 'race', associativity: 2, groups: 3, maxDepth },
    });
    const other = attachTo(t, store);
    const keys: string[] = [];
    throwsCode('SW_INDEX_FULL', () => {
      for (;;) {
        const key = `key ${keys.length}`;
        store.set(key, key);
        keys.push(key);
      }
    });
    for (let i = 0; i < 200; i++) {
      try {
        store.set(`more ${i}`, 'v');
        keys.push(`more ${i}`);
      } catch {
        assert.equal(store.has(`more ${i}`), false);
      }
    }
    for (const key of keys) assert.ok(other.has(key));
    assert.equal(other.size, keys.length);
    assert.deepEqual(checkSync(store.handle).problems, []);
    // Updates need no slot, and a deletion makes one free.
    assert.equal(store.update('key 0', 'new'), true);
    assert.equal(store.delete('key 1'), true);
    store.set('key 1', 'again');
    assert.equal(other.get('key 1'), 'again');
    assert.ok(keys.length > 10);
    assert.throws(() => store.setMany(numbered('batch ', 40).map((key) => [key, key])), {
      code: 'SW_INDEX_FULL',
    });
    assert.deepEqual(checkSync(store.handle).problems, []);
  }
});
