import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { GatewayOptions } from '../server.ts';
import { command, exchange, serverFor } from './support/exchange.ts';
import { Talk } from './support/talk.ts';

async function setUp(t: TestContext, options?: Partial<GatewayOptions>) {
  const rig = await serverFor(t, options);
  const talks: Talk[] = [];
  t.after(() => {
    for (const { socket } of talks) socket.destroy();
  });
  const talk = () => {
    const made = new Talk(rig.server);
    talks.push(made);
    return made;
  };
  return { ...rig, talk };
}

test('CLIENT LIST and INFO describe connections with real figures', async (t) => {
  const { talk } = await setUp(t);
  const [one, other] = [talk(), talk()];
  await one.ask('CLIENT SETNAME me');
  await one.ask('CLIENT SETINFO lib-name mine');
  await one.ask('WATCH a b');
  await one.ask('MULTI');
  await one.ask('SET a 1');
  await other.ask('SUBSCRIBE x y', ':2\r\n');
  const asker = talk();
  await asker.ask('HELLO 3', 'modules\r\n*0\r\n');
  const list = await asker.ask('CLIENT LIST', /cmd=client\|list/);
  const lines = list.split('\n').filter((line) => line.includes('id='));
  assert.equal(lines.length, 3);
  assert.match(lines[0], /name=me .*flags=x db=0 sub=0 psub=0 multi=1 .*cmd=set user=default/);
  assert.match(lines[0], /lib-name=mine/);
  assert.match(lines[1], /flags=P .*sub=2 psub=0 multi=-1/);
  assert.match(lines[2], /addr=127\.0\.0\.1:\d+ laddr=127\.0\.0\.1:\d+ .*resp=3/);
  assert.match(
    await asker.ask('CLIENT LIST TYPE pubsub', /\r\n$/),
    /^=\d+\r\ntxt:id=2 [^\n]*\n\r\n$/,
  );
  const info = await asker.ask('INFO clients', /total_watched_keys/);
  assert.match(info, /connected_clients:3\r\n/);
  assert.match(info, /pubsub_clients:1\r\n/);
  assert.match(info, /total_watched_keys:2\r\n/);
});

test('CLIENT KILL ends connections by id, address and type, its own after the reply', async (t) => {
  const { talk, server } = await setUp(t);
  const [one, two, three, four] = [talk(), talk(), talk(), talk()];
  const id = (await two.ask('CLIENT ID')).slice(1, -2);
  await three.ask('SUBSCRIBE x', ':1\r\n');
  assert.equal(await one.ask(`CLIENT KILL ID ${id}`), ':1\r\n');
  await two.closed();
  assert.equal(await one.ask('CLIENT KILL TYPE pubsub'), ':1\r\n');
  await three.closed();
  const line = await four.ask('CLIENT INFO', /resp=2/);
  const address = /addr=(\S+)/.exec(line)?.[1];
  assert.equal(await one.ask(`CLIENT KILL ${address}`), '+OK\r\n');
  await four.closed();
  while (server.connections > 1) await sleep(1);
  assert.equal(await one.ask('CLIENT KILL TYPE normal SKIPME no'), ':1\r\n');
  await one.closed();
});

test('CLIENT REPLY OFF and SKIP are without replies, and what they skip is done', async (t) => {
  const { server, store } = await serverFor(t);
  const lines = ['SET a 1', 'CLIENT REPLY OFF', 'SET b 2', 'NOSUCH', 'MGET a b', 'GET a'];
  lines.push('CLIENT REPLY ON', 'GET b', 'CLIENT REPLY SKIP', 'SET c 3', 'GET c');
  lines.push('CLIENT REPLY SKIP', 'CLIENT REPLY SKIP', 'PING', 'ECHO x');
  const replies = await exchange(server, Buffer.concat(lines.map(command)));
  assert.equal(replies, '+OK\r\n+OK\r\n$1\r\n2\r\n$1\r\n3\r\n$1\r\nx\r\n');
  assert.equal(store.size, 3);
});

test('CLIENT PAUSE holds all commands back, or writes, until its time or UNPAUSE', async (t) => {
  const { talk, store } = await setUp(t);
  const [one, other] = [talk(), talk()];
  await one.ask('SET a 1');
  await one.ask('CLIENT PAUSE 60000 WRITE');
  other.send('GET a', 'SET a 2', 'GET a');
  assert.equal(await other.until('\r\n1\r\n'), '$1\r\n1\r\n');
  assert.equal(await one.ask('GET a', '\r\n1\r\n'), '$1\r\n1\r\n');
  await sleep(20);
  assert.equal(other.unread, '');
  await one.ask('CLIENT UNPAUSE');
  assert.equal(await other.until('\r\n2\r\n'), '+OK\r\n$1\r\n2\r\n');
  // From before the pause, so that a slow machine cannot make it seem too short.
  const begun = performance.now();
  await one.ask('CLIENT PAUSE 60');
  await other.ask('PING');
  assert.ok(performance.now() - begun > 58);
  // A transaction that only reads is no write.
  await one.ask('CLIENT PAUSE 60000 WRITE');
  other.send('MULTI', 'GET a', 'EXEC');
  await other.until('*1\r\n$1\r\n2\r\n');
  assert.ok(store.size > 0);
});

