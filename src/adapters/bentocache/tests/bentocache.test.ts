import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { BentoCache, bentostore } from 'bentocache';
import { registerCacheDriverTestSuite } from 'bentocache/test_suite';
import { inMemory, onStores, overNetwork } from '../../../helpers/tests/support/stores.ts';
import { StepwellDriver, stepwellDriver } from '../index.ts';

type Cleanup = () => unknown;
type Body = (context: { assert: typeof ASSERT; cleanup(action: Cleanup): void }) => unknown;

/** What the suite asks of japa's assertions. */
const ASSERT = {
  deepEqual: assert.deepEqual,
  notEqual: assert.notEqual,
  isTrue: (value: unknown) => assert.equal(value, true),
  isFalse: (value: unknown) => assert.equal(value, false),
  isUndefined: (value: unknown) => assert.equal(value, undefined),
};

/** Runs the suite, which is written for japa. */
async function runSuite(t: TestContext, createDriver: (options?: object) => StepwellDriver) {
  const tests: [string, Body][] = [];
  const setups: (() => Promise<Cleanup>)[] = [];
  const teardowns: Cleanup[] = [];
  const group = {
    setup: (action: () => Promise<Cleanup>) => setups.push(action),
    tap: () => {},
    each: { teardown: (action: Cleanup) => teardowns.push(action) },
  };
  const words = { test: (...test: [string, Body]) => tests.push(test), group, createDriver };
  registerCacheDriverTestSuite(
    words as unknown as Parameters<typeof registerCacheDriverTestSuite>[0],
  );
  const ends = await Promise.all(setups.map((setup) => setup()));
  for (const [title, body] of tests) {
    await t.test(title, async () => {
      const cleanups: Cleanup[] = [...teardowns];
      await body({ assert: ASSERT, cleanup: (action) => cleanups.push(action) });
      for (const action of cleanups) await action();
    });
  }
  for (const end of ends) await end();
  assert.ok(tests.length >= 20);
}

const PLACES = {
  race: (t: TestContext) => inMemory(t, 'race'),
  'race over tcp:': (t: TestContext) => overNetwork(t, 'race'),
};

// Most of its time is one pause of 2.5 seconds.
describe("Bentocache's own suite of drivers", { concurrency: true }, () => {
  for (const [name, place] of Object.entries(PLACES)) {
    test(name, async (t) => {
      const { s } = await place(t);
      await runSuite(t, (options) => new StepwellDriver({ store: s, prefix: 'test', ...options }));
    });
  }
});

onStores('caches of two clients share what one of them loaded', async ({ s, attach }) => {
  const cacheOn = (store: typeof s) => {
    const layer = bentostore().useL2Layer(stepwellDriver({ store }));
    return new BentoCache({ default: 'shared', stores: { shared: layer } });
  };
  const [one, two] = [cacheOn(s), cacheOn(await attach())];
  let loads = 0;
  const factory = async () => ({ load: ++loads });
  for (const cache of [one, two, one]) {
    const found = await cache.getOrSet({ key: 'k', factory, ttl: '1h', tags: ['t'] });
    assert.deepEqual(found, { load: 1 });
  }
  await two.deleteByTag({ tags: ['t'] });
  assert.deepEqual(await one.getOrSet({ key: 'k', factory, ttl: '1h' }), { load: 2 });
  const users = one.namespace('users');
  await users.set({ key: 'k', value: 1 });
  await users.clear();
  assert.equal(await users.get({ key: 'k' }), undefined);
  assert.deepEqual(await two.get({ key: 'k' }), { load: 2 });
  await one.disconnect();
  assert.ok((await s.size()) > 0, 'the store is still open');
});
