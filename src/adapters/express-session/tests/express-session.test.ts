import assert from 'node:assert/strict';
import { test } from 'node:test';
import { promisify } from 'node:util';
import express from 'express';
import session, { type SessionData } from 'express-session';
import { type Clients, inMemory, onStores } from '../../../helpers/tests/support/stores.ts';
import { serving } from '../../tests/support/serving.ts';
import { StepwellSessionStore } from '../index.ts';

declare module 'express-session' {
  interface SessionData {
    views?: number;
  }
}

/** The store's calls, with promises. */
function callsOf(store: StepwellSessionStore) {
  return {
    get: promisify(store.get.bind(store)) as (sid: string) => Promise<SessionData | null>,
    set: promisify(store.set.bind(store)) as (sid: string, data: SessionData) => Promise<void>,
    touch: promisify(store.touch.bind(store)) as (sid: string, data: SessionData) => Promise<void>,
    destroy: promisify(store.destroy.bind(store)) as (sid: string) => Promise<void>,
    all: promisify(store.all.bind(store)) as () => Promise<Record<string, SessionData>>,
    length: promisify(store.length.bind(store)) as () => Promise<number>,
    clear: promisify(store.clear.bind(store)) as () => Promise<void>,
  };
}

function dataOf(views: number, expires: Date | null = null): SessionData {
  const cookie = Object.assign(new session.Cookie(), { path: '/' });
  if (expires) cookie.expires = expires;
  return { cookie, views } as SessionData;
}

onStores('applications share sessions', async ({ s, attach }, t) => {
  const urls = await Promise.all(
    [s, await attach()].map((store) => {
      const app = express();
      const shared = new StepwellSessionStore(store);
      const rest = { secret: 'one for all', resave: false, saveUninitialized: false };
      app.use(session({ ...rest, store: shared, cookie: { maxAge: 3_600_000 } }));
      app.get('/', ({ session: found }, response) => {
        found.views = (found.views ?? 0) + 1;
        response.json(found.views);
      });
      app.get('/look', ({ session: found }, response) => void response.json(found.views ?? 0));
      app.get('/out', ({ session: found }, response) => {
        found.destroy(() => response.json('out'));
      });
      return serving(t, app);
    }),
  );
  const first = await fetch(urls[0]);
  assert.equal(await first.json(), 1);
  const [cookie] = (first.headers.get('set-cookie') ?? '').split(';');
  const ask = async (url: string) => (await fetch(url, { headers: { cookie } })).json();
  assert.equal(await ask(urls[1]), 2);
  assert.equal(await ask(urls[0]), 3);
  const [, sid] = /s%3A([^.]+)/.exec(cookie) ?? [];
  // A request that changes nothing touches: the session ends later.
  await s.expire(`session:${sid}`, { ttlMs: 60_000 });
  assert.equal(await ask(`${urls[1]}look`), 3);
  assert.ok(((await s.ttl(`session:${sid}`)) ?? 0) > 3_500_000);
  assert.equal(await ask(`${urls[0]}out`), 'out');
  assert.equal(await ask(`${urls[1]}look`), 0);
});

onStores('each method does what a session store does', async ({ s, attach }: Clients) => {
  const one = callsOf(new StepwellSessionStore(s));
  const two = callsOf(new StepwellSessionStore(await attach()));
  await s.set('not a session', 'x');
  assert.equal(await one.get('a'), null);
  await one.set('a', dataOf(1));
  await two.set('b', dataOf(2));
  assert.equal((await two.get('a'))?.views, 1);
  assert.equal(await one.length(), 2);
  const all = await two.all();
  assert.deepEqual(Object.keys(all).sort(), ['a', 'b']);
  assert.equal(all.b.views, 2);
  assert.equal(all.b.cookie.path, '/');
  await two.destroy('a');
  assert.equal(await one.get('a'), null);
  await two.touch('a', dataOf(9));
  assert.equal(await one.get('a'), null);
  await one.clear();
  assert.equal(await two.length(), 0);
  assert.equal(await s.get('not a session'), 'x');
});

for (const values of ['json', 'v8'] as const) {
  test(`sessions in ${values} expire with their cookies`, async (t) => {
    const time = { now: Date.now() };
    const { s } = inMemory(t, 'race', { clock: () => time.now });
    const store = callsOf(new StepwellSessionStore(s, { ttlMs: 500, values }));
    await store.set('ever', dataOf(1));
    const soon = new Date(time.now + 1000);
    await store.set('soon', dataOf(2, soon));
    const found = await store.get('soon');
    assert.equal(new Date(found?.cookie.expires ?? 0).getTime(), soon.getTime());
    time.now += 499;
    await store.touch('soon', dataOf(7, new Date(time.now + 1000)));
    time.now += 1;
    assert.equal(await store.get('ever'), null);
    time.now += 998;
    assert.equal((await store.get('soon'))?.views, 2, 'touching wrote nothing else');
    time.now += 1;
    assert.equal(await store.get('soon'), null);
    await store.set('past', dataOf(3, new Date(time.now - 1)));
    assert.equal(await store.length(), 0);
  });
}

test('what the callback raises is not taken for a failure, and failures reach it', async (t) => {
  const { s } = inMemory(t, 'race');
  const store = new StepwellSessionStore(s);
  const failure = await new Promise((resolve) => {
    store.get('x'.repeat(70_000), resolve);
  });
  assert.equal((failure as { code: string }).code, 'SW_INVALID_KEY');
  store.destroy('no callback');
});
