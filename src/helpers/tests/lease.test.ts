import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { hasCode } from '../../errors.ts';
import type { Decide } from '../../store/internal-calls.ts';
import { dropStoreSync } from '../../store/open.ts';
import { rejectsCode } from '../../store/tests/support/codes.ts';
import type { AnyStore } from '../host.ts';
import { type Lease, lease, semaphore, tryLease } from '../lease.ts';
import { inMemory, onStores } from './support/stores.ts';

const LONG = { ttlMs: 600_000 };

onStores('one client at a time holds a lease, with rising tokens', async ({ s, attach }) => {
  const other = await attach();
  const first = await lease(s, 'job', LONG);
  assert.ok(first.isHeld);
  assert.equal(await tryLease(other, 'job', LONG), undefined);
  assert.equal(await tryLease(s, 'job', LONG), undefined);
  await rejectsCode('SW_TIMEOUT', () => lease(other, 'job', { ...LONG, waitMs: 5 }));
  const unrelated = await tryLease(other, 'another job', LONG);
  assert.ok(unrelated);
  assert.ok(await first.renew());
  const waiting = lease(other, 'job', LONG);
  assert.equal(await first.release(), true);
  assert.equal(await first.release(), false);
  assert.equal(first.isHeld, false);
  const second = await waiting;
  assert.ok(second.token > first.token);
  assert.equal(await first.renew(), false);
  await second.release();
  {
    await using held = await lease(s, 'job', LONG);
    assert.ok(held.token > second.token);
  }
  const last = await tryLease(other, 'job', LONG);
  assert.ok(last);
  assert.deepEqual((await s.scanPage(0, 10_000)).entries, []);
});

onStores('the lease of a client that is gone passes on', async ({ s, attach }) => {
  const doomed = await attach();
  const held = await lease(doomed, 'job', LONG);
  assert.equal(await tryLease(s, 'job', LONG), undefined);
  await doomed.close();
  const next = await lease(s, 'job', { ...LONG, waitMs: 30_000 });
  assert.ok(next.token > held.token);
});

/** Its holder has been told, and cannot hold it again. */
async function assertOver(held: Lease, why: RegExp): Promise<void> {
  assert.equal(held.isHeld, false);
  assert.ok(held.signal.aborted, 'the signal is not aborted');
  assert.ok(hasCode(held.signal.reason, 'SW_LEASE_LOST'));
  assert.match(held.signal.reason.message, why);
  assert.equal(await held.renew(), false);
  assert.equal(await held.release(), false);
}

onStores('a lease ends with the handle that it was taken by', async (clients) => {
  const { s } = clients;
  for (const open of ['attach', 'share'] as const) {
    const store = await clients[open]();
    const held = await lease(store, 'job', LONG);
    const permit = await semaphore(store, 'db', { ...LONG, permits: 1 });
    await store.close();
    await assertOver(held, /its store was closed/);
    await assertOver(permit, /its store was closed/);
    const next = await lease(s, 'job', { ...LONG, waitMs: 30_000 });
    assert.ok(next.token > held.token);
    await next.release();
    await (await semaphore(s, 'db', { ...LONG, permits: 1, waitMs: 30_000 })).release();
  }
});

onStores('a lease ends with the view that it was taken by', async ({ s, share }) => {
  const [one, two, three] = [await share(), await share(), await share()];
  const view = one.namespace('a:');
  const ofView = await lease(view, '1', LONG);
  const ofParent = await lease(one, '2', LONG);
  await view.close();
  await assertOver(ofView, /its store was closed/);
  assert.ok(ofParent.isHeld && !ofParent.signal.aborted);
  const ofNested = await lease(two.namespace('a:').namespace('b:'), '3', LONG);
  await two.close();
  await assertOver(ofNested, /its store was closed/);
  const cut = three.withSignal(new AbortController().signal);
  const ofCut = await lease(cut, '4', LONG);
  await cut.close();
  await assertOver(ofCut, /its store was closed/);
  for (const name of ['1', '4']) assert.ok(await tryLease(s, name, LONG), `${name} is not free`);
});

onStores('a holder that hears of its end may close the store', async ({ s, share }) => {
  const store = await share();
  const closed: Promise<void>[] = [];
  const both = [await lease(store, '1', LONG), await lease(store, '2', LONG)];
  for (const { signal } of both) {
    signal.addEventListener('abort', () => closed.push(store.close()));
  }
  await store.close();
  await Promise.all(closed);
  assert.equal(closed.length, 2);
  for (const held of both) await assertOver(held, /its store was closed/);
  // One handle was closed, once: the client that both share is still there.
  await s.set('k', 'v');
  assert.equal(await s.get('k'), 'v');
});

onStores('a lease that arrives when its store has been closed is over', async ({ share }) => {
  const store = await share();
  const asked = lease(store, 'job', LONG);
  const closed = store.close();
  const [outcome] = await Promise.allSettled([asked, closed]);
  if (outcome.status === 'fulfilled') await assertOver(outcome.value, /its store was closed/);
  else assert.ok(hasCode(outcome.reason, 'SW_CLOSED'));
});

test('a holder that asks while the event loop stands still is told, too', async (t) => {
  const { s } = inMemory(t, 'race');
  const held = await lease(s, 'job', { ttlMs: 20 });
  while (held.isHeld);
  assert.ok(held.signal.aborted);
  await assertOver(held, /its time ran out/);
});

onStores('a lease that is released is over', async ({ s }) => {
  const held = await lease(s, 'job', LONG);
  assert.equal(await held.release(), true);
  await assertOver(held, /it was released/);
  const disposed = await semaphore(s, 'db', { ...LONG, permits: 1 });
  await disposed[Symbol.asyncDispose]();
  await assertOver(disposed, /it was released/);
});

