import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { OpenOptions } from '../../store/api.ts';
import { openSync } from '../../store/open.ts';
import { clientByHand } from '../../store/tests/support/by-hand.ts';
import { throwsCode } from '../../store/tests/support/codes.ts';
import { attachTo, freshStore, keepOpen } from '../../store/tests/support/pools.ts';
import type { Operation } from '../../verbs/index.ts';
import { CATALOG_ENTRIES } from '../layout.ts';
import { CHUNK_SPAN, unpackChunk } from '../memory/chunk-word.ts';

const TINY: OpenOptions = {
  index: { kind: 'race', groups: 2, associativity: 1, initialDepth: 0, maxDepth: 2 },
};

test('a pool has room for 64 stores', (t) => {
  const store = freshStore(t, 'memory', { ...TINY, size: 64 * 2 ** 20 });
  store.set('k', 'v');
  for (let i = 1; i < CATALOG_ENTRIES; i++) attachTo(t, store, { store: `s${i}`, ...TINY }).close();
  throwsCode('SW_TOO_MANY_STORES', () => openSync(store.handle, { store: 'one more', ...TINY }));
  assert.equal(keepOpen(t, openSync(store.handle, { store: 's63' })).size, 0);
  assert.equal(store.get('k'), 'v');
});

test('a store that could not be built leaves no trace', (t) => {
  const { pool } = clientByHand(t);
  const failing = (): never => {
    throw new Error('no');
  };
  const parameters = [1, 2, 3, 4, 5, 0, 0, 0];
  const create = (build: () => never) => () =>
    pool.run(pool.catalog.findOrCreate('broken', 1, parameters, build));
  assert.throws(create(failing), /no/);
  assert.equal(pool.run(pool.catalog.find('broken')), undefined);
  assert.deepEqual(
    pool.run(pool.catalog.entries()).map(({ name }) => name),
    ['default'],
  );
  // The lock is free again.
  assert.throws(create(failing), /no/);
});

test('what a store that could not be built has taken in whole chunks is given back', (t) => {
  const { pool } = clientByHand(t);
  const spans = () => {
    const words = pool.run(pool.chunks.words());
    return words.filter(([, word]) => unpackChunk(word).state === CHUNK_SPAN).length;
  };
  const before = spans();
  const build = function* (id: number): Operation<never> {
    for (;;) yield* pool.allocator.spans.allocate(id, 10_000);
  };
  const create = () => pool.run(pool.catalog.findOrCreate('large', 1, [], build));
  throwsCode('SW_POOL_FULL', create);
  assert.equal(spans(), before);
});

test('a name that begins with a byte order mark is a name of its own', (t) => {
  const marked = freshStore(t, 'memory', { store: '\ufeffx' });
  const plain = attachTo(t, marked, { store: 'x' });
  marked.set('k', 'marked');
  assert.equal(plain.get('k'), undefined);
  assert.equal(attachTo(t, marked, { store: '\ufeffx', create: false }).get('k'), 'marked');
});
