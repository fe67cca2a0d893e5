import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { connect } from 'node:tls';
import { isMissing } from '../../store/tests/support/missing-tools.ts';
import { Passwords } from '../passwords.ts';
import { serveRedis } from '../server.ts';
import { array, command, connectTo, exchange, serverFor } from './support/exchange.ts';
import { fakeStore, served } from './support/fake-store.ts';
import { Talk } from './support/talk.ts';

const NOAUTH = '-NOAUTH Authentication required.\r\n';
const WRONGPASS = '-WRONGPASS invalid username-password pair or user is disabled.\r\n';

function ask(lines: string[]): Buffer {
  return Buffer.concat(lines.map(command));
}

test('without its password a client reaches nothing but AUTH, HELLO, RESET and QUIT', async (t) => {
  const { server, store } = await serverFor(t, { passwords: { default: 'secret', ann: 'pa ss' } });
  const refused = ['GET a', 'SET a 1', 'PING', 'MULTI', 'EXEC', 'SUBSCRIBE x', 'INFO', 'NOSUCH'];
  const replies = (await exchange(server, ask([...refused, 'AUTH wrong', 'QUIT']))).split('\r\n');
  assert.deepEqual(replies.slice(0, 7), Array(7).fill(NOAUTH.trim()));
  assert.match(replies[7], /unknown command 'NOSUCH'/);
  assert.deepEqual(replies.slice(8), [WRONGPASS.trim(), '+OK', '']);
  assert.equal(store.calls.get, undefined);
});

test('a password lets in, alone or with its user, also by HELLO; RESET shuts out', async (t) => {
  const { server } = await serverFor(t, { passwords: { default: 'secret', ann: 'pa ss' } });
  const pong = '+PONG\r\n';
  assert.equal(await exchange(server, ask(['AUTH secret', 'PING'])), `+OK\r\n${pong}`);
  const ann = [array('AUTH', 'ann', 'pa ss'), command('PING')];
  assert.equal(await exchange(server, Buffer.concat(ann)), `+OK\r\n${pong}`);
  const hello = await exchange(server, ask(['HELLO 3 AUTH default secret', 'PING']));
  assert.match(hello, /^%7\r\n[\s\S]*\+PONG\r\n$/);
  assert.match(await exchange(server, ask(['HELLO 3'])), /^-NOAUTH HELLO must be called with/);
  for (const wrong of ['AUTH ann secret', 'AUTH bob secret', 'HELLO 3 AUTH ann x']) {
    assert.equal(await exchange(server, ask([wrong, 'GET a'])), WRONGPASS + NOAUTH);
  }
  const reset = ask(['AUTH secret', 'RESET', 'PING']);
  assert.equal(await exchange(server, reset), `+OK\r\n+RESET\r\n${NOAUTH}`);
});

test('a client that has not authenticated itself can send little', async (t) => {
  const { server } = await serverFor(t, { passwords: { default: 'secret' } });
  assert.equal(
    await exchange(server, '*100000\r\n'),
    '-ERR Protocol error: unauthenticated multibulk length\r\n',
  );
  assert.equal(
    await exchange(server, '*2\r\n$4\r\nECHO\r\n$1000000\r\n'),
    '-ERR Protocol error: unauthenticated bulk length\r\n',
  );
  const talk = new Talk(server);
  assert.equal(await talk.ask('AUTH secret'), '+OK\r\n');
  assert.equal(await talk.ask(`SET a ${'x'.repeat(1_000_000)}`), '+OK\r\n');
  talk.socket.destroy();
});

test('other addresses than loopback are served to clients with a password only', async () => {
  const store = fakeStore();
  await assert.rejects(serveRedis({ ...served(store), host: '0.0.0.0', port: 0 }), {
    code: 'SW_INVALID_ARGUMENT',
    message: 'without passwords the gateway serves loopback addresses only, not 0.0.0.0',
  });
  const passwords = { default: 'secret' };
  const server = await serveRedis({ ...served(store), host: '0.0.0.0', port: 0, passwords });
  assert.equal(server.address.host, '0.0.0.0');
  await server.close();
  await assert.rejects(serveRedis({ ...served(store), port: 0, passwords: { default: '' } }), {
    code: 'SW_INVALID_ARGUMENT',
  });
  await assert.rejects(serveRedis({ ...served(store), port: 0, passwords: {} }), {
    code: 'SW_INVALID_ARGUMENT',
  });
});

test('a file of passwords has users, blanks in passwords, and comments', () => {
  const text = '# ours\nsecret\n\nann pa ss\r\nbob x\n';
  assert.deepEqual(Passwords.parse(text), { default: 'secret', ann: 'pa ss', bob: 'x' });
  const passwords = new Passwords(Passwords.parse(text));
  assert.ok(passwords.allows('ann', Buffer.from('pa ss')));
  assert.ok(!passwords.allows('ann', Buffer.from('pa')));
  assert.ok(!passwords.allows('nobody', Buffer.from('')));
});

function certificate(t: TestContext): { cert: string; key: string } {
  const folder = mkdtempSync(join(tmpdir(), 'stepwell-tls-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const [cert, key] = ['cert.pem', 'key.pem'].map((name) => join(folder, name));
  const words = `req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost`.split(' ');
  const names = ['-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1'];
  const options = { stdio: 'ignore' } as const;
  execFileSync('openssl', [...words, ...names, '-keyout', key, '-out', cert], options);
  return { cert: readFileSync(cert, 'utf8'), key: readFileSync(key, 'utf8') };
}

test('TLS carries everything, and no client without it', {
  skip: isMissing('openssl'),
}, async (t) => {
  const tls = certificate(t);
  const { server } = await serverFor(t, { tls });
  assert.match(server.url, /^rediss:/);
  const socket = connect({ ...server.address, ca: tls.cert });
  const talk = new Talk(server, socket);
  const value = 'x'.repeat(3_000_000);
  assert.equal(await talk.ask(`SET a ${value}`), '+OK\r\n');
  assert.equal(await talk.ask('GET a', /x\r\n$/), `$3000000\r\n${value}\r\n`);
  assert.equal(await talk.ask('QUIT'), '+OK\r\n');
  await talk.closed();
  const plain = new Talk(server);
  plain.send('PING');
  await plain.closed();
  assert.doesNotMatch(plain.unread, /PONG/);
});

test('a connection that does not end the greeting of TLS is closed', async (t) => {
  const { server } = await serverFor(t, { tls: { cert: '', key: '', handshakeTimeout: 50 } });
  const silent = connectTo(server);
  silent.on('error', () => {});
  await once(silent.resume(), 'close');
});

test('with TLS it closes over connections that have not greeted', async (t) => {
  const { server } = await serverFor(t, { tls: { cert: '', key: '' } });
  const silent = connectTo(server);
  silent.on('error', () => {});
  await once(silent, 'connect');
  const closed = once(silent.resume(), 'close');
  await server.close();
  await closed;
});
