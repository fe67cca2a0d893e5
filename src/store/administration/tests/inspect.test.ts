import assert from 'node:assert/strict';
import { test } from 'node:test';
import { attach, inspectSync, openSync } from '../../open.ts';
import { freshStore, freshUrl, keepOpen, SMALL } from '../../tests/support/pools.ts';

test('a store whose index a later version made is told, and the others with it', (t) => {
  const store = keepOpen(t, openSync(freshUrl(t, 'memory'), SMALL));
  store.set('k', 'v');
  const { client } = attach(store.handle, { create: false });
  t.after(() => client.end());
  const { pool } = client;
  pool.run(
    pool.catalog.findOrCreate('later', 'later-index', [], function* () {
      yield* [];
      return 64;
    }),
  );
  const stores = inspectSync(store.handle).stores.map(({ name, index, state, records }) => {
    return { name, index, state, records };
  });
  assert.deepEqual(stores, [
    { name: 'default', index: 'race', state: 'ready', records: 1 },
    { name: 'later', index: 'later-index', state: 'ready', records: 0 },
  ]);
  assert.throws(() => openSync(store.handle, { store: 'later' }), {
    code: 'SW_UNSUPPORTED',
    message: /the index later-index, which this program does not have; use /,
  });
});

test('a pool counts the chunks that it never used as free', (t) => {
  const store = freshStore(t, 'memory');
  const { total, used, free } = inspectSync(store.handle).chunks;
  assert.equal(used + free, total);
  assert.ok(used > 0 && free > total / 2);
});
