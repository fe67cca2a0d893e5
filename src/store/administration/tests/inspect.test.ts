import assert from 'node:assert/strict';
import { test } from 'node:test';
import { attach, inspectSync, openSync } from '../../open.ts';
import { throwsCode } from '../../tests/support/codes.ts';
import { freshStore, freshUrl, keepOpen, SMALL } from '../../tests/support/pools.ts';

/** Of no index that there is. */
const LATER_KIND = 200;

test('a store whose index a later version made is told, and the others with it', (t) => {
  const store = keepOpen(t, openSync(freshUrl(t, 'memory'), SMALL));
  store.set('k', 'v');
  const { client } = attach(store.handle, { create: false });
  t.after(() => client.end());
  const { pool } = client;
  pool.run(
    pool.catalog.findOrCreate('later', LATER_KIND, [], function* () {
      yield* [];
      return 64;
    }),
  );
  const stores = inspectSync(store.handle).stores.map(({ name, index, state, records }) => {
    return { name, index, state, records };
  });
  assert.deepEqual(stores, [
    { name: 'default', index: 'race', state: 'ready', records: 1 },
    { name: 'later', index: 'unknown', state: 'ready', records: 0 },
  ]);
  throwsCode('SW_UNSUPPORTED', () => openSync(store.handle, { store: 'later' }));
});

test('a pool counts the chunks that it never used as free', (t) => {
  const store = freshStore(t, 'memory');
  const { total, used, free } = inspectSync(store.handle).chunks;
  assert.equal(used + free, total);
  assert.ok(used > 0 && free > total / 2);
});
