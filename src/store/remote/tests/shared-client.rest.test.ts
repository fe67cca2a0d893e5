/** Stores on memory nodes that a thread has open share one client of each pool. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { MemorySource } from '../../../fabrics/shared/memory-source.ts';
import { NodeMemory } from '../../../fabrics/tcp/node/node-memory.ts';
import { NodeServer } from '../../../fabrics/tcp/node/node-server.ts';
import type { Operation } from '../../../verbs/index.ts';
import type { AsyncStore, IndexName, OpenOptions, Value } from '../../api.ts';
import { check, destroy, dropStore, inspect, open, openServed } from '../../open.ts';
import { rejectsCode } from '../../tests/support/codes.ts';
import { numbered } from '../../tests/support/pools.ts';
import { startNodes } from '../../tests/support/remote.ts';

const TINY: OpenOptions = { index: { kind: 'race', groups: 2, initialDepth: 0, maxDepth: 4 } };
const BYTES = 32 * 2 ** 20;
const KINDS: readonly IndexName[] = ['race', 'sephash', 'shard', 'chime', 'hopscotch', 'hstore'];

/** Clients of the pool beside the one that looks. */
async function clientsOf(url: string, options?: OpenOptions): Promise<number> {
  return (await inspect(url, options)).clients.filter(({ self }) => !self).length;
}

async function opened(t: TestContext, ...args: Parameters<typeof open>): Promise<AsyncStore> {
  const store = await open(...args);
  t.after(() => store.close());
  return store;
}

for (const nodes of [1, 3]) {
  test(`${nodes} nodes: stores of a thread take one row, and the last close gives it back`, async (t) => {
    const { url } = await startNodes(t, nodes, { bytes: BYTES });
    const options = { ...TINY, maxClients: 3 };
    const first = await opened(t, url, { ...options, store: 's0' });
    const others = numbered('s', 20).slice(1);
    const opening = others.map((store) => open(`${url}/${store}`, options));
    const stores = [first, ...(await Promise.all(opening))];
    assert.equal(await clientsOf(url), 1);
    await Promise.all(stores.map((store, i) => store.set('k', `v${i}`)));
    for (const [i, store] of stores.entries()) assert.equal(await store.get('k'), `v${i}`);
    const last = stores.pop() as AsyncStore<Value>;
    await Promise.all(stores.map((store) => store.close()));
    assert.equal(await clientsOf(url), 1);
    assert.equal(await last.get('k'), 'v19');
    await rejectsCode('SW_CLOSED', () => stores[3].get('k'));
    await last.close();
    assert.equal(await clientsOf(url), 0);
    assert.deepEqual((await check(url)).problems, []);
  });
}

test('stores that are opened at once in a new pool share its client', async (t) => {
  const { url } = await startNodes(t, 2, { bytes: BYTES });
  const options = { ...TINY, maxClients: 8 };
  await Promise.all(numbered('s', 8).map((store) => opened(t, url, { ...options, store })));
  assert.equal(await clientsOf(url), 1);
});

test('of stores that are opened at once, one that may not create the pool stops no other', async (t) => {
  const { url } = await startNodes(t, 1, { bytes: BYTES });
  const refused = rejectsCode('SW_POOL_NOT_FOUND', () => open(url, { create: false }));
  await opened(t, url, { ...TINY, maxClients: 8 });
  await refused;
});

test('stores that are let in another way have clients of their own', async (t) => {
  const secret = 'hush';
  const { url } = await startNodes(t, 1, { bytes: BYTES, secret: Buffer.from(secret) });
  const base: OpenOptions = { index: 'shard', maxClients: 16, secret };
  const ways: OpenOptions[] = [
    {},
    { secret: Buffer.from(secret) },
    { client: 'another' },
    { timeoutMs: 7000 },
    { delegation: true },
    { values: 'utf8' },
  ];
  const stores: AsyncStore<Value>[] = [];
  for (const way of ways) stores.push(await opened(t, url, { ...base, ...way }));
  // The second is let in as the first, and `values` is the handle's.
  assert.equal(await clientsOf(url, { secret }), 4);
  await stores[0].set('k', 'v');
  for (const store of stores) assert.equal(String(await store.get('k')), 'v');
  await rejectsCode('SW_UNAUTHENTICATED', () => open(url, { ...base, secret: 'wrong' }));
});

for (const index of KINDS) {
  test(`${index}: handles of a store, and stores, work at once and come and go`, async (t) => {
    const { url } = await startNodes(t, 1, { bytes: 64 * 2 ** 20 });
    const keeper = await opened(t, url, { index, maxClients: 8 });
    const keys = numbered('k', 60);
    let rounds = 0;
    const coming = async () => {
      for (; rounds < 6; rounds++) {
        const twin = await open(url);
        const other = await open(url, { store: `other ${rounds % 2}`, index });
        await Promise.all(keys.map((key) => other.set(key, `${key} ${rounds}`)));
        await Promise.all(keys.map((key) => twin.increment(key)));
        assert.equal(await other.get('k7'), `k7 ${rounds}`);
        await Promise.all([twin.close(), other.close()]);
      }
    };
    const working = async () => {
      let sum = 0;
      while (rounds < 6) {
        await Promise.all(keys.map((key) => keeper.increment(key)));
        sum++;
      }
      return sum;
    };
    const [sum] = await Promise.all([working(), coming()]);
    for (const value of await keeper.getMany(keys)) assert.equal(Number(value), sum + 6);
    assert.equal(await clientsOf(url), 1);
    const { problems, leftover, unreachable } = await check(url);
    assert.deepEqual(
      { problems, leftover, unreachable },
      { problems: [], leftover: { blocks: 0, bytes: 0 }, unreachable: 0 },
    );
  });
}

