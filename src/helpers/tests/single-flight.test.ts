import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { rejectsCode } from '../../store/tests/support/codes.ts';
import { getOrSet } from '../single-flight.ts';
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
