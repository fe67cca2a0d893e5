import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { hasCode } from '../../../errors.ts';
import type { OpenOptions, Store } from '../../api.ts';
import { checkSync, openSync } from '../../open.ts';
import { freshUrl, keepOpen } from '../../tests/support/pools.ts';
import { Child } from '../../tests/support/processes/children.ts';
import { someIndexes } from '../../tests/support/some-indexes.ts';

const LIMIT = 300;
const KEYS = 3 * LIMIT;
const VALUE_BYTES = 100;
const POOL: OpenOptions = { size: 24 * 2 ** 20, maxClients: 8 };

function openBounded(t: TestContext, url: string, options: OpenOptions): Store {
  return keepOpen(t, openSync(url, options));
}

/** Writes as the children do. */
function burst(store: Store, count: number): void {
  for (let i = 0; i < count; i++) {
    const key = `key ${Math.floor(Math.random() * KEYS)}`;
    if (store.get(key) === undefined) store.set(key, key.padEnd(VALUE_BYTES));
  }
}

for (const index of someIndexes('race', 'chime', 'hstore')) {
  test(`${index}: clients that evict are killed`, { timeout: 120_000 }, async (t) => {
    const url = freshUrl(t, 'file');
    const options: OpenOptions = { ...POOL, index, maxRecords: LIMIT, eviction: 'adaptive' };
    const store = openBounded(t, url, options);
    const rounds = 1;
    for (let round = 0; round < rounds; round++) {
      const children = [new Child(t), new Child(t)];
      const order = { kind: 'evict', url, options, keys: KEYS, valueBytes: VALUE_BYTES } as const;
      for (const child of children) assert.equal(await child.ask(order), 'evicting');
      for (let i = 0; i < 5; i++) {
        burst(store, 100);
        await wait(10);
      }
      for (const child of children) {
        child.process.kill('SIGKILL');
        await child.exited;
      }
    }
    burst(store, 5 * LIMIT);
    for (const [key, value] of store) assert.equal(value, String(key).padEnd(VALUE_BYTES));
    const { records, bound } = store.stats();
    // Each of the killed was in the midst of one operation at most, which had not been counted.
    const killed = 2 * rounds;
    assert.ok(Math.abs((bound?.records ?? 0) - records) <= killed, `${bound?.records}, ${records}`);
    assert.ok(records <= LIMIT + killed && records >= LIMIT - killed, `${records} records`);
    assert.ok((bound?.evictions ?? 0) > 0);
    store.close();
    // What the killed had evicted, and not yet freed, a sweep brings back.
    assert.deepEqual(checkSync(url, { sweep: true }).problems, []);
    const { problems, leftover, unreachable } = checkSync(url);
    assert.deepEqual(
      { problems, leftover, unreachable },
      { problems: [], leftover: { blocks: 0, bytes: 0 }, unreachable: 0 },
    );
  });
}

function errorOf(act: () => void): unknown {
  try {
    act();
  } catch (error) {
    return error;
  }
  return undefined;
}

test('only a stopped client makes a bounded store full, and the error names it', async (t) => {
  const url = freshUrl(t, 'file');
  const bytes = 2000;
  const options: OpenOptions = { size: 4 * 2 ** 20, maxClients: 4, maxRecords: 400 };
  const store = openBounded(t, url, options);
  const child = new Child(t);
  const order = { kind: 'evict', url, options, keys: 2000, valueBytes: bytes } as const;
  assert.equal(await child.ask(order), 'evicting');
  const { pid } = child.process;
  const write = (from: number) => {
    for (let i = from; i < from + 5000; i++) store.set(`own ${i}`, 'v'.repeat(bytes));
  };
  // Between two of its bursts it holds nothing back: then once more.
  let refused: unknown;
  for (let attempt = 0; attempt < 60 && refused === undefined; attempt++) {
    if (attempt > 0) await child.signal('SIGCONT');
    await child.signal('SIGSTOP');
    refused = errorOf(() => write(5000 * attempt));
  }
  assert.ok(hasCode(refused, 'SW_POOL_FULL'));
  assert.match((refused as Error).message, new RegExp(`row \\d+, pid ${pid}\\b`));
  assert.ok(store.size > 0, 'what cannot be used again is not evicted in vain');
  await child.signal('SIGKILL');
  write(200_000);
  assert.ok(store.size <= 401);
});

test('filled again and again, a bounded store takes the same memory', (t) => {
  const store = openBounded(t, 'memory:', { size: 8 * 2 ** 20, maxBytes: 2 ** 20 });
  const taken: number[] = [];
  for (let round = 0; round < 6; round++) {
    for (let i = 0; i < 2500; i++) store.set(`${round} ${i}`, 'v'.repeat(50 + ((i * 37) % 2000)));
    const { memory, bound } = store.stats();
    assert.ok((bound?.bytes ?? 0) <= 2 ** 20 && (bound?.bytes ?? 0) > 0.97 * 2 ** 20);
    taken.push(memory.records);
    if (round % 2 === 1) store.clear();
  }
  assert.ok(Math.max(...taken.slice(2)) <= 1.25 * taken[1], `${taken}`);
});

test('a pool that is full before its bounded store is evicts too', (t) => {
  const store = openBounded(t, 'memory:', { size: 4 * 2 ** 20, maxRecords: 1e6, eviction: 'lfu' });
  for (const bytes of [100, 1500, 300, 4000, 100]) {
    for (let i = 0; i < 3000; i++) {
      store.set(`${bytes} ${i}`, 'v'.repeat(bytes));
      assert.equal(store.has(`${bytes} ${i}`), true);
    }
  }
  assert.deepEqual(checkSync(store.handle).problems, []);
});
