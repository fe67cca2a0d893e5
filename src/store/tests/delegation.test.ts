/** The option `delegation`: operations of a client on one key share verbs. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AsyncStore, IndexName, OpenOptions } from '../api.ts';
import { open, openSync } from '../open.ts';
import { rejectsCode, throwsCode } from './support/codes.ts';
import { SMALL } from './support/pools.ts';
import { startNodes } from './support/remote.ts';

const AT_ONCE = 64;
/** With a hotspot buffer a search is one READ without delegation, too. */
const PLAIN = { hotspots: 0 };
const DELEGATING: readonly IndexName[] = ['chime', 'hopscotch', 'shard'];

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
    const options: OpenOptions = { index, maxClients: 8, ...(index !== 'shard' && PLAIN) };
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
  const none: IndexName[] = ['race', 'sephash', 'hstore'];
  for (const index of none) {
    const options = { index, store: index, maxClients: 8 };
    await rejectsCode('SW_UNSUPPORTED', () => open(url, { ...options, delegation: true }));
    await (await open(url, { ...options, delegation: false })).close();
  }
  for (const delegation of [1, 'yes', null]) {
    const options = { index: 'chime', delegation } as unknown as OpenOptions;
    throwsCode('SW_INVALID_ARGUMENT', () => openSync('memory:', { ...SMALL, ...options }));
    await rejectsCode('SW_INVALID_ARGUMENT', () => open('tcp://127.0.0.1:9', options));
  }
});
