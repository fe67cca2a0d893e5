import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request } from 'node:http';
import { connect, Server, type Socket } from 'node:net';
import { after, before, describe, test } from 'node:test';
import type { Store } from '../../store/api.ts';
import { openSync } from '../../store/open.ts';
import type { FiguresAnswer, KeysAnswer, PictureAnswer, ValueAnswer } from '../messages.ts';
import { serveWeb, type WebServer } from '../server.ts';

const RECORDS = 120;

interface Got {
  status: number;
  headers: NodeJS.Dict<string | string[]>;
  text: string;
}

/** As a browser, or somebody else, may ask; fetch would not send another Host. */
function ask(
  server: WebServer,
  path: string,
  headers: Record<string, string> = {},
  method = 'GET',
  body = '',
): Promise<Got> {
  const { hostname, port } = new URL(server.url);
  return new Promise((resolve, reject) => {
    const asked = request({ hostname, port, path, method, headers }, async (response) => {
      let text = '';
      for await (const chunk of response) text += chunk;
      resolve({ status: response.statusCode ?? 0, headers: response.headers, text });
    });
    asked.on('error', reject);
    asked.end(body);
  });
}

async function json<T>(server: WebServer, path: string): Promise<T> {
  const { status, text } = await ask(server, path);
  assert.equal(status, 200, text);
  return JSON.parse(text) as T;
}

const OPTIONS = { size: 64 * 2 ** 20, client: 'writer' };

