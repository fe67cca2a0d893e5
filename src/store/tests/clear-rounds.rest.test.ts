/** A store that is filled with new keys and cleared, round after round, keeps its size. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '../../errors.ts';
import type { IndexName, Store } from '../api.ts';
import { StoreCalls } from '../calls/store-calls.ts';
import { open } from '../open.ts';
import { freshStore } from './support/pools.ts';
import { startNodes } from './support/remote.ts';

const ROUNDS = 4;
const KEYS = 1500;

function entriesOf(round: number): (readonly [string, string])[] {
  return Array.from({ length: KEYS }, (_, i) => [`${round}-${(i * 7919) % KEYS}`, 'v'] as const);
}

/** Ways to remove what a round has stored. */
const CLEARINGS: Record<string, (store: Store, round: number) => void> = {
  'clear()': (store) => store.clear(),
  'clear(range)': (store, round) => store.clear({ gte: `${round}-`, lt: `${round}.` }),
  'clear(range) in reverse': (store, round) => store.clear({ gte: `${round}-`, reverse: true }),
  'deleteMany in order': (store) => store.deleteMany([...store.keys()]),
  'deleteMany in no order': (store, round) => {
    store.deleteMany(entriesOf(round).map(([key]) => key));
  },
};

for (const [name, clear] of Object.entries(CLEARINGS)) {
  test(`chime: ${name} leaves one leaf or two, in every round`, (t) => {
    const store = freshStore(t, 'memory', { index: 'chime' });
    for (let round = 0; round < ROUNDS; round++) {
      store.setMany(entriesOf(round));
      assert.ok(store.stats().subtables > KEYS / 64, 'there was something to merge');
      clear(store, round);
      const { records, subtables, globalDepth } = store.stats();
      assert.equal(records, 0);
      assert.ok(subtables <= 2, `${subtables} leaves after round ${round}`);
      assert.ok(globalDepth <= 1, `${globalDepth} levels above them`);
    }
  });
}

for (const index of ['race', 'sephash', 'shard', 'hopscotch', 'hstore'] as IndexName[]) {
  test(`${index}: what clear() leaves is used by the next rounds`, (t) => {
    const store = freshStore(t, 'memory', { index });
    const sizes: number[] = [];
    for (let round = 0; round < 2 * ROUNDS; round++) {
      store.setMany(entriesOf(round));
      store.clear();
      const { records, subtables } = store.stats();
      assert.equal(records, 0);
      sizes.push(subtables);
    }
    // Each round has other keys. A segment splits in the first round that puts too many into it,
    // and its halves have room to spare, so the index at most doubles. If clear() gave nothing
    // back, each round would add as much as the first.
    const [first] = sizes;
    assert.ok((sizes.at(-1) ?? 0) <= 2 * first, sizes.join(' '));
  });
}

for (const index of ['race', 'shard'] as IndexName[]) {
  test(`${index}: clear() removes many keys at a time, however few a step of its walk meets`, (t) => {
    const store = freshStore(t, 'memory', { index });
    store.setMany(entriesOf(0));
    const { mock } = t.mock.method(StoreCalls.prototype, 'deleteMany');
    store.clear();
    const { calls } = mock;
    const keys = calls.reduce((sum, call) => sum + call.arguments[0].length, 0);
    assert.equal(keys, KEYS);
    assert.ok(calls.length <= 1 + KEYS / 256, `${calls.length} times`);
  });
}

/** Values of 300 bytes until the pool is full; how many. */
function fill(store: Store): number {
  const { length } = entriesOf(0);
  for (let i = 0; i < 20 * length; i++) {
    try {
      store.set(`key ${i}`, 'v'.repeat(300));
    } catch (error) {
      assert.ok(hasCode(error, 'SW_POOL_FULL'), String(error));
      return i;
    }
  }
  assert.fail('the pool is never full');
}

for (const index of ['race', 'sephash', 'shard', 'chime', 'hopscotch', 'hstore'] as IndexName[]) {
  test(`${index}: clear() of a full pool takes few round trips a record`, (t) => {
    const store = freshStore(t, 'memory', { index, size: 4 * 2 ** 20 });
    const records = fill(store);
    assert.ok(records > 2000);
    const before = store.stats().traffic.roundTrips;
    store.clear();
    const trips = (store.stats().traffic.roundTrips - before) / records;
    assert.ok(trips < 12, `${trips} a record`);
    assert.equal(store.size, 0);
  });
}

test('hstore over the network: clear() of a full pool asks for memory only now and then', async (t) => {
  const { url } = await startNodes(t, 1, { bytes: 2 * 2 ** 20 });
  const filling = await open(url, { index: 'hstore', maxClients: 8 });
  // One after the other: no chunk has blocks for turns of many requests.
  const fillPool = async () => {
    for (let i = 0; i < 20_000; i++) await filling.set(`key ${i}`, 'v'.repeat(300));
  };
  await assert.rejects(fillPool, { code: 'SW_POOL_FULL' });
  const records = await filling.size();
  await filling.close();
  const store = await open(url);
  t.after(() => store.close());
  await store.clear();
  const trips = (await store.stats()).traffic.roundTrips / records;
  assert.ok(trips < 17, `${trips} a record`);
  assert.equal(await store.size(), 0);
});

test('chime over the network: clear() gives the leaves back', async (t) => {
  const { url } = await startNodes(t, 1, { bytes: 32 * 2 ** 20 });
  const store = await open(url, { index: 'chime', maxClients: 8 });
  t.after(() => store.close());
  for (const range of [undefined, { gte: '1-' }]) {
    await store.setMany(entriesOf(range === undefined ? 0 : 1));
    await store.clear(range);
    const { records, subtables } = await store.stats();
    assert.equal(records, 0);
    assert.ok(subtables <= 3, `${subtables} leaves`);
  }
});
