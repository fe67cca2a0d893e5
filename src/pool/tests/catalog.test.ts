import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { StepwellError } from '../../errors.ts';
import type { OpenOptions } from '../../store/api.ts';
import { openSync } from '../../store/open.ts';
import { type ByHand, clientByHand } from '../../store/tests/support/by-hand.ts';
import { throwsCode } from '../../store/tests/support/codes.ts';
import { attachTo, freshStore, keepOpen } from '../../store/tests/support/pools.ts';
import { type Batch, type Operation, PAUSE } from '../../verbs/index.ts';
import { control } from '../control.ts';
import { CATALOG_ENTRIES, SUPERBLOCK } from '../layout.ts';
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
    pool.run(pool.catalog.findOrCreate('broken', 'race', parameters, build));
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
  const create = () => pool.run(pool.catalog.findOrCreate('large', 'race', [], build));
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

/** Microseconds for which an operation pauses until it has failed with this code. */
function pausesUntil(code: string, { pool }: ByHand, operation: Operation<unknown>): number {
  let pauses = 0;
  try {
    for (let step = operation.next(); !step.done; step = operation.next()) {
      const { kind, bytes, length } = step.value;
      for (let row = 0; row < length; row++) {
        if (kind[row] !== PAUSE) continue;
        pauses += bytes[row];
        bytes[row] = 0;
      }
      pool.fabric.execute(step.value);
    }
  } catch (error) {
    assert.equal((error as StepwellError).code, code);
    return pauses;
  }
  assert.fail('the operation ended');
}

test('a lock word that names a client which makes no store ends calls within a second', (t) => {
  const holder = clientByHand(t);
  const other = clientByHand(t, { handle: holder.handle });
  const { id, incarnation } = holder.pool.membership;
  holder.pool.run(control.store(SUPERBLOCK.catalogLock, BigInt(id + incarnation * 2 ** 12)));
  const make = () =>
    other.pool.catalog.findOrCreate('new', 'race', [], () => holder.pool.catalog.unswept(1));
  assert.ok(pausesUntil('SW_TIMEOUT', other, make()) < 1_000_000);
  const [entry] = other.pool.run(other.pool.catalog.entries());
  assert.ok(pausesUntil('SW_TIMEOUT', other, other.pool.catalog.drop(entry)) < 1_000_000);
});

test('a living client that makes a store is waited for longer', (t) => {
  const maker = clientByHand(t);
  const other = clientByHand(t, { handle: maker.handle });
  const build = function* (): Operation<number> {
    for (;;) yield* control.pause(1);
  };
  const making = maker.pool.catalog.findOrCreate('slow', 'race', [], build);
  for (let i = 0; i < 40; i++) maker.pool.fabric.execute(making.next().value as Batch);
  const make = other.pool.catalog.findOrCreate('new', 'race', [], build);
  assert.ok(pausesUntil('SW_TIMEOUT', other, make) > 4_000_000);
});