test('a pause that EXEC ends lets no command of another client into it', async (t) => {
  const { talk } = await setUp(t);
  const [one, other] = [talk(), talk()];
  await one.ask('SET a 1');
  await one.ask('CLIENT PAUSE 60000 WRITE');
  // The same packet has the reply that shows that SET waits.
  other.socket.write(Buffer.concat(['PING', 'SET a 2'].map(command)));
  await other.until('+PONG\r\n');
  one.send('MULTI', 'CLIENT UNPAUSE', 'GET a', 'EXEC');
  assert.match(await one.until(/\*2\r\n.*\r\n\d\r\n/s), /\*2\r\n\+OK\r\n\$1\r\n1\r\n$/);
  assert.equal(await other.until('\r\n'), '+OK\r\n');
});

test('MONITOR shows the commands of all clients, and secrets of none', async (t) => {
  const { talk } = await setUp(t, { passwords: { default: 'secret' } });
  const [watcher, other] = [talk(), talk()];
  await watcher.ask('AUTH secret');
  await watcher.ask('MONITOR');
  await other.ask('AUTH secret');
  await other.ask('SELECT 0');
  other.send('GET a', 'GET b');
  await other.ask('MULTI', '+OK\r\n');
  await other.ask('SET a "x');
  await other.ask('EXEC', '*1\r\n+OK\r\n');
  const seen = await watcher.until(/"EXEC"\r\n[\s\S]*"SET"/);
  assert.doesNotMatch(seen, /secret/);
  const words = [...seen.matchAll(/^\+\d+\.\d{6} \[0 127\.0\.0\.1:\d+\] (.*)\r$/gm)];
  assert.deepEqual(
    words.map(([, line]) => line),
    ['"SELECT" "0"', '"GET" "a"', '"GET" "b"', '"MULTI"', '"EXEC"', '"SET" "a" "\\"x"'],
  );
  await watcher.ask('RESET', '+RESET');
});

test('SLOWLOG keeps the latest slow commands, shortened', async (t) => {
  const { talk } = await setUp(t);
  const one = talk();
  await one.ask('CONFIG SET slowlog-log-slower-than 0 slowlog-max-len 3');
  await one.ask('CLIENT SETNAME me');
  await one.ask(`SET a ${'x'.repeat(200)}`);
  await one.ask(`DEL ${Array.from({ length: 50 }, (_, i) => i).join(' ')}`);
  const log = await one.ask('SLOWLOG GET', /more bytes/);
  assert.match(log, /^\*3\r\n\*6\r\n/);
  assert.match(log, /\$3\r\nDEL\r\n[\s\S]*\.\.\. \(20 more arguments\)\r\n/);
  assert.match(log, /x{128}\.\.\. \(72 more bytes\)\r\n/);
  assert.match(log, /127\.0\.0\.1:\d+\r\n\$2\r\nme\r\n/);
  await one.ask('CONFIG SET slowlog-log-slower-than -1');
  await one.ask('SLOWLOG RESET');
  assert.equal(await one.ask('SLOWLOG LEN'), ':0\r\n');
});

test('a client that is idle for longer than the timeout is closed, a subscriber is not', async (t) => {
  const { talk } = await setUp(t);
  const [one, listener] = [talk(), talk()];
  await listener.ask('SUBSCRIBE x', ':1\r\n');
  await one.ask('CONFIG SET timeout 1');
  await one.closed();
  assert.ok(!listener.socket.closed);
});

test('a subscriber that does not read is closed beyond the limit of its output', async (t) => {
  const { talk, server } = await setUp(t);
  const [publisher, listener] = [talk(), talk()];
  await publisher.ask('CONFIG SET maxmemory-clients 512mb');
  await listener.ask('SUBSCRIBE x', ':1\r\n');
  listener.socket.pause();
  const message = 'y'.repeat(1_000_000);
  for (let sent = 0; sent < 100 && server.connections === 2; sent++) {
    await publisher.ask(`PUBLISH x ${message}`);
  }
  assert.equal(server.connections, 1);
});

test('what subscribers, watchers and transactions hold counts as their memory', async (t) => {
  const { talk } = await setUp(t, { maxClientBytes: 2 ** 20 });
  for (const begin of ['SUBSCRIBE', 'WATCH', 'MULTI']) {
    const one = talk();
    if (begin === 'MULTI') await one.ask('MULTI');
    const each = begin === 'MULTI' ? 'SET' : begin;
    for (let i = 0; i < 200 && !one.socket.closed; i++) {
      one.send(`${each} ${i}${'k'.repeat(20_000)} v`);
      await sleep(1);
    }
    await one.closed();
  }
  assert.match(await talk().ask('INFO stats', /evicted/), /evicted_clients:3\r\n/);
});

test('the limit of connections can be changed', async (t) => {
  const { talk, server } = await setUp(t);
  const one = talk();
  await one.ask('CONFIG SET maxclients 1');
  assert.equal(await exchange(server, ''), '-ERR max number of clients reached\r\n');
  await one.ask('CONFIG SET maxclients 2');
  assert.equal(await exchange(server, 'PING\r\n'), '+PONG\r\n');
});
