import assert from 'node:assert/strict';
import { test } from 'node:test';
import { promisify } from 'node:util';
import cookie from '@fastify/cookie';
import session from '@fastify/session';
import { fastify } from 'fastify';
import { inMemory, onStores } from '../../../helpers/tests/support/stores.ts';
import { type SessionData, StepwellSessionStore } from '../index.ts';

declare module 'fastify' {
  interface Session {
    views?: number;
  }
}

const SECRET = 'a secret of at least 32 characters';

onStores('applications share sessions', async ({ s, attach }, t) => {
  const apps = [s, await attach()].map((store) => {
    const app = fastify();
    t.after(() => app.close());
    app.register(cookie);
    app.register(session, {
      secret: SECRET,
      store: new StepwellSessionStore(store),
      cookie: { secure: false, maxAge: 3_600_000 },
      saveUninitialized: false,
    });
    app.get('/', async (request) => {
      request.session.views = (request.session.views ?? 0) + 1;
      return request.session.views;
    });
    app.get('/look', async ({ session: found }) => found.views ?? 0);
    app.get('/new', async ({ session: found }) => {
      await found.regenerate(['views']);
      return 'new';
    });
    app.get('/out', async ({ session: found }) => {
      await found.destroy();
      return 'out';
    });
    return app;
  });
  const cookieOf = (header: unknown) => String(header).split(';')[0];
  const first = await apps[0].inject('/');
  assert.equal(first.body, '1');
  let sent = cookieOf(first.headers['set-cookie']);
  const ask = async (app: number, url: string) => {
    const answer = await apps[app].inject({ url, headers: { cookie: sent } });
    assert.equal(answer.statusCode, 200, answer.body);
    return answer;
  };
  assert.equal((await ask(1, '/')).body, '2');
  assert.equal((await ask(0, '/')).body, '3');
  const [, id] = /sessionId=([^.]+)/.exec(sent) ?? [];
  await s.expire(`session:${id}`, { ttlMs: 60_000 });
  // Sessions roll: a request that changes nothing extends them.
  assert.equal((await ask(1, '/look')).body, '3');
  assert.ok(((await s.ttl(`session:${id}`)) ?? 0) > 3_500_000);
  const renewed = await ask(0, '/new');
  assert.equal(await s.has(`session:${id}`), false);
  sent = cookieOf(renewed.headers['set-cookie']);
  assert.equal((await ask(1, '/look')).body, '3');
  assert.equal((await ask(0, '/out')).body, 'out');
  assert.equal((await ask(1, '/look')).body, '0');
});

for (const values of ['json', 'v8'] as const) {
  test(`sessions in ${values} expire with their cookies`, async (t) => {
    const time = { now: Date.now() };
    const { s } = inMemory(t, 'race', { clock: () => time.now });
    const store = new StepwellSessionStore(s, { ttlMs: 500, values });
    const set = promisify(store.set.bind(store)) as (id: string, of: SessionData) => Promise<void>;
    const get = promisify(store.get.bind(store)) as (id: string) => Promise<SessionData | null>;
    await set('ever', { cookie: { expires: null } });
    const soon = new Date(time.now + 1000);
    await set('soon', { cookie: { expires: soon } });
    const found = await get('soon');
    assert.equal(new Date(found?.cookie.expires ?? 0).getTime(), soon.getTime());
    time.now += 500;
    assert.equal(await get('ever'), null);
    time.now += 499;
    assert.notEqual(await get('soon'), null);
    time.now += 1;
    assert.equal(await get('soon'), null);
  });
}

test('failures reach the callback', async (t) => {
  const { s } = inMemory(t, 'race');
  const store = new StepwellSessionStore(s);
  const failure = await new Promise((resolve) => {
    store.get('x'.repeat(70_000), resolve);
  });
  assert.equal((failure as { code: string }).code, 'SW_INVALID_KEY');
  assert.throws(() => new StepwellSessionStore('shm:my-app' as never), {
    code: 'SW_INVALID_ARGUMENT',
  });
});
