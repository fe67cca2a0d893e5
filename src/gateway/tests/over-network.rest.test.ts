import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { openServed } from '../../store/open.ts';
import { startNodes } from '../../store/tests/support/remote.ts';
import { serveRedis } from '../over-network.ts';
import type { GatewayServer } from '../server.ts';
import { command } from './support/exchange.ts';
import { settle } from './support/slow-socket.ts';
import { Talk } from './support/talk.ts';

const VALUE = /\$\d+\r\n\d+\r\n/;
/** The reply to MGET of two numbers. */
const PAIR = /\*2\r\n\$\d+\r\n(\d+)\r\n\$\d+\r\n(\d+)\r\n/;

/** A gateway in front of a memory node. Both, and the clients, are in this process. */
async function start(t: TestContext): Promise<{ server: GatewayServer; talk(): Talk }> {
  // The node ends last.
  const endings: (() => Promise<unknown> | unknown)[] = [];
  const nodeScope = { after: (end: () => Promise<unknown> | unknown) => void endings.push(end) };
  const { url } = await startNodes(nodeScope, 1, { bytes: 64 * 2 ** 20 });
  const open = (store: string) =>
    openServed(url, { store, create: true, values: 'bytes', maxClients: 4 });
  const store = await open('default');
  const messages = await open('messages');
  const talks: Talk[] = [];
  const server = await serveRedis({
    store: store.operations,
    pool: store.pool,
    messages: () => messages.operations,
    port: 0,
    onError: (error) => assert.fail(String(error)),
  });
  t.after(async () => {
    for (const { socket } of talks) socket.destroy();
    await server.close();
    await messages.close();
    await store.close();
    for (const end of endings) await end();
  });
  const talk = () => {
    talks.push(new Talk(server));
    return talks[talks.length - 1];
  };
  return { server, talk };
}

/** All in one packet. */
function pipeline(lines: readonly string[]): Buffer {
  return Buffer.concat(lines.map(command));
}

function times<T>(count: number, make: (i: number) => T): T[] {
  return Array.from({ length: count }, (_, i) => make(i));
}

test('commands of two connections take turns, each in order', async (t) => {
  const { talk } = await start(t);
  const [first, second] = [talk(), talk()];
  await Promise.all([first.ask('PING'), second.ask('PING')]);
  let isFirstDone = false;
  const firstReplies = (async () => {
    first.socket.write(pipeline([...times(400, () => 'INCR n'), 'ECHO end']));
    const replies = await first.until('end\r\n');
    isFirstDone = true;
    return replies;
  })();
  // The later connection does not wait for the pipeline of the earlier one.
  for (let i = 1; i <= 3; i++) assert.equal(await second.ask('INCR m'), `:${i}\r\n`);
  assert.equal(isFirstDone, false);
  assert.equal(await firstReplies, `${times(400, (i) => `:${i + 1}\r\n`).join('')}$3\r\nend\r\n`);
});

test('effects of a pipeline come in the order of its commands, whoever looks', async (t) => {
  const { talk } = await start(t);
  const [writer, ...readers] = times(4, talk);
  await Promise.all(readers.map((one) => one.ask('PING')));
  const rounds = 300;
  // The first command of each pair takes more round trips than the second.
  const lines = times(rounds, () => ['APPEND text x', 'INCR n']).flat();
  let isDone = false;
  writer.socket.write(pipeline([...lines, 'ECHO end']));
  const writing = writer.until('end\r\n').then(() => {
    isDone = true;
  });
  let between = 0;
  const reading = readers.map(async (reader) => {
    while (!isDone) {
      // What is written last is read first.
      reader.socket.write(pipeline(['GET n', 'STRLEN text', 'ECHO end']));
      const [, n = 0, length] =
        /(?:(\d+)\r\n|-1\r\n):(\d+)/.exec(await reader.until('end\r\n')) ?? [];
      assert.ok(Number(n) <= Number(length), `n is ${n} and text has ${length} characters`);
      if (Number(n) < rounds) between++;
    }
  });
  await Promise.all([writing, ...reading]);
  assert.ok(between > 0, 'the other connections waited for the pipeline');
});

test('replies to a pipeline come in the order of its commands, whatever they take', async (t) => {
  const { talk } = await start(t);
  const talks = times(4, talk);
  const exchanges = talks.map(async (one, which) => {
    const lines: string[] = [];
    const expected: string[] = [];
    for (let i = 0; i < 60; i++) {
      const key = `k${which}:${i % 7}`;
      const value = `v${i}`;
      const bulk = `$${value.length}\r\n${value}\r\n`;
      lines.push(`SET ${key} ${value}`, `GET ${key}`, `GET ${key}`, 'NOSUCH', `ECHO ${value}`);
      expected.push('+OK\r\n', bulk, bulk);
      expected.push("-ERR unknown command 'NOSUCH', with args beginning with: \r\n", bulk);
      lines.push(`INCR ${key}`, 'MULTI', `APPEND ${key} x`, `MGET ${key} none`, 'EXEC');
      expected.push('-ERR value is not an integer or out of range\r\n', '+OK\r\n');
      expected.push('+QUEUED\r\n'.repeat(2));
      expected.push(`*2\r\n:${value.length + 1}\r\n*2\r\n`);
      expected.push(`$${value.length + 1}\r\n${value}x\r\n$-1\r\n`);
    }
    one.socket.write(pipeline([...lines, 'ECHO end']));
    assert.equal(await one.until('$3\r\nend\r\n'), `${expected.join('')}$3\r\nend\r\n`);
  });
  await Promise.all(exchanges);
});

