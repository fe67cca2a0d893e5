/** A turn for nothing but the server's own request. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Allocator } from '../../../pool/memory/allocator.ts';
import { freshStore } from '../../../store/tests/support/pools.ts';

test('a deletion takes one block for its turn, and not a second one as well', (t) => {
  const records = 1000;
  const store = freshStore(t, 'memory', { index: 'hstore', size: 8 * 2 ** 20 });
  for (let i = 0; i < records; i++) store.set(`key ${i}`, 'a short value');
  const { mock } = t.mock.method(Allocator.prototype, 'allocate');
  store.clear();
  assert.equal(store.size, 0);
  assert.equal(mock.callCount(), records);
});
