/** Stores of one pool that a thread has open share one client. */
import assert from 'node:assert/strict';
import { linkSync, readFileSync, renameSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { StepwellError } from '../../errors.ts';
import { claimedBlocks } from '../../pool/memory/tests/support/claimed-blocks.ts';
import type { IndexName, OpenOptions, PoolHandle } from '../api.ts';
import { attach, checkSync, destroySync, inspectSync, openAloneSync, openSync } from '../open.ts';
import { throwsCode } from './support/codes.ts';
import { freshStore, freshUrl, keepOpen, numbered, pathOf, SMALL } from './support/pools.ts';

const KINDS: readonly IndexName[] = ['race', 'sephash', 'shard', 'chime', 'hopscotch', 'hstore'];
const TINY: OpenOptions = { index: { kind: 'race', groups: 2, initialDepth: 0, maxDepth: 4 } };

/** Clients of the pool beside the one that looks. */
function clientsOf(pool: PoolHandle): number {
  return inspectSync(pool).clients.filter(({ self }) => !self).length;
}

/** How many blocks of a store are claimed. */
function claimedOf(t: TestContext, handle: PoolHandle, catalog: number): number {
  const { client } = attach(handle, { create: false });
  t.after(() => client.end());
  const { size } = claimedBlocks(client.pool, catalog);
  client.end();
  return size;
}

for (const kind of ['memory', 'shm', 'file'] as const) {
  test(`${kind}: stores of a thread take one row, and the last close gives it back`, (t) => {
    const keeper = keepOpen(
      t,
      openAloneSync(freshUrl(t, kind), { ...SMALL, size: 64 * 2 ** 20, maxClients: 3 }),
    );
    const names = numbered('s', 30);
    const stores = names.map((store) => openSync(keeper.handle, { store, ...TINY }));
    assert.equal(clientsOf(keeper.handle), 2);
    for (const [i, store] of stores.entries()) store.set('k', `v${i}`);
    for (const [i, store] of stores.entries()) assert.equal(store.get('k'), `v${i}`);
    const last = stores.pop();
    for (const store of stores) store.close();
    assert.equal(clientsOf(keeper.handle), 2);
    assert.equal(last?.get('k'), 'v29');
    last?.close();
    assert.equal(clientsOf(keeper.handle), 1);
    assert.deepEqual(checkSync(keeper.handle).problems, []);
  });
}

test('the pool is told by its file, not by how the URL spells it', (t) => {
  const url = freshUrl(t, 'file');
  const path = pathOf(url);
  const store = keepOpen(t, openSync(url, SMALL));
  symlinkSync(path, `${path}.symbolic`);
  linkSync(path, `${path}.hard`);
  const spellings = [
    `file://${path}`,
    `file:${join(path, '..', '.', 'pool')}`,
    `file:${path}.symbolic`,
    `file:${path}.hard`,
  ];
  for (const spelling of spellings) {
    const other = keepOpen(t, openSync(spelling, { create: false }));
    assert.equal(other.url, spelling);
    assert.equal(clientsOf(url), 1, spelling);
  }
  // Another file of the same name is another pool.
  renameSync(path, `${path}.moved`);
  const fresh = keepOpen(t, openSync(url, SMALL));
  fresh.set('k', 'fresh');
  assert.equal(store.get('k'), undefined);
  assert.equal(clientsOf(`file:${path}.moved`), 1);
});

test('a copy of a memory pool is another pool', (t) => {
  const store = freshStore(t);
  store.set('k', 'first');
  const { memory } = store.handle as { memory: SharedArrayBuffer[] };
  const copies = memory.map((buffer) => {
    const copy = new SharedArrayBuffer(buffer.byteLength);
    new Uint8Array(copy).set(new Uint8Array(buffer));
    return copy;
  });
  const other = keepOpen(t, openSync({ memory: copies }));
  other.set('k', 'second');
  assert.equal(store.get('k'), 'first');
});

test('a pool that was destroyed and made again is another one', (t) => {
  const url = freshUrl(t, 'shm');
  const old = keepOpen(t, openSync(url, SMALL));
  destroySync(url, { force: true });
  const fresh = keepOpen(t, openSync(url, SMALL));
  fresh.set('k', 'fresh');
  assert.equal(clientsOf(url), 1);
  old.close();
  assert.equal(fresh.get('k'), 'fresh');
});

for (const index of KINDS) {
  test(`${index}: calls nest across stores and handles, and none ends the other's epoch`, (t) => {
    const first = freshStore(t, 'memory', { index });
    const second = keepOpen(t, openSync(first.handle, { store: 'second', index }));
    const twin = keepOpen(t, openSync(first.handle));
    const keys = numbered('k', 300);
    const long = (key: string) => key.padEnd(100, '.');
    first.setMany(keys.map((key) => [key, long(key)] as const));
    for (const key of keys) {
      const seen = first.read(key, (bytes) => {
        // More than the operations between two quiescent points, on the memory that is read.
        for (let i = 0; i < 100; i++) second.set(`of ${key} ${i % 7}`, long(String(i)));
        twin.set(key, long(`again ${key}`));
        return Buffer.from(bytes).toString();
      });
      assert.equal(seen, long(key));
      assert.equal(first.get(key), long(`again ${key}`));
    }
    assert.equal(second.size, 7 * 300);
    second.close();
    assert.equal(twin.getMany(keys).filter((value) => value === undefined).length, 0);
    const { problems } = checkSync(first.handle);
    assert.deepEqual(problems, []);
  });
}

test('closing a store while another one is inside a call', (t) => {
  const first = freshStore(t);
  const second = openSync(first.handle, { store: 'second', index: 'chime' });
  second.setMany(numbered('k', 500).map((key) => [key, key] as const));
  first.set('k', 'v');
  const seen = first.read('k', (bytes) => {
    second.close();
    throwsCode('SW_CLOSED', () => second.get('k0'));
    return Buffer.from(bytes).toString();
  });
  assert.equal(seen, 'v');
  const again = openSync(first.handle, { store: 'second' });
  again.read('k7', () => {
    again.close();
    // Not the last store of the client: its memory is still there.
    assert.equal(first.get('k'), 'v');
    return 0;
  });
  assert.equal(first.get('k'), 'v');
  assert.equal(clientsOf(first.handle), 1);
  assert.deepEqual(checkSync(first.handle).problems, []);
});

test('what a closed store had claimed is for others at once', async (t) => {
  const first = freshStore(t);
  const second = openSync(first.handle, { store: 'second', ...TINY });
  second.setMany(numbered('k', 50).map((key) => [key, key] as const));
  for (const key of numbered('k', 50)) second.set(key, `${key} again`);
  const before = claimedOf(t, first.handle, 2);
  second.close();
  // The 50 records that were replaced, and what it had claimed ahead.
  assert.ok(claimedOf(t, first.handle, 2) < before - 100);
  const other = keepOpen(t, openAloneSync(first.handle, { store: 'second' }));
  assert.equal(other.get('k7'), 'k7 again');
  for (const key of numbered('k', 50)) other.set(key, `${key} once more`);
  first.set('k', 'v');
  assert.deepEqual(checkSync(first.handle).problems, []);
});

test('a client that was declared dead is not shared any more', (t) => {
  const store = freshStore(t);
  store.set('k', 'v');
  const other = attach(store.handle, { create: false }).client;
  t.after(() => other.end());
  const { pool } = other;
  const [row] = pool.run(pool.membership.rows()).filter(({ id }) => id !== pool.membership.id);
  assert.ok(pool.run(pool.membership.claimRecovery(row)));
  pool.run(pool.chunks.settleOwned(row.id, row.incarnation));
  pool.run(pool.membership.finishRecovery(row));
  const fresh = keepOpen(t, openSync(store.handle));
  assert.equal(fresh.get('k'), 'v');
  throwsCode('SW_REVOKED', () => {
    for (let i = 0; i < 100; i++) store.get('k');
  });
  store.close();
  assert.equal(fresh.get('k'), 'v');
  assert.equal(keepOpen(t, openSync(store.handle, { store: 'more' })).size, 0);
  assert.equal(clientsOf(store.handle), 2);
});

test('a store that cannot be opened takes no row', (t) => {
  const keeper = keepOpen(t, openAloneSync(freshUrl(t, 'file'), SMALL));
  const wrong: OpenOptions[] = [
    { store: 'missing', create: false },
    { index: 'chime' },
    { index: { kind: 'race', groups: 5 } },
    { store: '' },
  ];
  for (const options of wrong) assert.throws(() => openSync(keeper.url, options));
  assert.equal(clientsOf(keeper.url), 1);
  const store = keepOpen(t, openSync(keeper.url));
  for (const options of wrong) assert.throws(() => openSync(keeper.url, options));
  assert.equal(clientsOf(keeper.url), 2);
  store.set('k', 'v');
  assert.equal(keeper.get('k'), 'v');
});

test('of a pool whose leaving fails nothing stays mapped', (t) => {
  const url = freshUrl(t, 'file');
  openSync(url, SMALL).close();
  const isMapped = () => readFileSync('/proc/self/maps', 'utf8').includes(pathOf(url));
  const { client } = attach(url, { create: false });
  assert.ok(isMapped());
  t.mock.method(client.pool, 'close', () => {
    throw new StepwellError('SW_POOL_CORRUPT', 'damaged');
  });
  assert.throws(() => client.end(), { code: 'SW_POOL_CORRUPT' });
  assert.equal(isMapped(), false);
});
