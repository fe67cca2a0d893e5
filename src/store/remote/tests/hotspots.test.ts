/** The option `hotspots`: over a network a client READs the entry of a key that it reads often. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AsyncStore, OpenOptions, Traffic } from '../../api.ts';
import { open, openSync } from '../../open.ts';
import { rejectsCode, throwsCode } from '../../tests/support/codes.ts';
import { numbered, SMALL } from '../../tests/support/pools.ts';
import { startNodes } from '../../tests/support/remote.ts';

const KEYS = numbered('key ', 32);
const ENTRY_BYTES = 64;

type Cost = Pick<Traffic, 'roundTrips' | 'reads' | 'bytesRead'>;

async function costOf(store: AsyncStore<string>, run: () => Promise<unknown>): Promise<Cost> {
  const { traffic: before } = await store.counters();
  await run();
  const { traffic } = await store.counters();
  return {
    roundTrips: traffic.roundTrips - before.roundTrips,
    reads: traffic.reads - before.reads,
    bytesRead: traffic.bytesRead - before.bytesRead,
  };
}

/** Now and then a client announces an epoch, too: the cheapest of some calls counts. */
async function cheapest(store: AsyncStore<string>, runs: (() => Promise<unknown>)[]) {
  const costs: Cost[] = [];
  for (const run of runs) costs.push(await costOf(store, run));
  return costs.reduce((least, one) => (one.bytesRead < least.bytesRead ? one : least));
}

async function storesOf(url: string, options: OpenOptions, ways: OpenOptions[]) {
  const stores: AsyncStore<string>[] = [];
  for (const way of ways) stores.push(await open(url, { ...options, ...way, values: 'utf8' }));
  return stores;
}

for (const index of ['chime', 'hopscotch'] as const) {
  test(`${index}: hot keys are READ alone, by get and getMany`, async (t) => {
    const { url } = await startNodes(t, 1, { bytes: 32 * 2 ** 20 });
    const ways = [{}, { hotspots: 0 }];
    const stores = await storesOf(url, { index, maxClients: 8 }, ways);
    for (const store of stores) t.after(() => store.close());
    const [usual, plain] = stores;
    await usual.setMany(KEYS.map((key) => [key, `of ${key}`]));
    const one = { roundTrips: 1, reads: 1, bytesRead: ENTRY_BYTES };
    for (const key of KEYS) assert.equal(await usual.get(key), `of ${key}`);
    const ofAll = KEYS.map((key) => () => usual.get(key));
    assert.deepEqual(await cheapest(usual, ofAll), one);
    for (const key of KEYS) await plain.get(key);
    const many = await cheapest(
      usual,
      Array(3).fill(() => usual.getMany(KEYS)),
    );
    const all = await cheapest(
      plain,
      Array(3).fill(() => plain.getMany(KEYS)),
    );
    assert.equal(many.bytesRead, KEYS.length * ENTRY_BYTES);
    assert.equal(many.roundTrips, all.roundTrips);
    assert.ok(7 * many.bytesRead < all.bytesRead);
    const without = await cheapest(
      plain,
      Array(3).fill(() => plain.get(KEYS[0])),
    );
    assert.equal(without.roundTrips, 1);
    assert.ok(without.bytesRead > 7 * ENTRY_BYTES, JSON.stringify(without));

    // While misses are many, what proves one is read at once.
    for (let i = 0; i < 64; i++) await usual.get(`absent ${i}`);
    // Wrong: one round trip more, of one entry, and only once.
    const gone = KEYS.slice(0, 6);
    await plain.deleteMany(gone);
    const gets = gone.map((key) => () => usual.get(key));
    const wrong = await cheapest(usual, gets);
    const next = await cheapest(usual, gets);
    assert.deepEqual([wrong.roundTrips, next.roundTrips], [2, 1]);
    assert.equal(wrong.bytesRead, next.bytesRead + ENTRY_BYTES);
  });
}

test('a pool in memory has no hotspot buffer, unless it is asked for', (t) => {
  const store = openSync('memory:', { ...SMALL, index: 'chime' });
  t.after(() => store.close());
  const bytesRead = () => {
    const before = store.counters().traffic.bytesRead;
    assert.equal(store.get('key'), 'value');
    return store.counters().traffic.bytesRead - before;
  };
  store.set('key', 'value');
  const neighbourhood = bytesRead();
  assert.equal(bytesRead(), neighbourhood);
  const hot = openSync(store.handle, { hotspots: 8 });
  t.after(() => hot.close());
  store.get('key');
  assert.ok(bytesRead() < neighbourhood, 'handles of a thread share it');
});

test('hotspots and lockTimeoutMs are refused where they mean nothing', async () => {
  for (const index of ['race', 'sephash', 'shard', 'hstore'] as const) {
    throwsCode('SW_UNSUPPORTED', () => openSync('memory:', { ...SMALL, index, hotspots: 8 }));
    openSync('memory:', { ...SMALL, index, hotspots: 0, lockTimeoutMs: 50 }).close();
  }
  for (const wrong of [{ hotspots: -1 }, { hotspots: 1.5 }, { hotspots: 2 ** 25 }]) {
    await rejectsCode('SW_INVALID_ARGUMENT', () => open('memory:', { index: 'chime', ...wrong }));
  }
  for (const lockTimeoutMs of [0, -1, Number.NaN, '9' as unknown as number]) {
    throwsCode('SW_INVALID_ARGUMENT', () => openSync('memory:', { index: 'chime', lockTimeoutMs }));
  }
});
