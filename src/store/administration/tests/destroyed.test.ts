/** Clients whose pool is destroyed by force, and destroyers that die in the middle of it. */
import assert from 'node:assert/strict';
import { existsSync, openSync as openFile, writeSync } from 'node:fs';
import { test } from 'node:test';
import { SUPERBLOCK } from '../../../pool/layout.ts';
import { destroySync, openAloneSync, openSync } from '../../open.ts';
import { throwsCode } from '../../tests/support/codes.ts';
import { freshUrl, keepOpen, pathOf, SMALL } from '../../tests/support/pools.ts';
import { Child } from '../../tests/support/processes/children.ts';

for (const kind of ['shm', 'file'] as const) {
  test(`${kind}: attached clients are told, and open the new pool`, async (t) => {
    const url = freshUrl(t, kind);
    const here = keepOpen(t, openSync(url, SMALL));
    const child = new Child(t);
    const order = { kind: 'open', url, options: {}, at: 0, key: 'k' } as const;
    assert.equal(await child.ask(order), 'open');
    throwsCode('SW_POOL_BUSY', () => destroySync(url));
    destroySync(url, { force: true });
    throwsCode('SW_POOL_DESTROYED', () => here.get('k'));
    throwsCode('SW_POOL_DESTROYED', () => here.set('k', 'v'));
    assert.equal(await child.ask({ kind: 'read', key: 'k' }), 'SW_POOL_DESTROYED');
    const fresh = keepOpen(t, openSync(url, SMALL));
    assert.equal(fresh.get('k'), undefined);
    fresh.set('k', 'fresh');
    here.close();
    assert.equal(fresh.get('k'), 'fresh');
  });
}

test('a destroyer that dies before it takes the file away', (t) => {
  for (const next of ['open', 'destroy'] as const) {
    const url = freshUrl(t, 'file');
    openSync(url, SMALL).close();
    const fd = openFile(pathOf(url), 'r+');
    writeSync(fd, Uint8Array.of(1), 0, 1, SUPERBLOCK.destroyed);
    throwsCode('SW_POOL_NOT_FOUND', () => openSync(url, { create: false }));
    if (next === 'destroy') {
      destroySync(url);
      assert.equal(existsSync(pathOf(url)), false);
    } else {
      const store = keepOpen(t, openAloneSync(url, SMALL));
      store.set('k', 'v');
      assert.equal(store.get('k'), 'v');
    }
  }
});
