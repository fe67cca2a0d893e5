import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { spaceOf } from '../../../adapters/space.ts';
import { getOrSet } from '../../../helpers/index.ts';
import { Prng } from '../../../random/prng.ts';
import type { AsyncStore, IndexName, Key, OpenOptions, Store } from '../../api.ts';
import { dropStoreSync, open, openAloneSync, openSync } from '../../open.ts';
import { rejectsCode, throwsCode } from '../../tests/support/codes.ts';
import { freshUrl, numbered, SMALL } from '../../tests/support/pools.ts';
import { startNodes } from '../../tests/support/remote.ts';

const INDEXES: readonly IndexName[] = ['race', 'shard', 'chime', 'hopscotch', 'hstore'];
/** Of the second kind, too long to stand in a leaf. */
const DOCUMENTS = [{ id: 7 }, { id: 7, name: 'x'.repeat(100), tags: ['a', { deep: true }] }];
const START = 1_700_000_000_000;

type Json = { id: number; [more: string]: unknown };

/** A store with a near cache, and another client of the same store without one. */
function pair(
  t: TestContext,
  options: OpenOptions = {},
): { near: Store<Json, Key, Json>; other: Store<Json, Key, Json> } {
  const url = freshUrl(t, 'shm');
  const { nearCache = 100, ...others } = options;
  const plain = { ...SMALL, ...others, values: 'json' as const };
  const near = openAloneSync<Json>(url, { ...plain, nearCache });
  const other = openAloneSync<Json>(url, plain);
  t.after(() => near.close());
  t.after(() => other.close());
  return { near, other };
}

for (const index of INDEXES) {
  test(`${index}: an object is the same one as long as its record is, and never stale`, (t) => {
    const { near, other } = pair(t, { index });
    for (const [i, document] of DOCUMENTS.entries()) {
      const key = `k${i}`;
      other.set(key, document);
      near.get(key);
      const kept = near.get(key);
      assert.deepEqual(kept, document);
      assert.ok(Object.isFrozen(kept));
      assert.equal(near.get(key), kept);
      assert.equal(near.getEntry(key)?.value, kept);
      assert.equal(near.getEntry(key)?.version, other.getEntry(key)?.version);
      assert.equal(near.getMany([key, 'absent', key])[2], kept);
      assert.ok(near.has(key));
      other.set(key, { id: 8 });
      assert.deepEqual(near.get(key), { id: 8 });
      other.delete(key);
      assert.equal(near.get(key), undefined);
      assert.equal(near.has(key), false);
      other.set(key, document);
      assert.deepEqual(near.getMany([key]), [document]);
    }
    assert.ok((near.stats().near?.hits ?? 0) >= 10);
  });

  test(`${index}: near reads agree with what another client has written last`, (t) => {
    const { near, other } = pair(t, { index });
    const prng = Prng.fromSeed(27);
    const keys = numbered('key ', 40);
    const last = new Map<string, Json>();
    for (let step = 1; step <= 6000; step++) {
      const key = keys[prng.below(keys.length)];
      const writer = prng.below(4) === 0 ? near : other;
      const choice = prng.below(10);
      if (choice === 0) {
        writer.delete(key);
        last.delete(key);
      } else if (choice === 1) {
        const document = { id: step, more: 'm'.repeat(prng.below(120)) };
        writer.set(key, document);
        last.set(key, document);
      } else if (choice === 2) {
        const some = keys.slice(prng.below(30)).slice(0, 8);
        assert.deepEqual(
          near.getMany(some),
          some.map((one) => last.get(one)),
        );
      } else assert.deepEqual(near.get(key), last.get(key));
    }
    assert.ok((near.stats().near?.hits ?? 0) > 1000);
  });

  test(`${index}: a kept value expires with its record, and slides with it`, (t) => {
    const clock = { now: START };
    const { near, other } = pair(t, { index, clock: () => clock.now });
    other.set('k', { id: 1 }, { ttlMs: 1000 });
    other.set('s', { id: 2 }, { ttlMs: 1000, sliding: true });
    for (let read = 0; read < 3; read++) near.getMany(['k', 's']);
    clock.now += 999;
    assert.deepEqual(near.getMany(['k', 's']), [{ id: 1 }, { id: 2 }]);
    clock.now += 1;
    assert.equal(near.get('k'), undefined);
    for (let slide = 0; slide < 5; slide++) {
      assert.deepEqual(near.get('s'), { id: 2 });
      assert.deepEqual(near.get('s'), { id: 2 });
      clock.now += 900;
    }
    clock.now += 1000;
    assert.equal(near.get('s'), undefined);
  });
}

