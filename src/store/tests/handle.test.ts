/** A handle leads to the store that it is of, in another thread or process too. */
import assert from 'node:assert/strict';
import { relative } from 'node:path';
import { test } from 'node:test';
import { StepwellLevel } from '../../adapters/level/index.ts';
import type { PoolHandle } from '../api.ts';
import {
  check,
  destroySync,
  dropStoreSync,
  inspect,
  inspectSync,
  open,
  openSync,
} from '../open.ts';
import { codeOf, rejectsCode, throwsCode } from './support/codes.ts';
import { freshStore, freshUrl, keepOpen, POOL_KINDS, pathOf, SMALL } from './support/pools.ts';
import { startNodes } from './support/remote.ts';

const names = (pool: PoolHandle) => inspectSync(pool).stores.map(({ name }) => name);

for (const kind of POOL_KINDS) {
  test(`${kind}: the handle of a named store leads to it, and makes nothing`, async (t) => {
    const options = { ...SMALL, store: 'users', index: 'chime' } as const;
    const users = keepOpen(t, openSync(freshUrl(t, kind), options));
    users.set('k', 'v');
    const handle = structuredClone(users.handle);
    const same = keepOpen(t, openSync(handle));
    assert.deepEqual([same.name, same.get('k')], ['users', 'v']);
    const awaited = await open(handle);
    t.after(() => awaited.close());
    assert.equal(await awaited.get('k'), 'v');
    assert.equal(keepOpen(t, openSync(same.handle)).first()?.[1], 'v');
    assert.deepEqual(names(handle), ['users']);
    // Another store of the pool, by the option.
    const other = keepOpen(t, openSync(handle, { store: 'default' }));
    assert.deepEqual([other.name, other.get('k')], ['default', undefined]);
    assert.equal(keepOpen(t, openSync(other.handle)).name, 'default');
    assert.deepEqual((await check(handle)).problems, []);
    const level = new StepwellLevel(handle);
    assert.equal(await level.get('k'), 'v');
    await level.close();
    for (const store of [users, same]) store.close();
    await awaited.close();
    dropStoreSync(handle, 'users', { force: true });
    throwsCode('SW_STORE_NOT_FOUND', () => openSync(handle));
    assert.deepEqual(names(handle), ['default']);
    assert.equal(keepOpen(t, openSync(handle, { create: true, index: 'race' })).size, 0);
  });
}

test('tcp: the handle of a named store leads to it, however it was named', async (t) => {
  const { url } = await startNodes(t, 2);
  const keep = async (...place: Parameters<typeof open>) => {
    const store = await open(...place);
    t.after(() => store.close());
    return store;
  };
  const users = await keep(url, { ...SMALL, store: 'users' });
  const events = await keep(`${url}/a%2Fb`, { index: 'chime' });
  await users.set('k', 'of users');
  await events.set('k', 'of a/b');
  for (const store of [users, events]) {
    const same = await keep(JSON.parse(JSON.stringify(store.handle)));
    assert.deepEqual([same.name, await same.get('k')], [store.name, await store.get('k')]);
  }
  assert.equal(await (await keep(events.handle, { store: 'users' })).get('k'), 'of users');
  const { stores } = await inspect(events.handle);
  assert.deepEqual(stores.map(({ name }) => name).sort(), ['a/b', 'users']);
  assert.deepEqual((await check(users.handle)).problems, []);
  const missing = { url, store: 'missing' };
  await rejectsCode('SW_STORE_NOT_FOUND', () => open(missing));
  throwsCode('SW_UNSUPPORTED', () => openSync(users.handle));
});

test('a handle makes no pool, and does not go by the working directory', (t) => {
  const url = freshUrl(t, 'file');
  const store = keepOpen(t, openSync(`file:${relative('.', pathOf(url))}`, SMALL));
  assert.deepEqual(store.handle, { url, store: 'default' });
  store.close();
  destroySync(url);
  throwsCode('SW_POOL_NOT_FOUND', () => openSync(store.handle));
});

test('what is no handle', (t) => {
  for (const handle of [{}, { memory: [] }, { memory: 'x' }, { url: 7 }, null, { store: 'x' }]) {
    const code = codeOf(() => openSync(handle as unknown as PoolHandle));
    assert.equal(code, 'SW_INVALID_URL', JSON.stringify(handle));
  }
  const { memory } = freshStore(t).handle as { memory: SharedArrayBuffer[] };
  const handle = { memory, store: 7 } as unknown as PoolHandle;
  throwsCode('SW_INVALID_ARGUMENT', () => openSync(handle));
});
