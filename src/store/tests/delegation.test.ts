/** Operations that a client has in flight share verbs: `delegation`, and write combining. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AsyncStore, IndexName, OpenOptions } from '../api.ts';
import { open, openSync } from '../open.ts';
import { rejectsCode, throwsCode } from './support/codes.ts';
import { SMALL } from './support/pools.ts';
import { startNodes } from './support/remote.ts';

const AT_ONCE = 64;
const DELEGATING: readonly IndexName[] = ['shard'];

async function readsOf(store: AsyncStore, run: () => Promise<unknown>): Promise<number> {
  const before = (await store.stats()).traffic.reads;
  // What asking costs is asked for as well, and taken off.
  const asking = (await store.stats()).traffic.reads - before;
  await run();
  return (await store.stats()).traffic.reads - before - 2 * asking;
}

for (const index of DELEGATING) {
  test(`${index}: with delegation, calls in flight on one key share READs and CASes`, async (t) => {
    const { url } = await startNodes(t, 1, { bytes: 32 * 2 ** 20 });
    const options: OpenOptions = { index, maxClients: 8 };
    const alone = await open(url, { ...options, values: 'utf8' });
    t.after(() => alone.close());
    const sharing = await open(url, { ...options, values: 'utf8', delegation: true });
    t.after(() => sharing.close());
    await alone.set('hot', 'value');
    const gets = (store: AsyncStore<string>) => async () => {
      const values = await Promise.all(Array.from({ length: AT_ONCE }, () => store.get('hot')));
      assert.ok(values.every((value) => value === 'value'));
    };
    await gets(sharing)();
    await gets(alone)();
    const many = await readsOf(alone, gets(alone));
    const few = await readsOf(sharing, gets(sharing));
    assert.ok(many >= AT_ONCE, `${many} READs without delegation`);
    assert.ok(few <= AT_ONCE / 2, `${few} READs with delegation`);
    const lists = (store: AsyncStore<string>) => async () => {
      const all = await Promise.all(
        Array.from({ length: AT_ONCE }, () => store.getMany(['hot', 'cold', 'hot'])),
      );
      for (const found of all) assert.deepEqual(found, ['value', undefined, 'value']);
    };
    const apart = await readsOf(alone, lists(alone));
    const together = await readsOf(sharing, lists(sharing));
    assert.ok(together <= apart / 4, `getMany: ${together} READs, ${apart} without delegation`);
    // Each caller has its own outcome all the same.
    const counts = await Promise.all(
      Array.from({ length: 2 * AT_ONCE }, (_, i) => (i % 2 ? alone : sharing).increment('n')),
    );
    assert.equal(new Set(counts).size, 2 * AT_ONCE);
    const inserted = await Promise.all(
      Array.from({ length: AT_ONCE }, (_, i) => sharing.insert('new', `${i}`)),
    );
    assert.equal(inserted.filter(Boolean).length, 1);
    assert.equal(await alone.get('new'), String(inserted.indexOf(true)));
  });
}

test('delegation is refused where it could do nothing', async (t) => {
  for (const index of DELEGATING) {
    throwsCode('SW_UNSUPPORTED', () => openSync('memory:', { ...SMALL, index, delegation: true }));
    await rejectsCode('SW_UNSUPPORTED', () => open('memory:', { index, delegation: true }));
  }
  const { url } = await startNodes(t, 1, { bytes: 32 * 2 ** 20 });
  const none: IndexName[] = ['race', 'sephash', 'chime', 'hopscotch', 'hstore'];
  for (const index of none) {
    const options = { index, store: index, maxClients: 8 };
    await rejectsCode('SW_UNSUPPORTED', () => open(url, { ...options, delegation: true }));
    await (await open(url, { ...options, delegation: false })).close();
  }
  for (const delegation of [1, 'yes', null]) {
    const options = { index: 'shard', delegation } as unknown as OpenOptions;
    throwsCode('SW_INVALID_ARGUMENT', () => openSync('memory:', { ...SMALL, ...options }));
    await rejectsCode('SW_INVALID_ARGUMENT', () => open('tcp://127.0.0.1:9', options));
  }
});

for (const index of ['chime', 'hopscotch'] as const) {
  test(`${index}: writes in flight on one leaf share locks; each has its own outcome`, async (t) => {
    const { url } = await startNodes(t, 1, { bytes: 32 * 2 ** 20 });
    const bounds: OpenOptions[] = [{}, { store: 'bounded', maxRecords: 1000, eviction: 'lru' }];
    for (const bound of bounds) {
      const options: OpenOptions = { index, maxClients: 8, ...bound };
      const store = await open(url, { ...options, values: 'utf8' });
      t.after(() => store.close());
      await store.set('n', '0');
      const before = (await store.stats()).traffic.compareAndSwaps;
      const counts = await Promise.all(Array.from({ length: AT_ONCE }, () => store.increment('n')));
      const swaps = (await store.stats()).traffic.compareAndSwaps - before;
      assert.deepEqual(
        [...counts].sort((a, b) => a - b),
        numbers(1, AT_ONCE),
      );
      assert.ok(swaps <= AT_ONCE / 8, `${swaps} CASes for ${AT_ONCE} writes`);
      const inserted = await Promise.all(numbers(1, 20).map((i) => store.insert('new', `${i}`)));
      assert.equal(inserted.filter(Boolean).length, 1);
      assert.equal(await store.get('new'), String(inserted.indexOf(true) + 1));
      const removed = await Promise.all(numbers(1, 20).map(() => store.delete('new')));
      assert.equal(removed.filter(Boolean).length, 1);
      // An error of one is no error of those that it is combined with.
      await store.set('text', 'no number');
      const mixed = await Promise.allSettled(
        numbers(1, 20).map((i) => store.increment(i % 2 === 0 ? 'text' : 'n')),
      );
      assert.equal(mixed.filter(({ status }) => status === 'rejected').length, 10);
      assert.equal(await store.get('n'), String(AT_ONCE + 10));
      assert.equal(await store.size(), 2);
    }
  });
}

function numbers(from: number, count: number): number[] {
  return Array.from({ length: count }, (_, i) => from + i);
}