test('text and numbers are kept, and of other formats no objects', (t) => {
  const url = freshUrl(t, 'memory');
  const near = openSync(url, { ...SMALL, nearCache: 10 });
  t.after(() => near.close());
  near.set('text', 'größe');
  near.set('bytes', new Uint8Array([1, 2]));
  const v8 = near.namespace<unknown>('v8:', { values: 'v8' });
  v8.set('map', new Map([[1, 2]]));
  v8.set('number', 5);
  for (let read = 0; read < 4; read++) {
    assert.equal(near.get('text'), 'größe');
    (near.get('bytes') as Uint8Array)[0]++;
    (v8.get('map') as Map<number, number>).set(1, 3);
    assert.equal(v8.get('number'), 5);
  }
  assert.deepEqual(near.get('bytes'), new Uint8Array([1, 2]));
  assert.deepEqual(v8.get('map'), new Map([[1, 2]]));
  assert.equal(near.stats().near?.entries, 1);
  assert.equal(v8.stats().near?.entries, 1);
});

test('both bounds hold, and keys that are read again outlast those that are not', (t) => {
  const { near, other } = pair(t, { nearCache: { maxEntries: 20, maxBytes: 4000 } });
  for (const key of numbered('k', 100)) other.set(key, { id: 1 });
  const twice = (key: string) => [near.get(key), near.get(key)];
  const hot = numbered('k', 5);
  for (const key of hot) twice(key);
  const kept = hot.map((key) => near.get(key));
  for (const key of numbered('k', 100).slice(5)) {
    twice(key);
    for (const one of hot) near.get(one);
  }
  const { entries = 0, bytes = 0 } = near.stats().near ?? {};
  assert.ok(entries > 10 && entries <= 20 && bytes <= 4000, `${entries} entries, ${bytes} bytes`);
  hot.forEach((key, i) => {
    assert.equal(near.get(key), kept[i]);
  });
  const small = pair(t, { nearCache: { maxBytes: 500 } });
  small.other.set('long', { id: 1, text: 't'.repeat(1000) });
  assert.notEqual(small.near.get('long'), small.near.get('long'));
  assert.equal(small.near.stats().near?.entries, 0);
});

test('keys that are read in turn are kept at their second read', (t) => {
  const { near, other } = pair(t, { nearCache: 1000 });
  const keys = numbered('turn ', 900);
  for (const key of keys) other.set(key, { id: 1 });
  for (let pass = 0; pass < 2; pass++) for (const key of keys) near.get(key);
  const { entries = 0 } = near.stats().near ?? {};
  assert.ok(entries > 850 && entries <= 900, `${entries} entries`);
});

test('keys that are read together are kept, too', (t) => {
  const { near, other } = pair(t);
  const keys = numbered('key ', 20);
  for (const key of keys) other.set(key, { id: 1 });
  near.getMany(keys);
  const kept = near.getMany(keys);
  keys.forEach((key, i) => {
    assert.equal(near.get(key), kept[i]);
  });
});

test('a key has one object as long as its record stays, also when a search reads it', (t) => {
  const { near, other } = pair(t, { nearCache: 100, maxRecords: 1000, eviction: 'lru' });
  for (const key of numbered('cold ', 500)) other.set(key, { id: 2 });
  other.set('k', { id: 1 });
  near.get('k');
  const kept = near.get('k');
  // Every eighth read is a search, of which one comes after so many others that the cache has
  // forgotten that it has seen the key.
  for (const key of numbered('cold ', 500)) {
    near.get(key);
    assert.equal(near.get('k'), kept);
  }
  other.set('k', { id: 1 });
  assert.notEqual(near.get('k'), kept);
});

test('every object is frozen, and what is read once is not kept', (t) => {
  const { near, other } = pair(t);
  other.set('k', DOCUMENTS[1]);
  const first = near.get('k');
  assert.ok(Object.isFrozen(first));
  const kept = near.get('k');
  assert.notEqual(kept, first);
  assert.equal(near.get('k'), kept);
  const [, inner] = (kept?.tags ?? []) as object[];
  assert.ok([kept, kept?.tags, inner].every(Object.isFrozen));
});

test('objects may stay open to changes, and adapters of other libraries get their own', async (t) => {
  const { near } = pair(t, { nearCache: { maxEntries: 10, freeze: false } });
  near.set('k', { id: 1 });
  near.get('k');
  const kept = near.get('k') as { id: number };
  kept.id = 2;
  assert.equal(near.get('k'), kept);
  const frozen = pair(t);
  const space = spaceOf<Json>(frozen.near, 'session:', { values: 'json' });
  await space.set('s', { id: 1 });
  for (let read = 0; read < 3; read++) {
    const session = (await space.get('s')) as { id: number };
    assert.equal(session.id++, 1);
  }
});

test('namespaces do not share kept values, and neither does a handle for reading', async (t) => {
  const { near, other } = pair(t);
  for (const key of ['k', 'a:k']) other.set(key, { id: key.length });
  const space = near.namespace<Json>('a:', { values: 'json' });
  const none = near.namespace<Json>('', { values: 'json', nearCache: 0 });
  const reader = openSync<Json>(near.handle, { values: 'json', nearCache: 10, readOnly: true });
  t.after(() => reader.close());
  const read = () => [near.get('k'), space.get('k'), reader.get('k'), none.get('k')];
  read();
  const kept = read();
  assert.deepEqual(
    kept.map((document) => document?.id),
    [1, 3, 1, 1],
  );
  const again = read();
  assert.ok([0, 1, 2].every((i) => again[i] === kept[i]));
  assert.notEqual(again[3], kept[3]);
  assert.notEqual(kept[0], kept[2]);
  assert.equal(await getOrSet(near, 'k', () => ({ id: 9 })), kept[0]);
});

