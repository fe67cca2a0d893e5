import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import suite, { keyvIteratorTests } from '@keyv/test-suite';
import { createCache } from 'cache-manager';
import Keyv from 'keyv';
import { inMemory, onStores, overNetwork } from '../../../helpers/tests/support/stores.ts';
import { PublishedSuite } from '../../tests/support/published-suite.ts';
import { StepwellKeyv } from '../index.ts';

const PLACES = {
  race: (t: TestContext) => inMemory(t, 'race'),
  chime: (t: TestContext) => inMemory(t, 'chime'),
  'race over tcp:': (t: TestContext) => overNetwork(t, 'race'),
};

for (const [name, place] of Object.entries(PLACES)) {
  test(`${name}: Keyv's own suite`, async (t) => {
    const { s } = await place(t);
    const published = new PublishedSuite();
    const words = [published, Keyv, () => new StepwellKeyv(s)] as unknown as Parameters<
      typeof suite
    >;
    suite(...words);
    keyvIteratorTests(...words);
    assert.ok((await published.run(t)) >= 42);
  });
}

onStores('many keys at once, each with its time', async ({ s, attach }) => {
  const keyv = new Keyv({ store: new StepwellKeyv(s), namespace: 'a' });
  await keyv.setMany([
    { key: 'long', value: 1, ttl: 3_600_000 },
    { key: 'ever', value: { two: 2 } },
  ]);
  const other = new Keyv({ store: new StepwellKeyv(await attach()), namespace: 'a' });
  assert.deepEqual(await other.getMany(['long', 'none', 'ever']), [1, undefined, { two: 2 }]);
  assert.deepEqual(await other.hasMany(['long', 'none']), [true, false]);
  assert.ok(((await s.ttl('a:long')) ?? 0) > 3_500_000);
  assert.equal(await s.ttl('a:ever'), Number.POSITIVE_INFINITY);
  await new Keyv({ store: new StepwellKeyv(s), namespace: 'b' }).set('long', 'of b');
  await other.clear();
  assert.deepEqual(await keyv.hasMany(['long', 'ever']), [false, false]);
  assert.equal(await s.size(), 1);
});

test('a store of objects takes them without the detour of text', async (t) => {
  const s = inMemory(t, 'race').s.namespace('', { values: 'v8' });
  const plain = { serialize: undefined, deserialize: undefined };
  const keyv = new Keyv({ store: new StepwellKeyv(s), ...plain });
  const value = { at: new Date(0), of: new Map([['a', 1n]]) };
  await keyv.set('k', value);
  assert.deepEqual(await keyv.get('k'), value);
});

test('a store that refuses makes Keyv tell', async (t) => {
  const { s } = inMemory(t, 'race');
  const keyv = new Keyv({ store: new StepwellKeyv(s), throwOnErrors: true });
  keyv.on('error', () => {});
  await assert.rejects(keyv.set('x'.repeat(70_000), 1), { code: 'SW_INVALID_KEY' });
  assert.throws(() => new StepwellKeyv({} as never), { code: 'SW_INVALID_ARGUMENT' });
});

onStores('cache-manager works through Keyv', async ({ s, attach }) => {
  const cacheOn = (store: typeof s) =>
    createCache({ stores: [new Keyv({ store: new StepwellKeyv(store) })], ttl: 3_600_000 });
  const [one, two] = [cacheOn(s), cacheOn(await attach())];
  let loads = 0;
  const load = async () => ({ load: ++loads });
  assert.deepEqual(await one.wrap('k', load), { load: 1 });
  assert.deepEqual(await two.wrap('k', load), { load: 1 });
  assert.ok(((await two.ttl('k')) ?? 0) > Date.now() + 3_500_000);
  await one.mset([
    { key: 'a', value: 1 },
    { key: 'b', value: 2, ttl: 10_000 },
  ]);
  assert.deepEqual(await two.mget(['a', 'b', 'c']), [1, 2, undefined]);
  await two.mdel(['a', 'k']);
  assert.equal(await one.get('a'), undefined);
  assert.equal(await one.get('b'), 2);
  await one.clear();
  assert.equal(await two.get('b'), undefined);
});
