import assert from 'node:assert/strict';
import { test } from 'node:test';
import { INDEX_KINDS } from '../../../indexes/kinds.ts';
import type { IndexName, Store, Value } from '../../api.ts';
import { open } from '../../open.ts';
import { freshStore } from '../../tests/support/pools.ts';
import { startNodes } from '../../tests/support/remote.ts';

const HITS = 10;

/** Round trips of hits of one key in a store in memory. */
function tripsOf(store: Store<Value>): number {
  const before = store.stats().traffic;
  for (let i = 0; i < HITS; i++) assert.equal(store.get('key'), 'value');
  return store.stats().traffic.roundTrips - before.roundTrips;
}

for (const { manifest } of INDEX_KINDS) {
  const index = manifest.name as IndexName;

  test(`${index}: a hit costs one WRITE and no round trip more`, async (t) => {
    const bound = { index, maxRecords: 100, eviction: 'lfu' } as const;
    const unbounded = freshStore(t, 'memory', { index });
    const bounded = freshStore(t, 'memory', bound);
    for (const store of [unbounded, bounded]) store.set('key', 'value');
    assert.equal(tripsOf(bounded), tripsOf(unbounded));
    const { url } = await startNodes(t);
    const remote = await open(url, bound);
    t.after(() => remote.close());
    await remote.set('key', 'value');
    const before = (await remote.stats()).traffic;
    for (let i = 0; i < HITS; i++) assert.equal(await remote.get('key'), 'value');
    const { traffic } = await remote.stats();
    assert.equal(traffic.writes - before.writes, HITS);
  });
}

test('over a network a read of a record that slides waits for no WRITE', async (t) => {
  const { url } = await startNodes(t, 3);
  const time = { now: 1_700_000_000_000 };
  const store = await open(url, { ttlMs: 1000, sliding: true, clock: () => time.now });
  t.after(() => store.close());
  await store.set('key', 'value');
  for (let i = 0; i < 20; i++) {
    time.now += 900;
    assert.equal(await store.get('key'), 'value');
  }
  time.now += 1000;
  assert.equal(await store.get('key'), undefined);
});
