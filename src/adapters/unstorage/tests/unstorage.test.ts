import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { createStorage, restoreSnapshot, snapshot } from 'unstorage';
import { onStores } from '../../../helpers/tests/support/stores.ts';
import { stepwellDriver } from '../index.ts';

onStores('items of every kind come back, for each client', async ({ s, attach }) => {
  const storage = createStorage({ driver: stepwellDriver({ store: s, prefix: 'p:' }) });
  const other = createStorage({
    driver: stepwellDriver({ store: await attach(), prefix: 'p:' }),
  });
  assert.equal(await storage.getItem('a'), null);
  assert.equal(await storage.hasItem('a'), false);
  const items = { a: 'text', 'b:zero': 0, 'b:false': false, 'b:object': { of: ['x'] } };
  await restoreSnapshot(storage, items);
  assert.deepEqual(await snapshot(other, ''), items);
  assert.equal(await s.get('p:a'), 'text');
  await storage.setItemRaw('raw', Uint8Array.of(1, 255));
  assert.deepEqual([...((await other.getItemRaw('raw')) as Uint8Array)], [1, 255]);
  assert.equal(await other.getItemRaw('none'), null);
  const many = await other.getItems(['a', 'none', 'b:zero']);
  assert.deepEqual(
    many.map(({ value }) => value),
    ['text', null, 0],
  );
  await other.removeItem('a');
  assert.equal(await storage.hasItem('a'), false);
});

onStores('keys below a base, to a depth, and clearing them', async ({ s }) => {
  const driver = stepwellDriver({ store: s });
  const storage = createStorage({ driver });
  for (const key of ['one', 'a:two', 'a:b:three', 'ab:four']) await storage.setItem(key, 1);
  const keys = async (...words: Parameters<typeof storage.getKeys>) =>
    (await storage.getKeys(...words)).sort();
  assert.deepEqual(await keys(), ['a:b:three', 'a:two', 'ab:four', 'one']);
  assert.deepEqual(await keys('a'), ['a:b:three', 'a:two']);
  assert.deepEqual(await keys('', { maxDepth: 1 }), ['a:two', 'ab:four', 'one']);
  await driver.clear?.('a:', {});
  assert.deepEqual(await keys(), ['ab:four', 'one']);
  await storage.clear();
  assert.deepEqual(await keys(), []);
});

onStores('items expire in the store', async ({ s }) => {
  const storage = createStorage({ driver: stepwellDriver({ store: s, ttl: 100 }) });
  await storage.setItem('a', 1);
  await storage.setItem('b', 1, { ttl: 10 });
  await storage.setItemRaw('c', 'x', { ttl: 10 });
  const left = async (key: string) => Math.ceil(((await s.ttl(key)) ?? 0) / 1000);
  assert.deepEqual([await left('a'), await left('b'), await left('c')], [100, 10, 10]);
});

onStores('a watch tells what other clients do', async ({ s, attach }) => {
  const storage = createStorage({ driver: stepwellDriver({ store: s }) });
  const heard = new Set<string>();
  await storage.setItem('old', 1);
  const unwatch = await storage.watch((event, key) => void heard.add(`${event} ${key}`));
  const other = await attach();
  // Its first look is when it likes: only what differs afterwards is told.
  for (let i = 0; i < 300 && !heard.has('update new'); i++) {
    await other.set('new', String(i));
    await pause(20);
  }
  await other.delete('old');
  for (let i = 0; i < 300 && !heard.has('remove old'); i++) await pause(20);
  assert.deepEqual([...heard], ['update new', 'remove old']);
  await unwatch();
});
