import assert from 'node:assert/strict';
import { test } from 'node:test';
import express from 'express';
import { type Options, rateLimit } from 'express-rate-limit';
import { inMemory, onStores } from '../../../helpers/tests/support/stores.ts';
import { serving } from '../../tests/support/serving.ts';
import { StepwellRateLimit } from '../index.ts';

const HOUR = 3_600_000;
const options = { windowMs: HOUR } as Options;

onStores('applications share a limit', async ({ s, attach }, t) => {
  const problems: unknown[] = [];
  const logger = { warn: (...said: unknown[]) => problems.push(said), error: problems.push };
  const stores = [s, await attach()];
  const urls = await Promise.all(
    stores.map((store) => {
      const app = express();
      const shared = new StepwellRateLimit(store);
      const limit = { limit: 10, windowMs: HOUR, legacyHeaders: false };
      const headers = { standardHeaders: 'draft-7', validate: true, logger } as const;
      app.use(rateLimit({ ...limit, ...headers, store: shared }));
      app.get('/', (_, response) => void response.send('hello'));
      return serving(t, app);
    }),
  );
  const answers = await Promise.all(Array.from({ length: 24 }, (_, i) => fetch(urls[i % 2])));
  const count = (status: number) => answers.filter((answer) => answer.status === status).length;
  assert.deepEqual([count(200), count(429)], [10, 14]);
  const left = answers.map(({ headers }) => /remaining=(\d+)/.exec(headers.get('ratelimit') ?? ''));
  assert.equal(new Set(left.map((found) => found?.[1])).size, 10);
  // express-rate-limit's own validations found nothing to complain of.
  assert.deepEqual(problems, []);
});

onStores('each method does what a store of express-rate-limit does', async ({ s, attach }) => {
  const store = new StepwellRateLimit(s, { prefix: 'api:' });
  const other = new StepwellRateLimit(await attach(), { prefix: 'api:' });
  const apart = new StepwellRateLimit(s, { prefix: 'login:' });
  for (const one of [store, other, apart]) one.init(options);
  assert.equal(await store.get('ada'), undefined);
  await store.decrement('ada');
  assert.equal(await s.size(), 0);
  const { totalHits, resetTime } = await store.increment('ada');
  assert.equal(totalHits, 1);
  assert.ok(Math.abs((resetTime?.getTime() ?? 0) - Date.now() - HOUR) < 60_000);
  assert.equal((await other.increment('ada')).totalHits, 2);
  assert.equal((await store.get('ada'))?.totalHits, 2);
  await store.decrement('ada');
  assert.equal((await other.get('ada'))?.totalHits, 1);
  await apart.increment('ada');
  await store.increment('bob');
  await other.resetKey('ada');
  assert.equal(await store.get('ada'), undefined);
  await store.resetAll();
  assert.equal(await other.get('bob'), undefined);
  assert.equal((await apart.get('ada'))?.totalHits, 1);
});

test('a window begins with its first hit, and a hit does not prolong it', async (t) => {
  const time = { now: Date.now() };
  const { s } = inMemory(t, 'race', { clock: () => time.now });
  const store = new StepwellRateLimit(s.namespace('', { values: 'json' }));
  store.init({ windowMs: 1000 } as Options);
  await store.increment('ada');
  time.now += 999;
  assert.equal((await store.increment('ada')).totalHits, 2);
  time.now += 1;
  assert.equal(await store.get('ada'), undefined);
  assert.equal((await store.increment('ada')).totalHits, 1);
});
