import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { INDEX_KINDS } from '../../../indexes/kinds.ts';
import { lookAtIndex } from '../../administration/look.ts';
import type { IndexName, Store } from '../../api.ts';
import { attach, inspectSync, openSync } from '../../open.ts';
import { observePool, watchPool } from '../observer.ts';

const SIZE = 64 * 2 ** 20;
const RECORDS = 700;
const PARTS = 8;

describe('pictures', () => {
  const opened: Store[] = [];
  after(() => {
    for (const store of opened) store.close();
  });

  for (const { manifest } of INDEX_KINDS) {
    const name = manifest.name as IndexName;
    test(`${name}: what the parts say of the whole index is about what is there`, async () => {
      // Short directories and leaves, so that there are more parts than are asked for.
      const index = name === 'hstore' ? { kind: name, buckets: 256 } : { kind: name };
      const store = openSync('memory:', { size: SIZE, index });
      opened.push(store);
      for (let i = 0; i < RECORDS; i++) store.set(`key ${i}`, `value ${i}`);
      const watch = await watchPool(store.handle);
      const [all, some] = [
        await watch.perform('picture', 'default', 4096),
        await watch.perform('picture', 'default', PARTS),
      ];
      const [{ records, slots }] = inspectSync(store.handle).stores;
      assert.ok(all && some);
      assert.ok(Math.abs(all.records - records) <= records / 100, `${all.records} of ${records}`);
      assert.ok(Math.abs(some.records - records) <= records / 3, `${some.records} of ${records}`);
      if (name !== 'hstore' && name !== 'shard') assert.equal(all.slots, slots);
      for (const { shown, total } of some.layers) {
        assert.ok(shown.length <= Math.min(PARTS, total) && shown.length > 0);
        for (const part of shown) {
          assert.ok(part.used <= part.slots && part.cells.every((cell) => cell >= 0 && cell <= 1));
        }
      }
      assert.equal(await watch.perform('picture', 'none', PARTS), undefined);
      await watch.close();
    });

    test(`${name}: a picture posts READs alone`, () => {
      const store = openSync('memory:', { size: SIZE, index: name });
      opened.push(store);
      store.set('key', 'value');
      const { client } = attach(store.handle, { create: false });
      const { pool } = client;
      pool.enter();
      pool.run(lookAtIndex(pool, 'default', PARTS));
      const before = pool.fabric.traffic.snapshot();
      pool.run(lookAtIndex(pool, 'default', PARTS));
      const { reads, ...rest } = pool.fabric.traffic.snapshot();
      pool.exit();
      assert.ok(reads > before.reads);
      // The second look names the store no more: the row does already.
      const writes = { writes: rest.writes, swaps: rest.compareAndSwaps, adds: rest.fetchAndAdds };
      const { writes: w, compareAndSwaps: swaps, fetchAndAdds: adds } = before;
      assert.deepEqual(writes, { writes: w, swaps, adds });
      client.end();
    });
  }
});

test('an observer sees what clients tell: operations, hits, a bound, memory', async () => {
  const store = openSync('memory:', { size: SIZE, maxRecords: 100, eviction: 'lru' });
  const observer = await observePool(store.handle, 'memory:', { client: 'observer' });
  await observer.observe();
  for (let i = 0; i < 200; i++) store.set(`key ${i}`, 'value');
  for (let i = 0; i < 400; i++) store.get(`key ${i}`);
  let figures = await observer.observe();
  let { writes } = figures.sum;
  // What was done in one second may be told in two parts.
  for (let i = 0; i < 80 && (figures.sum.reads === 0 || writes === 0); i++) {
    await delay(50);
    figures = await observer.observe();
    writes = Math.max(writes, figures.sum.writes);
  }
  const { sum, clients, stores, bytesUsed } = figures;
  assert.equal(clients.length, 1);
  assert.ok(sum.reads > 0 && writes > 0);
  assert.ok(sum.hitRate !== null && sum.hitRate >= 0 && sum.hitRate <= 1);
  assert.ok(
    sum.readLatency && sum.readLatency.p50 > 0 && sum.readLatency.p99 >= sum.readLatency.p50,
  );
  assert.ok(bytesUsed > 0 && bytesUsed <= SIZE);
  const [{ bound, load, name }] = stores;
  assert.equal(name, 'default');
  assert.ok(bound && bound.maxRecords === 100 && bound.evictions >= 90 && bound.records <= 110);
  assert.ok(load && load.slots > 0);
  await observer.close();
  await assert.rejects(observer.observe(), { code: 'SW_CLOSED' });
  store.close();
});

test('what waits is told by a timer, and told again when it has come free', async (t) => {
  const store = openSync('memory:', { size: SIZE, client: 'writer' });
  const { client: holder } = attach(store.handle, { create: false, client: 'holder' });
  t.after(() => {
    holder.end();
    store.close();
  });
  const told = async (isThere: (claimed: number, waiting: number) => boolean) => {
    for (let i = 0; i < 100; i++) {
      const { clients } = inspectSync(store.handle);
      const { claimed, waiting } = clients.find(
        ({ name }) => name === 'writer',
      ) as (typeof clients)[0];
      if (isThere(claimed, waiting)) return;
      await delay(50);
    }
    assert.fail('it was not told');
  };
  holder.pool.enter();
  for (let i = 0; i < 100; i++) store.set(`key ${i}`, 'value');
  for (let i = 0; i < 100; i++) store.delete(`key ${i}`);
  await told((claimed, waiting) => claimed === 0 && waiting === 100 * 64);
  holder.pool.exit();
  holder.pool.rest();
  await told((claimed, waiting) => claimed === 0 && waiting === 0);
});

test('a pool that is not there is not made', async () => {
  const url = `shm:not-there-${process.pid}`;
  await assert.rejects(observePool(url, url), { code: 'SW_POOL_NOT_FOUND' });
});
