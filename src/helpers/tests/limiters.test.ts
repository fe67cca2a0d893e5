import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openAloneSync } from '../../store/open.ts';
import { rejectsCode } from '../../store/tests/support/codes.ts';
import { fixedWindow, takeFromBucket, takeInWindow, tokenBucket } from '../limiters.ts';
import { inMemory, onStores } from './support/stores.ts';

const HOUR = 3_600_000;

onStores('clients share the limit of a window', async ({ s, attach }) => {
  const stores = [s, await attach(), await attach()];
  const limiters = stores.map((store) => fixedWindow(store, { limit: 10, windowMs: HOUR }));
  const verdicts = await Promise.all(
    Array.from({ length: 30 }, (_, i) => limiters[i % 3].take('ada')),
  );
  assert.equal(verdicts.filter(({ allowed }) => allowed).length, 10);
  const refused = verdicts.find(({ allowed }) => !allowed);
  assert.equal(refused?.remaining, 0);
  assert.ok(refused.retryMs > 0 && refused.retryMs <= HOUR);
  assert.ok((await limiters[0].take('bob', 10)).allowed);
  assert.deepEqual((await limiters[0].take('cleo', 11)).remaining, 10);
});

test('a clock that was ahead for a moment holds up no client for longer than it would', async (t) => {
  const time = { now: 1_700_000_000_000 };
  const { s } = inMemory(t, 'race', { clock: () => time.now });
  const windowOf = () => fixedWindow(s, { limit: 3, windowMs: 1000 });
  const [wrong, right] = [windowOf(), windowOf()];
  const bucketOf = () => tokenBucket(s, { capacity: 3, refillPerSecond: 3 });
  const [wrongBucket, rightBucket] = [bucketOf(), bucketOf()];
  time.now += HOUR;
  assert.ok((await wrong.take('k', 3)).allowed);
  assert.ok((await wrongBucket.take('k', 3)).allowed);
  time.now -= HOUR;
  assert.deepEqual(await right.take('k'), { allowed: false, remaining: 0, retryMs: 1000 });
  assert.deepEqual(await rightBucket.take('k', 2), { allowed: false, remaining: 0, retryMs: 667 });
  time.now += 400;
  assert.deepEqual(await right.take('k'), { allowed: false, remaining: 0, retryMs: 600 });
  assert.ok((await rightBucket.take('k')).allowed, 'one has come back');
  time.now += 600;
  assert.ok((await right.take('k', 3)).allowed);
  assert.equal((await right.take('k')).retryMs, 1000);
  assert.equal((await rightBucket.take('k', 3)).allowed, false, 'of 3 in a second 1 is taken');
  assert.ok((await rightBucket.take('k', 2)).allowed);
  time.now += 1000;
  assert.ok((await right.take('k', 3)).allowed);
  assert.ok((await rightBucket.take('k', 3)).allowed);
});

test('clients whose clocks stay an hour apart share one limit', async (t) => {
  const time = { now: 1_700_000_000_000 };
  const { s } = inMemory(t, 'race', { clock: () => time.now });
  const ahead = openAloneSync(s.sync.handle, { clock: () => time.now + HOUR });
  t.after(() => ahead.close());
  const windows = [s, ahead].map((store) => fixedWindow(store, { limit: 10, windowMs: 1000 }));
  const buckets = [s, ahead].map((store) =>
    tokenBucket(store, { capacity: 10, refillPerSecond: 10 }),
  );
  const allowed = { window: 0, bucket: 0 };
  const SECONDS = 20;
  for (let i = 0; i < 100 * SECONDS; i++) {
    time.now += 10;
    const chosen = (i * 7919) % 3 === 0 ? 0 : 1;
    if ((await windows[chosen].take('k')).allowed) allowed.window++;
    if ((await buckets[chosen].take('k')).allowed) allowed.bucket++;
  }
  // One window more for the client that the other one's clock passes by at the beginning.
  for (const count of [allowed.window, allowed.bucket]) {
    assert.ok(count <= 10 * (SECONDS + 2) && count > 9 * (SECONDS - 2), `${count} were allowed`);
  }
});

onStores('clients share a bucket', async ({ s, attach }) => {
  const stores = [s, await attach()];
  const limiters = stores.map((store) =>
    tokenBucket(store, { capacity: 7, refillPerSecond: 1e-6 }),
  );
  const verdicts = await Promise.all(
    Array.from({ length: 20 }, (_, i) => limiters[i % 2].take('ada')),
  );
  assert.equal(verdicts.filter(({ allowed }) => allowed).length, 7);
});

test('a window begins with its first request and ends on time', async (t) => {
  const time = { now: 1_700_000_000_000 };
  const { s } = inMemory(t, 'race', { clock: () => time.now });
  const limiter = fixedWindow(s, { limit: 2, windowMs: 100 });
  assert.deepEqual(limiter.takeSync('k', 2), { allowed: true, remaining: 0, retryMs: 0 });
  time.now += 60;
  assert.deepEqual(await limiter.take('k'), { allowed: false, remaining: 0, retryMs: 40 });
  time.now += 40;
  assert.deepEqual(await limiter.take('k'), { allowed: true, remaining: 1, retryMs: 0 });
});

