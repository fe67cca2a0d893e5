import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type TestContext, test } from 'node:test';
import { setImmediate, setTimeout } from 'node:timers/promises';
import type { AsyncStore } from '../../store/api.ts';
import { rejectsCode } from '../../store/tests/support/codes.ts';
import { type GetOrSetOptions, getOrSet } from '../single-flight.ts';
import { inMemory, onStores } from './support/stores.ts';

onStores('of many callers one loads', async ({ s, attach }) => {
  const stores = [s, await attach(), await attach()];
  let loads = 0;
  const load = async () => {
    loads++;
    await setTimeout(20);
    return `value ${loads}`;
  };
  const values = await Promise.all(
    Array.from({ length: 12 }, (_, i) => getOrSet(stores[i % 3], 'k', load)),
  );
  assert.deepEqual(new Set(values), new Set(['value 1']));
  assert.equal(loads, 1);
  assert.equal(await s.get('k'), 'value 1');
  assert.equal(await getOrSet(s, 'k', () => 'another'), 'value 1');
  assert.deepEqual((await s.scanPage(0, 10_000)).entries.length, 1);
});

onStores('an error goes to its own caller, and the next one loads', async ({ s, attach }) => {
  const other = await attach();
  const failing = getOrSet(s, 'k', async () => {
    await setTimeout(10);
    throw new Error('no answer');
  });
  const second = getOrSet(other, 'k', () => 'fine');
  const outcomes = await Promise.allSettled([failing, second]);
  assert.equal(outcomes[1].status, 'fulfilled');
  assert.equal(await s.get('k'), 'fine');
  await s.delete('k');
  await assert.rejects(
    getOrSet(s, 'k', () => Promise.reject(new Error('again'))),
    /again/,
  );
  assert.equal(await s.has('k'), false);
  assert.equal(await getOrSet(s, 'k', () => 'later'), 'later');
});

onStores('a leader that is gone is replaced at once', async ({ s, attach }) => {
  const doomed = await attach();
  await new Promise<void>((leads) => {
    const load = () => {
      leads();
      return setTimeout(60_000, 'late', { ref: false });
    };
    getOrSet(doomed, 'k', load).catch(() => {});
  });
  await doomed.close();
  assert.equal(await getOrSet(s, 'k', () => 'next', { waitMs: 30_000 }), 'next');
});

test('a slow leader is replaced, and does not overwrite', async (t) => {
  const time = { now: 1_700_000_000_000 };
  const { s, attach } = inMemory(t, 'race', { clock: () => time.now });
  const other = await attach();
  let finish = (_: string) => {};
  const slow = getOrSet(s, 'k', () => new Promise<string>((resolve) => (finish = resolve)), {
    loadMs: 100,
  });
  await setTimeout(5);
  await rejectsCode('SW_TIMEOUT', () => getOrSet(other, 'k', () => 'no', { waitMs: 10 }));
  time.now += 100;
  assert.equal(await getOrSet(other, 'k', () => 'quick'), 'quick');
  finish('slow');
  assert.equal(await slow, 'slow');
  assert.equal(await s.get('k'), 'quick');
  await other.delete('k');
  assert.equal(await getOrSet(other, 'k', () => 'new'), 'new');
});

function deferred<T>() {
  let [resolve, reject] = [(_: T) => {}, (_: unknown) => {}];
  const promise = new Promise<T>((...ends) => {
    [resolve, reject] = ends;
  });
  return { promise, resolve, reject };
}

/** Two clients with one clock, of which the first loads whatever and whenever the test says. */
async function withSlowLoader(t: TestContext, options: GetOrSetOptions, through = whole) {
  const time = { now: 1_700_000_000_000 };
  const { s, attach } = inMemory(t, 'race', { clock: () => time.now });
  const begun = deferred<void>();
  const loaded = deferred<string>();
  const load = () => {
    begun.resolve();
    return loaded.promise;
  };
  return {
    time,
    s,
    other: await attach(),
    begin: async () => {
      const outcome = getOrSet(through(s), 'k', load, { loadMs: 100, ...options });
      await begun.promise;
      return { outcome, finish: loaded.resolve };
    },
  };
}

