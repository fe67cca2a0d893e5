/** What `check` says of blocks that are in use and that no key reaches, and what it brings back. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { CatalogEntry } from '../../../pool/catalog.ts';
import type { OpenOptions } from '../../api.ts';
import { attach, checkSync, openSync } from '../../open.ts';
import { freshUrl, keepOpen } from '../../tests/support/pools.ts';
import { Child } from '../../tests/support/processes/children.ts';

const OPTIONS: OpenOptions = { size: 16 * 2 ** 20, maxClients: 8 };
const KEYS = 100;

/** A client of the store is killed in the middle of a burst. */
async function killWriter(t: TestContext, url: string, store: string): Promise<void> {
  const child = new Child(t);
  child.process.send({ kind: 'churn', url, options: { store }, keys: KEYS, dies: true });
  assert.deepEqual(await child.exited, [null, 'SIGKILL']);
}

function twoStores(t: TestContext): string {
  const url = freshUrl(t, 'file');
  for (const store of ['a', 'b']) openSync(url, { ...OPTIONS, store }).close();
  return url;
}

function leftoverOf(url: string, sweep = false) {
  const { problems, stores, leftover } = checkSync(url, { sweep });
  assert.deepEqual(problems, []);
  const blocks = stores.map((store) => store.leftover.blocks);
  assert.equal(
    blocks.reduce((sum, count) => sum + count, 0),
    leftover.blocks,
  );
  assert.equal(leftover.bytes > 0, leftover.blocks > 0);
  return { blocks, stores };
}

test('what killed clients left in two stores, next to a client of a third one', async (t) => {
  const url = twoStores(t);
  keepOpen(t, openSync(url, { store: 'c' })).set('key', 'value');
  const other = new Child(t);
  const open = { kind: 'churn', url, options: { store: 'c' }, keys: 1 } as const;
  assert.equal(await other.ask(open), 'churned');
  for (const store of ['a', 'b']) await killWriter(t, url, store);
  const found = leftoverOf(url);
  assert.ok(found.blocks[0] > 0 && found.blocks[1] > 0, `${found.blocks}`);
  assert.ok(found.stores.every(({ leftover }) => !leftover.atMost));
  const swept = leftoverOf(url, true);
  assert.deepEqual(swept.blocks, found.blocks);
  assert.ok(swept.stores.every(({ leftover }) => leftover.swept));
  assert.deepEqual(leftoverOf(url).blocks, [0, 0, 0]);
});

test('what killed clients left, next to an idle client of the same store', async (t) => {
  const url = twoStores(t);
  const other = new Child(t);
  const open = { kind: 'churn', url, options: { store: 'a' }, keys: KEYS } as const;
  assert.equal(await other.ask(open), 'churned');
  await killWriter(t, url, 'a');
  const found = leftoverOf(url);
  assert.ok(found.blocks[0] > 0);
  leftoverOf(url, true);
  assert.deepEqual(leftoverOf(url).blocks, [0, 0]);
});

test('a block that no key reaches, and that no client can have left, is a problem', (t) => {
  const url = freshUrl(t, 'file');
  const store = openSync(url, OPTIONS);
  store.set('key', 'value');
  store.close();
  assert.deepEqual(checkSync(url).problems, []);
  const { client } = attach(url, { create: false });
  const { pool } = client;
  const { id } = pool.run(pool.catalog.find('default')) as CatalogEntry;
  // The block is claimed, and this client forgets it.
  pool.run(pool.reclamation.duringEpoch(() => pool.allocator.allocate(id, 3)));
  client.end();
  const { problems, leftover } = checkSync(url);
  assert.deepEqual(leftover, { blocks: 0, bytes: 0 });
  assert.deepEqual(problems, [
    'store default: blocks are in use that no key reaches and no client has: 1 of 192 bytes',
  ]);
});
