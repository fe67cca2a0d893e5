/** Turns for nothing but the server's own request. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { Allocator } from '../../../pool/memory/allocator.ts';
import type { OpenOptions } from '../../../store/api.ts';
import { freshStore } from '../../../store/tests/support/pools.ts';

const RECORDS = 1000;
/** Records that a turn can remove: those of a bucket. */
const SLOTS = 7;

test('a deletion takes one block for its turn, and not a second one as well', (t) => {
  const store = filledStore(t);
  const { mock } = t.mock.method(Allocator.prototype, 'allocate');
  for (let i = 0; i < RECORDS; i++) store.delete(`key ${i}`);
  assert.equal(store.size, 0);
  assert.equal(mock.callCount(), RECORDS);
});

test('clear() removes the records of a bucket in one turn', (t) => {
  const store = filledStore(t, { kind: 'hstore', buckets: 32 });
  const { mock } = t.mock.method(Allocator.prototype, 'allocate');
  store.clear();
  assert.equal(store.size, 0);
  const turns = mock.callCount();
  assert.ok(turns >= RECORDS / SLOTS && turns < RECORDS / 4, `${turns} turns`);
  for (let i = 0; i < RECORDS; i++) assert.equal(store.get(`key ${i}`), undefined);
});

function filledStore(t: TestContext, index: OpenOptions['index'] = 'hstore') {
  const store = freshStore(t, 'memory', { index, size: 8 * 2 ** 20 });
  for (let i = 0; i < RECORDS; i++) store.set(`key ${i}`, 'a short value');
  return store;
}