const whole = (store: AsyncStore) => store;

test('a late leader stores nothing when a newer value has come and expired', async (t) => {
  const { time, s, other, begin } = await withSlowLoader(t, { ttlMs: 1000 });
  const { outcome, finish } = await begin();
  time.now += 100;
  assert.equal(await getOrSet(other, 'k', () => 'newer', { ttlMs: 50 }), 'newer');
  time.now += 50;
  finish('older');
  assert.equal(await outcome, 'older');
  assert.equal(await s.get('k'), undefined);
});

test('a late leader stores nothing while another one loads', async (t) => {
  const { time, s, other, begin } = await withSlowLoader(t, { ttlMs: 1000 });
  const { outcome, finish } = await begin();
  time.now += 100;
  const newer = getOrSet(other, 'k', async () => {
    finish('older');
    await outcome;
    assert.equal(await s.get('k'), undefined);
    return 'newer';
  });
  assert.equal(await newer, 'newer');
  assert.equal(await s.get('k'), 'newer');
});

test('a late leader stores its value when no other has led since', async (t) => {
  const { time, s, begin } = await withSlowLoader(t, { ttlMs: 1000 });
  const { outcome, finish } = await begin();
  time.now += 500;
  finish('late');
  assert.equal(await outcome, 'late');
  assert.equal(await s.get('k'), 'late');
  assert.equal(await s.ttl('k'), 1000);
});

test('a late leader does not replace a stale value while another one refreshes it', async (t) => {
  const options = { ttlMs: 1000, staleMs: 1000, loadMs: 100 };
  const { time, s, other, begin } = await withSlowLoader(t, options);
  await getOrSet(other, 'k', () => 'first', options);
  time.now += 1000;
  const { outcome, finish } = await begin();
  assert.equal(await outcome, 'first');
  time.now += 100;
  const refreshed = deferred<void>();
  const refresh = async () => {
    finish('older');
    await setImmediate();
    assert.equal(await s.get('k'), 'first');
    refreshed.resolve();
    return 'newer';
  };
  const onRefreshError = refreshed.reject;
  assert.equal(await getOrSet(other, 'k', refresh, { ...options, onRefreshError }), 'first');
  await refreshed.promise;
  await setImmediate();
  assert.equal(await s.get('k'), 'newer');
});

test('a leader that stands still before it stores brings no old value back', async (t) => {
  const reached = deferred<void>();
  const resumed = deferred<void>();
  const standing = (store: AsyncStore) =>
    new Proxy(store, {
      get(target, name) {
        if (name !== 'insert') return Reflect.get(target, name, target).bind?.(target);
        return async (...words: Parameters<AsyncStore['insert']>) => {
          reached.resolve();
          await resumed.promise;
          return target.insert(...words);
        };
      },
    });
  const { time, s, other, begin } = await withSlowLoader(t, { ttlMs: 1000 }, standing);
  const { outcome, finish } = await begin();
  finish('older');
  await reached.promise;
  time.now += 100;
  assert.equal(await getOrSet(other, 'k', () => 'newer', { ttlMs: 1000 }), 'newer');
  time.now += 1000;
  resumed.resolve();
  assert.equal(await outcome, 'older');
  assert.equal(await s.get('k'), undefined);
});