test('a bucket fills again, and waiting is as long as that', async (t) => {
  const time = { now: 1_700_000_000_000 };
  const { s } = inMemory(t, 'race', { clock: () => time.now });
  const limiter = tokenBucket(s, { capacity: 4, refillPerSecond: 2 });
  assert.ok((await limiter.take('k', 4)).allowed);
  assert.deepEqual(await limiter.take('k'), { allowed: false, remaining: 0, retryMs: 500 });
  time.now += 499;
  assert.equal((await limiter.take('k')).allowed, false);
  time.now += 1;
  assert.ok((await limiter.take('k')).allowed);
  time.now -= 10_000;
  assert.deepEqual(await limiter.take('k'), { allowed: false, remaining: 0, retryMs: 500 });
  time.now += 20_000;
  assert.ok((await limiter.take('k', 4)).allowed);
  const quick = tokenBucket(s, { capacity: 1, refillPerSecond: 1000 });
  await quick.take('fast');
  const waiting = quick.wait('fast');
  time.now += 1;
  assert.ok((await waiting).allowed);
  const signal = AbortSignal.timeout(5);
  await rejectsCode('SW_ABORTED', () => limiter.wait('k', 4, { signal }));
  await rejectsCode('SW_TIMEOUT', () => limiter.wait('k', 4, { waitMs: 3 }));
  await rejectsCode('SW_INVALID_ARGUMENT', () => limiter.wait('k', 5));
  await rejectsCode('SW_INVALID_ARGUMENT', () => limiter.take('k', 0));
});

/** Whatever clients with clocks that differ do, and in whatever order. */
function mostAllowed(
  take: (state: unknown, now: number, cost: number) => ReturnType<typeof takeInWindow>,
  skewMs: number,
  random: () => number,
): { time: number; cost: number }[] {
  let state: unknown;
  let keepUntil = Number.POSITIVE_INFINITY;
  const allowed: { time: number; cost: number }[] = [];
  let time = 1_000_000;
  for (let step = 0; step < 3000; step++) {
    time += Math.floor(random() * 20);
    const now = time + Math.floor((random() - 0.5) * 2 * skewMs);
    const cost = 1 + Math.floor(random() * 2);
    if (now >= keepUntil) state = undefined;
    const change = take(state, now, cost);
    if (change.next !== undefined) {
      state = JSON.parse(JSON.stringify(change.next));
      keepUntil = change.keepUntil ?? keepUntil;
    }
    if (change.result.allowed) allowed.push({ time, cost });
  }
  return allowed;
}

/** The most that was allowed in any span of so many milliseconds. */
function most(allowed: readonly { time: number; cost: number }[], span: number): number {
  let [sum, first, found] = [0, 0, 0];
  for (const { time, cost } of allowed) {
    sum += cost;
    while (allowed[first].time <= time - span) sum -= allowed[first++].cost;
    found = Math.max(found, sum);
  }
  return found;
}

function seeded(seed: number): () => number {
  let x = seed | 1;
  return () => {
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    return (x >>> 0) / 2 ** 32;
  };
}

const CAPACITY = 10;
const PER_SECOND = 20;
const bucketBound = (span: number, skewMs: number) =>
  CAPACITY + (PER_SECOND * (span + 2 * skewMs)) / 1000;

test('random schedules: a bucket never gives more than it may, whatever the clocks', () => {
  for (let seed = 1; seed <= 40; seed++) {
    const skew = (seed % 4) * 200;
    const allowed = mostAllowed(
      (state, now, cost) => takeFromBucket(state, now, cost, CAPACITY, PER_SECOND),
      skew,
      seeded(seed),
    );
    assert.ok(allowed.length > 100, 'the schedule asks for enough');
    for (const span of [50, 500, 5000]) {
      assert.ok(most(allowed, span) <= bucketBound(span, skew) + 1e-6, `seed ${seed}`);
    }
  }
});

test('canary: a bucket whose time goes back with the clock gives too much', () => {
  const planted = (state: unknown, now: number, cost: number) => {
    const change = takeFromBucket(state, now, cost, CAPACITY, PER_SECOND);
    if (Array.isArray(change.next)) change.next[1] = now;
    return change;
  };
  const allowed = mostAllowed(planted, 600, seeded(3));
  assert.ok(most(allowed, 5000) > bucketBound(5000, 600));
});

test('random schedules: no two windows in a row give more than twice the limit', () => {
  for (let seed = 1; seed <= 40; seed++) {
    const allowed = mostAllowed(
      (state, now, cost) => takeInWindow(state, now, cost, 10, 1000),
      0,
      seeded(seed),
    );
    assert.ok(most(allowed, 1000) <= 20, `seed ${seed}`);
    assert.ok(most(allowed, 1) <= 10);
  }
});

test('canary: a window that each refusal begins anew lets nobody in', () => {
  const planted = (state: unknown, now: number, cost: number) => {
    const change = takeInWindow(state, now, cost, 10, 1000);
    return { ...change, next: change.next ?? [10, now + 1000], keepUntil: now + 1000 };
  };
  assert.equal(most(mostAllowed(planted, 0, seeded(1)), 1e9), 10);
});