test('a store can be dropped as soon as it was closed, while another one is open', async (t) => {
  const { url } = await startNodes(t, 1, { bytes: BYTES });
  const keeper = await opened(t, url, { ...TINY, store: 'keeper', maxClients: 8 });
  for (let round = 0; round < 5; round++) {
    const store = await open(url, { ...TINY, store: 'users' });
    for (let i = 0; i < 300; i++) await store.set(`k${i % 7}`, `v${i}`);
    await store.close();
    assert.deepEqual((await dropStore(url, 'users')).heldBy, []);
    await keeper.set('k', `${round}`);
  }
  const store = await opened(t, url, { ...TINY, store: 'users' });
  await rejectsCode('SW_POOL_BUSY', () => dropStore(url, 'users'));
  assert.deepEqual((await dropStore(url, 'users', { force: true })).heldBy, []);
  await rejectsCode('SW_STORE_DROPPED', () => store.get('k'));
  assert.equal(await keeper.get('k'), '4');
});

test('calls that wait when their store is closed do not touch it', async (t) => {
  const { url } = await startNodes(t, 1, { bytes: BYTES });
  const keeper = await opened(t, url, { ...TINY, store: 'keeper', maxClients: 8 });
  for (let round = 0; round < 10; round++) {
    const store = await open(url, { ...TINY, store: 'users' });
    const calls = Array.from({ length: 300 }, (_, i) => store.set(`k${i}`, 'v'.repeat(i)));
    const settled = Promise.allSettled(calls);
    await store.close();
    for (const outcome of await settled) {
      if (outcome.status === 'rejected') assert.equal(outcome.reason.code, 'SW_CLOSED');
    }
    await keeper.set('k', `${round}`);
    await dropStore(url, 'users');
  }
  const { problems, leftover, unfinished } = await check(url);
  assert.deepEqual(
    { problems, leftover, unfinished },
    { problems: [], leftover: { blocks: 0, bytes: 0 }, unfinished: [] },
  );
});

test('stores whose client ends go on by one new client', async (t) => {
  const memory = new NodeMemory(MemorySource.allocate(1, BYTES), 1, BYTES);
  let node = await NodeServer.listen({ memory, host: '127.0.0.1', port: 0 });
  const { port } = node;
  const url = `tcp://127.0.0.1:${port}`;
  t.after(() => node.close());
  const options = { ...TINY, maxClients: 8 };
  const opening = numbered('s', 6).map((store) => opened(t, url, { ...options, store }));
  const stores = await Promise.all(opening);
  const expected = stores.map((_, i) => `v${i}`);
  for (const [i, store] of stores.entries()) await store.set('k', `v${i}`);
  for (let round = 0; round < 3; round++) {
    const underWay = Promise.allSettled(stores.map((store) => store.get('k')));
    await node.close();
    await underWay;
    node = await NodeServer.listen({ memory, host: '127.0.0.1', port });
    assert.deepEqual(await Promise.all(stores.map((store) => store.get('k'))), expected);
    assert.equal(await clientsOf(url), 1);
  }
});

test('a store whose pool was replaced does not go on in the new one', async (t) => {
  const { url } = await startNodes(t, 1, { bytes: BYTES });
  const old = await opened(t, url, { ...TINY, maxClients: 8 });
  await old.set('k', 'old');
  await destroy(url, { force: true });
  const fresh = await opened(t, url, { ...TINY, maxClients: 8 });
  await fresh.set('k', 'fresh');
  await rejectsCode('SW_POOL_NOT_FOUND', async () => {
    for (let i = 0; i < 2; i++)
      await old.get('k').catch((error) => i === 1 && Promise.reject(error));
  });
  assert.equal(await fresh.get('k'), 'fresh');
});

test('stores for operations share one client, and one operation may call several', async (t) => {
  const { url } = await startNodes(t, 1, { bytes: BYTES });
  const served = (store: string) =>
    openServed(url, { ...TINY, store, maxClients: 8, values: 'bytes' });
  const first = await served('s0');
  const others = await Promise.all(numbered('s', 5).slice(1).map(served));
  assert.equal(await clientsOf(url), 1);
  await first.pool.run(
    (function* (): Operation<void> {
      for (const [i, { operations }] of [first, ...others].entries()) {
        yield* operations.set('k', `v${i}`);
      }
    })(),
  );
  await assert.rejects(served('x'.repeat(1000)), { code: 'SW_INVALID_ARGUMENT' });
  await first.close();
  assert.equal(await clientsOf(url), 1);
  for (const [i, { operations, pool }] of others.entries()) {
    const value = await pool.run(operations.get('k'));
    assert.equal(Buffer.from(value as Uint8Array).toString(), `v${i + 1}`);
  }
  await assert.rejects(async () => first.pool.run(first.operations.get('k')), {
    code: 'SW_CLOSED',
  });
  for (const store of others) await store.close();
  assert.equal(await clientsOf(url), 0);
  const again = await served('s0');
  assert.equal(await clientsOf(url), 1);
  await again.close();
});
