import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inspect } from 'node:util';
import { open } from '../open.ts';
import { startNodes } from './support/remote.ts';

test('a store on memory nodes that is printed tells url, name, index and whether it is closed', async (t) => {
  const { url } = await startNodes(t, 1, { bytes: 16 * 2 ** 20 });
  const store = await open(url, { store: 'users', index: 'sephash' });
  const shown = (closed: boolean) =>
    `AsyncStore ${inspect({ url: store.url, store: 'users', index: 'sephash', closed })}`;
  assert.equal(inspect(store), shown(false));
  await store.close();
  assert.equal(inspect(store), shown(true));
});