test('no command of another client runs in the middle of EXEC, nor of a command alone', async (t) => {
  const { talk } = await start(t);
  const [writer, setter, ...readers] = times(5, talk);
  await writer.ask('MSET x 0 y 0 a 0 b 0');
  const rounds = 20;
  const transactions = times(rounds, () => [
    'MULTI',
    ...times(4, () => ['INCR x', 'ECHO between', 'INCR y']).flat(),
    'EXEC',
  ]).flat();
  writer.socket.write(pipeline([...transactions, 'ECHO end']));
  setter.socket.write(pipeline([...times(rounds, (i) => `MSET a ${i} b ${i}`), 'ECHO end']));
  const pairs: [string, string][] = [];
  const reading = readers.map(async (reader) => {
    const asked = times(rounds, () => ['MGET x y', 'MGET a b']).flat();
    reader.socket.write(pipeline([...asked, 'ECHO end']));
    const replies = await reader.until('end\r\n');
    for (const [, one, other] of replies.matchAll(new RegExp(PAIR, 'g'))) pairs.push([one, other]);
  });
  await Promise.all([writer.until('end\r\n'), setter.until('end\r\n'), ...reading]);
  assert.equal(pairs.length, readers.length * rounds * 2);
  for (const [one, other] of pairs) assert.equal(one, other);
  assert.match(await writer.ask('GET y'), new RegExp(`\r\n${rounds * 4}\r\n`));
});

test('WATCH sees what another connection changes, and a refused command spoils MULTI', async (t) => {
  const { talk } = await start(t);
  const [one, other] = [talk(), talk()];
  one.socket.write(pipeline(['SET k 1', 'WATCH k', 'MULTI', 'SET k 2', 'ECHO in']));
  await one.until('+QUEUED\r\n+QUEUED\r\n');
  await other.ask('SET k other');
  assert.equal(await one.ask('EXEC'), '*-1\r\n');
  one.socket.write(pipeline(['MULTI', 'SET k 3', 'NOSUCH', 'EXEC', 'GET k', 'ECHO end']));
  const replies = await one.until('end\r\n');
  assert.match(replies, /-EXECABORT [^\r]*\r\n\$5\r\nother\r\n/);
});

test('a connection that dies in its pipeline harms none, and its EXEC is done whole', async (t) => {
  const { server, talk } = await start(t);
  const [dying, living, watching] = times(3, talk);
  await Promise.all([dying, living, watching].map((one) => one.ask('PING')));
  const transaction = ['MULTI', ...times(100, () => ['INCR x', 'INCR y']).flat(), 'EXEC'];
  dying.socket.write(pipeline(times(20, () => transaction).flat()));
  living.socket.write(pipeline([...times(200, () => 'INCR n'), 'ECHO end']));
  while ((await watching.ask('GET x')) === '$-1\r\n');
  dying.socket.resetAndDestroy();
  const counts = times(200, (i) => `:${i + 1}\r\n`).join('');
  assert.equal(await living.until('end\r\n'), `${counts}$3\r\nend\r\n`);
  while (server.connections > 2) await settle();
  const replies = await watching.ask('MGET x y', PAIR);
  const [, x, y] = PAIR.exec(replies) ?? [];
  assert.equal(x, y);
  assert.equal(Number(x) % 100, 0);
  assert.ok(Number(x) < 2000, 'a transaction that had not begun has run');
});

test('a pause waits for commands in flight, and holds back those that wait for them', async (t) => {
  const { talk } = await start(t);
  const [pausing, ...writers] = times(21, talk);
  await Promise.all([pausing, ...writers].map((one) => one.ask('PING')));
  for (const { socket } of writers) {
    socket.write(pipeline([...times(100, () => 'INCR n'), 'ECHO end']));
  }
  while ((await pausing.ask('GET n', /\r\n$/)) === '$-1\r\n');
  await pausing.ask('CLIENT PAUSE 600000 WRITE');
  const before = await pausing.ask('GET n', VALUE);
  for (let i = 0; i < 20; i++) assert.equal(await pausing.ask('GET n', VALUE), before);
  assert.ok(writers.every(({ unread }) => !unread.includes('end')));
  await pausing.ask('CLIENT UNPAUSE');
  await Promise.all(writers.map((one) => one.until('end\r\n')));
  assert.match(await pausing.ask('GET n', VALUE), /\r\n2000\r\n/);
});

test('messages of a connection come in order, behind the reply that subscribes', async (t) => {
  const { talk } = await start(t);
  const [listener, ...publishers] = times(3, talk);
  await listener.ask('SUBSCRIBE c', ':1\r\n');
  for (const [which, publisher] of publishers.entries()) {
    publisher.socket.write(pipeline(times(30, (i) => `PUBLISH c p${which}:${i}.`)));
  }
  let received = '';
  while (times(2, (which) => `p${which}:29.`).some((last) => !received.includes(last))) {
    received += await listener.until('.');
  }
  for (const which of [0, 1]) {
    const numbers = [...received.matchAll(new RegExp(`p${which}:(\\d+)\\.`, 'g'))];
    assert.deepEqual(
      numbers.map(([, number]) => Number(number)),
      times(30, (i) => i),
    );
  }
});

test('a server closes while commands are in flight, which end before it has closed', async (t) => {
  const { server, talk } = await start(t);
  const talks = times(3, talk);
  await Promise.all(talks.map((one) => one.ask('PING')));
  const transaction = ['MULTI', ...times(100, () => 'INCR n'), 'EXEC'];
  for (const { socket } of talks) socket.write(pipeline(times(10, () => transaction).flat()));
  await talks[0].until('*100\r\n');
  await server.close();
  assert.equal(server.connections, 0);
  // Each has the whole replies of what it ran, and nothing behind them.
  for (const { unread } of talks) assert.match(unread, /(^|:\d+\r\n|OK\r\n|QUEUED\r\n)$/);
});
