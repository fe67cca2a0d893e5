import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type RateLimiterAbstract,
  RateLimiterMemory,
  RateLimiterQueue,
  RateLimiterRes,
  RateLimiterUnion,
} from 'rate-limiter-flexible';
import { inMemory, onStores } from '../../../helpers/tests/support/stores.ts';
import { Prng } from '../../../random/prng.ts';
import { RateLimiterStepwell } from '../index.ts';

const HOUR = 3600;

/** What a call of a limiter came to: its result, or why it rejected. */
async function resultOf(call: Promise<unknown>): Promise<unknown> {
  const [outcome] = await Promise.allSettled([call]);
  const rejected = outcome.status === 'rejected';
  const value = rejected ? outcome.reason : outcome.value;
  if (!(value instanceof RateLimiterRes)) {
    assert.ok(!(value instanceof Error), String(value));
    return value;
  }
  const { msBeforeNext, consumedPoints, remainingPoints } = value;
  // To the minute, since the two limiters are called one after the other.
  const minutes = msBeforeNext < 0 ? -1 : Math.round(msBeforeNext / 60_000);
  return { rejected, minutes, consumedPoints, remainingPoints };
}

onStores('processes share a limit', async ({ s, attach }) => {
  const options = { points: 10, duration: HOUR };
  const limiters = [s, await attach()].map(
    (storeClient) => new RateLimiterStepwell({ ...options, storeClient }),
  );
  const calls = Array.from({ length: 24 }, (_, i) => limiters[i % 2].consume('ada'));
  const outcomes = await Promise.allSettled(calls);
  assert.equal(outcomes.filter(({ status }) => status === 'fulfilled').length, 10);
  const found = await limiters[1].get('ada');
  assert.deepEqual([found?.consumedPoints, found?.remainingPoints], [24, 0]);
  assert.equal(await limiters[0].delete('ada'), true);
  assert.equal(await limiters[0].delete('ada'), false);
  assert.equal(await limiters[1].get('ada'), null);
});

for (const duration of [HOUR, 0]) {
  test(`agrees with the limiter in memory, with a duration of ${duration} s`, async (t) => {
    const { s } = inMemory(t, 'race');
    const options = { points: 5, duration, blockDuration: 2 * HOUR };
    const ours = new RateLimiterStepwell({ ...options, storeClient: s });
    const theirs = new RateLimiterMemory(options);
    const random = Prng.fromSeed(1);
    const ask = (limiter: RateLimiterAbstract, call: number, key: string, points: number) => {
      if (call === 0) return limiter.penalty(key, points);
      if (call === 1) return limiter.reward(key, points);
      if (call === 2) return limiter.get(key);
      if (call === 3) return limiter.set(key, points, 3 * HOUR);
      if (call === 4) return limiter.block(key, 4 * HOUR);
      if (call === 5) return limiter.delete(key);
      return limiter.consume(key, points);
    };
    for (let step = 0; step < 2000; step++) {
      const [call, key, points] = [random.below(10), `k${random.below(4)}`, random.below(3)];
      const wanted = await resultOf(ask(theirs, call, key, points));
      const seen = await resultOf(ask(ours, call, key, points));
      assert.deepEqual(seen, wanted, `step ${step}: call ${call} of ${key} with ${points}`);
    }
  });
}

test('a duration begins with its first points, and further points do not prolong it', async (t) => {
  const time = { now: Date.now() };
  const { s } = inMemory(t, 'race', { clock: () => time.now });
  const limiter = new RateLimiterStepwell({ storeClient: s, points: 2, duration: 1 });
  await limiter.consume('ada');
  time.now += 999;
  const second = await limiter.consume('ada');
  assert.deepEqual([second.msBeforeNext, second.isFirstInDuration], [1, false]);
  time.now += 1;
  assert.equal(await limiter.get('ada'), null);
  assert.equal((await limiter.consume('ada')).isFirstInDuration, true);
  assert.equal((await limiter.consume('bob', 1, { customDuration: 9 })).msBeforeNext, 9000);
});

test('a default expiry of the store does not apply', async (t) => {
  const { s } = inMemory(t, 'race', { ttlMs: 5 });
  const limiter = new RateLimiterStepwell({ storeClient: s, points: 2, duration: 0 });
  assert.equal((await limiter.consume('ada')).msBeforeNext, -1);
  await limiter.reward('ada');
  const found = await limiter.get('ada');
  assert.deepEqual([found?.consumedPoints, found?.msBeforeNext], [0, -1]);
  assert.equal(found?.isFirstInDuration, false);
});

test('the library builds on it', async (t) => {
  const { s } = inMemory(t, 'race');
  const limiterOf = (keyPrefix: string, points: number) =>
    new RateLimiterStepwell({ storeClient: s, keyPrefix, points, duration: HOUR });
  const union = new RateLimiterUnion(limiterOf('a', 2), limiterOf('b', 1));
  await union.consume('ada');
  await assert.rejects(union.consume('ada'));
  const queue = new RateLimiterQueue(limiterOf('queue', 3));
  assert.equal(await queue.removeTokens(2), 1);
  const blocking = new RateLimiterStepwell({
    storeClient: s,
    keyPrefix: 'blocking',
    points: 1,
    duration: HOUR,
    inMemoryBlockOnConsumed: 2,
    inMemoryBlockDuration: HOUR,
  });
  for (let i = 0; i < 4; i++) await resultOf(blocking.consume('ada'));
  assert.equal((await blocking.get('ada'))?.consumedPoints, 2, 'the rest was blocked in memory');
});

test('failures reach the caller, or the limiter that insures this one', async (t) => {
  const { s } = inMemory(t, 'race');
  const options = { storeClient: s, points: 1, duration: HOUR };
  const limiter = new RateLimiterStepwell(options);
  await assert.rejects(limiter.consume('ada', 0.5), { code: 'SW_INVALID_ARGUMENT' });
  await assert.rejects(limiter.consume('x'.repeat(70_000)), { code: 'SW_INVALID_KEY' });
  const insurance = new RateLimiterMemory({ points: 7, duration: HOUR });
  const insured = new RateLimiterStepwell({ ...options, insuranceLimiter: insurance });
  assert.equal((await insured.consume('x'.repeat(70_000))).remainingPoints, 6);
  const wrong = { ...options, storeClient: 'shm:my-app' as unknown as typeof s };
  assert.throws(() => new RateLimiterStepwell(wrong), { code: 'SW_INVALID_ARGUMENT' });
});