test('a renewal that finds the store gone ends the lease', async (t) => {
  const { s } = inMemory(t, 'race');
  const held = await lease(s, 'job', LONG);
  dropStoreSync(s.handle, s.name, { force: true });
  await rejectsCode('SW_STORE_DROPPED', () => held.renew());
  await assertOver(held, /its renewal met SW_STORE_DROPPED/);
});

onStores('a semaphore has so many permits', async ({ s, attach }) => {
  const other = await attach();
  const options = { ...LONG, permits: 3, waitMs: 0 };
  const held = [];
  for (const store of [s, other, s]) held.push(await semaphore(store, 'db', options));
  assert.equal(new Set(held.map(({ token }) => token)).size, 3);
  await rejectsCode('SW_TIMEOUT', () => semaphore(other, 'db', options));
  await held[1].release();
  await semaphore(other, 'db', options);
  await rejectsCode('SW_TIMEOUT', () => semaphore(s, 'db', options));
});

test('a lease whose time ran out passes on, and its holder is told', async (t) => {
  const time = { now: 1_700_000_000_000 };
  const { s, attach } = inMemory(t, 'race', { clock: () => time.now });
  const other = await attach();
  const held = await lease(s, 'job', { ttlMs: 1000, renew: false });
  time.now += 999;
  assert.equal(await tryLease(other, 'job', LONG), undefined);
  time.now += 1;
  const next = await tryLease(other, 'job', LONG);
  assert.ok(next && next.token > held.token);
  const lost = once(held.signal, 'abort');
  assert.equal(await held.renew(), false);
  await lost;
  assert.ok(hasCode(held.signal.reason, 'SW_LEASE_LOST'));
  assert.equal(held.isHeld, false);
  assert.equal(await held.release(), false);
  assert.ok(await next.renew());
});

test('a lease is renewed while its holder waits', async (t) => {
  const { s, attach } = inMemory(t, 'race');
  const other = await attach();
  const held = await lease(s, 'job', { ttlMs: 2000 });
  await rejectsCode('SW_TIMEOUT', () => lease(other, 'job', { ...LONG, waitMs: 3000 }));
  assert.ok(held.isHeld && !held.signal.aborted);
});

test('a token rises also when the lease was forgotten meanwhile', async (t) => {
  const time = { now: 1_700_000_000_000 };
  const { s } = inMemory(t, 'race', { clock: () => time.now });
  let last = 0;
  for (let round = 0; round < 5; round++) {
    for (let i = 0; i < 50; i++) {
      const held = await lease(s, 'job', { ttlMs: 1000 });
      assert.ok(held.token > last);
      last = held.token;
      await held.release();
    }
    time.now += 4_000_000;
    assert.equal(await s.has('\0stepwell:lease:job'), false);
  }
});

test('what a lease cannot be asked for', async (t) => {
  const { s } = inMemory(t, 'race');
  for (const ttlMs of [0, -1, Number.NaN, Number.POSITIVE_INFINITY, '5']) {
    await rejectsCode('SW_INVALID_ARGUMENT', () => lease(s, 'job', { ttlMs: ttlMs as number }));
  }
  await rejectsCode('SW_INVALID_ARGUMENT', () => lease(s, 7 as never, LONG));
  await rejectsCode('SW_INVALID_ARGUMENT', () => lease({} as never, 'job', LONG));
  await rejectsCode('SW_INVALID_ARGUMENT', () => lease(s, 'job', { ttl: 1 } as never));
  await rejectsCode('SW_INVALID_ARGUMENT', () => semaphore(s, 'job', { ...LONG, permits: 0 }));
  for (const wrong of [null, undefined, 5, 'x'] as never[]) {
    await rejectsCode('SW_INVALID_ARGUMENT', () => lease(s, 'job', wrong));
    await rejectsCode('SW_INVALID_ARGUMENT', () => tryLease(s, 'job', wrong));
    await rejectsCode('SW_INVALID_ARGUMENT', () => semaphore(s, 'job', wrong));
    const renew = wrong ?? 'no';
    await rejectsCode('SW_INVALID_ARGUMENT', () => lease(s, 'job', { ...LONG, renew }));
  }
  const aborted = AbortSignal.abort('enough');
  await rejectsCode('SW_ABORTED', () => lease(s, 'job', { ...LONG, signal: aborted }));
  const held = await lease(s, 'job', LONG);
  const waits = new AbortController();
  const waiting = lease(s, 'job', { ...LONG, signal: waits.signal });
  waits.abort('enough');
  await assert.rejects(waiting, { code: 'SW_ABORTED', cause: 'enough' });
  await held.release();
  await s.set('\0stepwell:lease:mine', 'no state');
  await rejectsCode('SW_UNDECODABLE', () => lease(s, 'mine', LONG));
});

test('a holder learns that its time has run out also while a renewal gets no answer', async () => {
  let calls = 0;
  const silent = {
    beforeClose: () => () => {},
    changeState(_: string, decide: Decide<unknown>) {
      if (calls++ > 0) return new Promise(() => {});
      const look = { now: 1, self: 1, isGone: () => false };
      return Promise.resolve(decide(undefined, look).result);
    },
  };
  const held = await lease(silent as unknown as AnyStore, 'job', { ttlMs: 30 });
  // The timers of a lease keep no process alive.
  const lost = await Promise.race([once(held.signal, 'abort'), setTimeout(20_000)]);
  assert.ok(lost && calls > 1 && hasCode(held.signal.reason, 'SW_LEASE_LOST'));
});