test('a stale value is returned while one caller loads', async (t) => {
  const time = { now: 1_700_000_000_000 };
  const { s, attach } = inMemory(t, 'race', { clock: () => time.now });
  const other = await attach();
  const options = { ttlMs: 100, staleMs: 1000 };
  let loads = 0;
  const load = async () => `value ${++loads}`;
  assert.equal(await getOrSet(s, 'k', load, options), 'value 1');
  time.now += 99;
  assert.equal(await getOrSet(other, 'k', load, options), 'value 1');
  assert.equal(loads, 1);
  time.now += 1;
  const stale = await Promise.all([s, other, s].map((one) => getOrSet(one, 'k', load, options)));
  assert.deepEqual(stale, ['value 1', 'value 1', 'value 1']);
  await setTimeout(20);
  assert.equal(loads, 2);
  assert.equal(await getOrSet(s, 'k', load, options), 'value 2');
  assert.equal(await s.ttl('k'), 1100);
  const errors: unknown[] = [];
  time.now += 100;
  const fails = () => Promise.reject(new Error('down'));
  const hearing = { ...options, onRefreshError: (error: unknown) => errors.push(error) };
  assert.equal(await getOrSet(s, 'k', fails, hearing), 'value 2');
  await setTimeout(10);
  assert.match(String(errors[0]), /down/);
  // One that throws itself does not end the process.
  const throwing = { ...options, onRefreshError: () => assert.fail('of its own') };
  const warned = once(process, 'warning');
  assert.equal(await getOrSet(s, 'k', fails, throwing), 'value 2');
  assert.match(String((await warned)[0]), /onRefreshError .* of its own/);
  time.now += 1000;
  assert.equal(await getOrSet(s, 'k', load, options), 'value 3');
});

test('values of a format; what cannot be asked for', async (t) => {
  const { s } = inMemory(t, 'race');
  const sessions = s.namespace<{ user: string }>('session:', { values: 'json' });
  assert.equal((await getOrSet(sessions, '1', () => ({ user: 'Ada' }))).user, 'Ada');
  assert.equal((await getOrSet(sessions, '1', () => ({ user: 'x' }))).user, 'Ada');
  assert.equal(await getOrSet(s, Uint8Array.of(0, 255), () => 'bytes'), 'bytes');
  const long = 'k'.repeat(65_535);
  const both = [long, Buffer.from(long)].map((key, i) => getOrSet(s, key, async () => `v${i}`));
  assert.deepEqual(await Promise.all(both), ['v0', 'v0']);
  await rejectsCode('SW_INVALID_VALUE', () => getOrSet(s, 'k', () => 7 as never));
  assert.equal(await getOrSet(s, 'k', () => 'fine'), 'fine');
  await rejectsCode('SW_INVALID_ARGUMENT', () => getOrSet(s, 'k', 'no' as never));
  await rejectsCode('SW_INVALID_ARGUMENT', () => getOrSet(s, 'k', () => '', { staleMs: 5 }));
  for (const ttlMs of [0, -1, Number.NaN, '5', null, 1e300] as number[]) {
    const load = () => assert.fail('nothing is loaded in vain');
    await rejectsCode('SW_INVALID_ARGUMENT', () => getOrSet(s, 'absent', load, { ttlMs }));
  }
  const hearing = { onRefreshError: 'log' as never };
  await rejectsCode('SW_INVALID_ARGUMENT', () => getOrSet(s, 'k', () => '', hearing));
  const forever = { ttlMs: Number.POSITIVE_INFINITY };
  assert.equal(await getOrSet(s, 'forever', () => 'kept', forever), 'kept');
  assert.equal(await s.ttl('forever'), Number.POSITIVE_INFINITY);
  await rejectsCode('SW_INVALID_ARGUMENT', () => getOrSet(s, 'k', () => '', { ttl: 5 } as never));
  const signal = AbortSignal.abort();
  await rejectsCode('SW_ABORTED', () => getOrSet(s, 'k', () => '', { signal }));
  const aborting = new AbortController();
  const load = () => {
    aborting.abort();
    return 'v';
  };
  const aborted = getOrSet(s, 'new', load, { signal: aborting.signal });
  await rejectsCode('SW_ABORTED', () => aborted);
  assert.equal(await getOrSet(s, 'new', () => 'w'), 'w');
});