test('a store that was dropped and made again begins with an empty near cache', async (t) => {
  const { near, other } = pair(t, { store: 'one' });
  other.set('k', { id: 1 });
  for (let read = 0; read < 3; read++) near.get('k');
  dropStoreSync(near.handle, 'one', { force: true });
  await new Promise(setImmediate);
  throwsCode('SW_STORE_DROPPED', () => near.get('k'));
  const options = { ...SMALL, store: 'one', values: 'json', nearCache: 100 } as const;
  const renewed = openSync<Json>(near.handle, options);
  t.after(() => renewed.close());
  assert.equal(renewed.get('k'), undefined);
  assert.equal(renewed.stats().near?.entries, 0);
});

test('a near read counts as a hit, and its uses reach the record', (t) => {
  const { near, other } = pair(t, { maxRecords: 3, eviction: 'lfu' });
  for (const key of ['a', 'b', 'c']) other.set(key, { id: 1 });
  const hits = () => near.stats().bound?.hits ?? 0;
  const before = hits();
  for (let read = 0; read < 100; read++) near.get('a');
  assert.equal(hits() - before, 100);
  assert.ok((near.stats().near?.hits ?? 0) >= 80);
  for (let read = 0; read < 20; read++) other.getMany(['b', 'c']);
  for (const key of ['d', 'e', 'f', 'g']) other.set(key, { id: 1 });
  assert.ok(other.has('a'), 'the record that is used most was evicted');
});

test('a record that only near reads use is no old one to LRU', (t) => {
  const { near } = pair(t, { maxRecords: 64, eviction: 'lru' });
  near.set('a', { id: 1 });
  for (let read = 0; read < 3; read++) near.get('a');
  // Each record is evicted about 64 insertions after its last use.
  for (let i = 0; i < 500; i++) {
    near.set(`k${i}`, { id: i });
    if (i % 16 === 0) assert.ok(near.get('a') !== undefined, `evicted before insertion ${i}`);
  }
});

test('a near cache is refused where nothing proves its values', async (t) => {
  const url = freshUrl(t, 'memory');
  throwsCode('SW_UNSUPPORTED', () => openSync(url, { ...SMALL, index: 'sephash', nearCache: 5 }));
  for (const nearCache of [-1, 1.5, {}, { maxEntries: '5' }, { maxBytes: -1 }, { most: 5 }]) {
    const options = { ...SMALL, nearCache } as OpenOptions;
    throwsCode('SW_INVALID_ARGUMENT', () => openSync('memory:', options));
  }
  const { url: nodes } = await startNodes(t, 1, { bytes: 32 * 2 ** 20 });
  await rejectsCode('SW_UNSUPPORTED', () =>
    open(nodes, { index: 'shard', delegation: true, nearCache: 5 }),
  );
});

/** Now and then a client announces an epoch, too: the cheapest of some reads counts. */
async function leastOf(store: AsyncStore<string>, read: () => Promise<unknown>) {
  let least = { roundTrips: Number.POSITIVE_INFINITY, bytesRead: Number.POSITIVE_INFINITY };
  for (let i = 0; i < 5; i++) {
    const { traffic: before } = await store.counters();
    await read();
    const { traffic } = await store.counters();
    const roundTrips = traffic.roundTrips - before.roundTrips;
    const bytesRead = traffic.bytesRead - before.bytesRead;
    const isLess = roundTrips === least.roundTrips && bytesRead < least.bytesRead;
    if (roundTrips < least.roundTrips || isLess) least = { roundTrips, bytesRead };
  }
  return least;
}

for (const index of INDEXES) {
  for (const count of [1, 2]) {
    test(`${index}, ${count} nodes: a near read is one round trip without the value`, async (t) => {
      const { url } = await startNodes(t, count);
      const options = { index, values: 'utf8', maxClients: 8 } as const;
      const other = await open(url, options);
      t.after(() => other.close());
      const value = 'v'.repeat(4096);
      await other.set('k', value);
      const near = await open(url, { ...options, nearCache: 100 });
      t.after(() => near.close());
      await near.get('k');
      await near.get('k');
      const { roundTrips, bytesRead } = await leastOf(near, () => near.get('k'));
      assert.equal(roundTrips, 1);
      assert.ok(bytesRead <= 32, `${bytesRead} bytes`);
      const last = new Map<string, string>();
      const keys = numbered('key ', 20);
      const prng = Prng.fromSeed(5);
      for (let step = 0; step < 300; step++) {
        const key = keys[prng.below(keys.length)];
        if (prng.below(5) === 0) {
          await other.set(key, `${step} ${value}`);
          last.set(key, `${step} ${value}`);
        }
        assert.equal(await near.get(key), last.get(key));
        const some = keys.slice(0, 5);
        if (step % 20 === 0) {
          assert.deepEqual(
            await near.getMany(some),
            some.map((one) => last.get(one)),
          );
        }
      }
    });
  }
}