describe('the page about a pool', () => {
  let plain: Store;
  let ordered: Store;
  let server: WebServer;

  before(async () => {
    plain = openSync('memory:', OPTIONS);
    ordered = openSync(plain.handle, { store: 'ordered', index: 'chime', create: true });
    for (let i = 0; i < RECORDS; i++) {
      const name = `key ${String(i).padStart(3, '0')}`;
      plain.set(name, `value ${i}`);
      ordered.set(name, `{"n":${i}}`);
    }
    server = await serveWeb({ place: plain.handle, url: 'memory:', port: 0 });
  });

  after(async () => {
    await server.close();
    plain.close();
  });

  test('its files are there, with a policy that lets nothing else in', async () => {
    for (const [path, type] of [
      ['/', 'text/html'],
      ['/page.css', 'text/css'],
      ['/main.js', 'text/javascript'],
    ]) {
      const { status, headers, text } = await ask(server, path);
      assert.equal(status, 200);
      assert.match(String(headers['content-type']), new RegExp(type));
      const policy = String(headers['content-security-policy']);
      assert.match(policy, /^default-src 'none'; script-src 'self'; style-src 'self'/);
      assert.match(policy, /frame-ancestors 'none'/);
      assert.equal(headers['x-content-type-options'], 'nosniff');
      assert.doesNotMatch(text, /(src|href|url\()\s*=?\s*["']?https?:/, 'nothing of the network');
    }
    assert.match((await ask(server, '/main.js')).text, /Copyright \(c\) \d+ Leon Sorokin/);
  });

  test('figures and history', async () => {
    const { figures, points, failure } = await json<FiguresAnswer>(server, '/api/figures?after=0');
    assert.equal(failure, null);
    assert.deepEqual(figures?.stores.map(({ name }) => name).sort(), ['default', 'ordered']);
    assert.ok(points.length >= 1);
    const sizes = figures?.memory.blocks.map(({ store }) => store) ?? [];
    assert.deepEqual([...new Set(sizes)], ['default', 'ordered']);
    assert.equal(figures?.memory.total, figures?.sizeMax);
    const later = `/api/figures?after=${points[points.length - 1].at + 1e6}`;
    assert.deepEqual((await json<FiguresAnswer>(server, later)).points, []);
  });

  test('an ordered store is paged in order, from a key on', async () => {
    const names: string[] = [];
    for (let next: string | null = ''; next !== null; ) {
      const path = `/api/keys?store=ordered&count=50${next === '' ? '' : `&next=${next}`}`;
      const page: KeysAnswer = await json<KeysAnswer>(server, path);
      assert.ok(page.records.length <= 50);
      names.push(...page.records.map(({ key }) => key.text));
      next = page.next;
    }
    assert.equal(names.length, RECORDS);
    assert.deepEqual(names, [...names].sort());
    const from = await json<KeysAnswer>(server, '/api/keys?store=ordered&from=key%20100&count=2');
    assert.deepEqual(
      from.records.map(({ key, value }) => [key.text, value?.text, value?.kind]),
      [
        ['key 100', '{"n":100}', 'json'],
        ['key 101', '{"n":101}', 'json'],
      ],
    );
  });

  test('a prefix bounds the pages of any store', async () => {
    for (const path of ['store=ordered&from=key%2000', '']) {
      const names: string[] = [];
      for (let next: string | null = ''; next !== null; ) {
        const page: KeysAnswer = await json<KeysAnswer>(
          server,
          `/api/keys?${path}&prefix=key%2010&count=3${next === '' ? '' : `&next=${next}`}`,
        );
        names.push(...page.records.map(({ key }) => key.text));
        next = page.next;
      }
      const wanted = Array.from({ length: 10 }, (_, i) => `key 10${i}`);
      assert.deepEqual(names.sort(), wanted);
    }
    const behind = '/api/keys?store=ordered&prefix=key%201&from=key%20105&count=1';
    assert.equal((await json<KeysAnswer>(server, behind)).records[0].key.text, 'key 105');
    const beyond = '/api/keys?store=ordered&prefix=key%201&from=key%202&count=1';
    assert.deepEqual((await json<KeysAnswer>(server, beyond)).records, []);
  });

  test('another store is walked, each key once while nothing is written', async () => {
    const names: string[] = [];
    for (let next: string | null = '0'; next !== null; ) {
      const page: KeysAnswer = await json<KeysAnswer>(server, `/api/keys?count=20&next=${next}`);
      names.push(...page.records.map(({ key }) => key.text));
      next = page.next;
    }
    assert.equal(new Set(names).size, RECORDS);
    const whole = await json<KeysAnswer>(server, '/api/keys?count=200');
    assert.deepEqual([whole.records.length, whole.next], [RECORDS, null], 'one page has all');
  });

  test('a value that is no text comes in hexadecimal, a long one is cut', async () => {
    plain.set('<b>', new Uint8Array([0, 255, 60]), { ttlMs: 60_000 });
    plain.set('long', 'é'.repeat(100_000));
    const small = await json<ValueAnswer>(server, '/api/value?key=%3Cb%3E');
    assert.deepEqual(small.value, { text: '00 ff 3c', kind: 'hex', bytes: 3, isCut: false });
    assert.ok(small.ttlMs !== null && small.ttlMs <= 60_000);
    const long = await json<ValueAnswer>(server, '/api/value?key=long');
    assert.ok(long.value?.isCut && long.value.bytes === 200_000);
    assert.match(long.value.text, /^é+$/, 'no character is cut');
    assert.equal((await json<ValueAnswer>(server, '/api/value?key=nothing')).value, null);
    plain.delete('<b>');
    plain.delete('long');
  });

  test('a picture has no more parts than are allowed', async () => {
    const { picture, index } = await json<PictureAnswer>(
      server,
      '/api/picture?store=ordered&parts=3',
    );
    assert.equal(index, 'chime');
    for (const { shown } of picture.layers) assert.ok(shown.length <= 3);
    assert.equal((await ask(server, '/api/picture?store=none')).status, 404);
    assert.equal((await ask(server, '/api/picture?parts=-1')).status, 400);
  });

  test('what is none of the page is refused', async () => {
    const { port } = new URL(server.url);
    const rebound = await ask(server, '/api/figures', { host: `evil.example:${port}` });
    assert.equal(rebound.status, 421);
    for (const host of [`localhost:${port}`, '127.0.0.1', '[::1]:80']) {
      assert.equal((await ask(server, '/', { host })).status, 200, host);
    }
    const cross = await ask(server, '/api/figures', { 'sec-fetch-site': 'cross-site' });
    assert.equal(cross.status, 403);
    for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS']) {
      assert.equal((await ask(server, '/api/keys', {}, method)).status, 405);
    }
    const body = await ask(server, '/', { 'content-length': '5' }, 'GET', 'hello');
    assert.equal(body.status, 413);
    assert.equal((await ask(server, '/../package.json')).status, 404);
    assert.equal((await ask(server, `/${'x'.repeat(9000)}`)).status, 431);
    assert.equal((await ask(server, '/api/keys?store=none')).status, 404);
    assert.equal((await ask(server, '/api/keys?next=x')).status, 400);
    assert.equal((await ask(server, '//')).status, 400);
    assert.equal((await ask(server, 'http://evil.example/', { host: '127.0.0.1' })).status, 200);
  });

  test('the store stays what it was', () => {
    assert.equal(plain.size, RECORDS);
    assert.equal(ordered.size, RECORDS);
  });
});

test('beyond loopback it takes passwords', async () => {
  const store = openSync('memory:', OPTIONS);
  const options = { place: store.handle, url: 'memory:', port: 0 };
  await assert.rejects(serveWeb({ ...options, host: '0.0.0.0' }), { code: 'SW_INVALID_ARGUMENT' });
  const server = await serveWeb({ ...options, passwords: { ada: 'secret' } });
  const basic = (text: string) => ({
    authorization: `Basic ${Buffer.from(text).toString('base64')}`,
  });
  const refused = await ask(server, '/');
  assert.equal(refused.status, 401);
  assert.match(String(refused.headers['www-authenticate']), /^Basic /);
  assert.equal((await ask(server, '/', basic('ada:wrong'))).status, 401);
  assert.equal((await ask(server, '/', basic('ada:secret'))).status, 200);
  const named = { ...basic('ada:secret'), host: 'pool.example' };
  assert.equal((await ask(server, '/', named)).status, 200);
  await server.close();
  store.close();
});

test('a connection that cannot be accepted is told on the page, and ends nothing', async (t) => {
  const store = openSync('memory:', OPTIONS);
  let listening: Server | undefined;
  const { listen } = Server.prototype;
  t.mock.method(Server.prototype, 'listen', function (this: Server, ...args: unknown[]) {
    listening = this;
    return listen.apply(this, args as never);
  });
  const place = { place: store.handle, url: 'memory:', port: 0 };
  const server = await serveWeb({ ...place, everyMs: 60_000 });
  listening?.emit('error', new Error('accept EMFILE'));
  const { failure } = await json<{ failure: string }>(server, '/api/figures');
  assert.equal(failure, 'accept EMFILE');
  await server.close();
  store.close();
});

test('a port that is taken is told', async () => {
  const store = openSync('memory:', OPTIONS);
  const options = { place: store.handle, url: 'memory:' };
  const server = await serveWeb({ ...options, port: 0 });
  const port = Number(new URL(server.url).port);
  await assert.rejects(serveWeb({ ...options, port }), { code: 'SW_ADDRESS_IN_USE' });
  await server.close();
  store.close();
});

test('connections that say nothing keep no others out', async (t) => {
  const store = openSync('memory:', OPTIONS);
  const server = await serveWeb({ place: store.handle, url: 'memory:', port: 0 });
  t.after(async () => {
    await server.close();
    store.close();
  });
  const port = Number(new URL(server.url).port);
  const open: Socket[] = [];
  for (let i = 0; i < 70; i++) {
    const silent = connect(port, '127.0.0.1');
    silent.on('error', () => {});
    silent.once('close', () => open.splice(open.indexOf(silent), 1));
    silent.resume();
    await once(silent, 'connect');
    open.push(silent);
  }
  const newest = open.slice(-60);
  assert.equal((await ask(server, '/')).status, 200);
  // The oldest had to go, and no others: none has been closed because it took too long.
  assert.ok(newest.every((silent) => open.includes(silent)));
});

test('it closes over connections that say nothing, with TLS and without', async () => {
  const store = openSync('memory:', OPTIONS);
  for (const tls of [{}, { tls: { cert: '', key: '' } }]) {
    const server = await serveWeb({ place: store.handle, url: 'memory:', port: 0, ...tls });
    const silent = connect(Number(new URL(server.url).port), '127.0.0.1');
    silent.on('error', () => {});
    await once(silent, 'connect');
    const closed = once(silent, 'close');
    silent.resume();
    await server.close();
    await closed;
  }
  store.close();
});
