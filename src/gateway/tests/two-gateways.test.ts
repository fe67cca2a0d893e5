import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Store } from '../../store/api.ts';
import { openSync } from '../../store/open.ts';
import { type GatewayServer, serveRedis } from '../server.ts';
import { served } from './support/fake-store.ts';
import { Talk } from './support/talk.ts';

interface Pair {
  readonly servers: GatewayServer[];
  readonly store: Store<Uint8Array>;
  talkTo(which: number): Talk;
}

/** Two servers of one pool, with two databases and a store for messages. */
async function twoGateways(t: TestContext): Promise<Pair> {
  const store = openSync('memory:', { values: 'bytes', size: 256 * 2 ** 20 });
  const named = (name: string, create: boolean) =>
    openSync(store.handle, { store: name, create, values: 'bytes' });
  const known = new Set<string>();
  const find = (name: string, create: boolean) => {
    if (create) known.add(name);
    return known.has(name) ? served(named(name, create)).store : undefined;
  };
  const start = () =>
    serveRedis({
      ...served(store),
      port: 0,
      databases: { count: 2, open: (index, create) => find(`db${index}`, create) },
      messages: (create) => find('messages', create),
      onError: (error) => assert.fail(String(error)),
    });
  const servers = [await start(), await start()];
  const talks: Talk[] = [];
  t.after(async () => {
    for (const { socket } of talks) socket.destroy();
    await Promise.all(servers.map((server) => server.close()));
    store.close();
  });
  const talkTo = (which: number) => {
    const talk = new Talk(servers[which]);
    talks.push(talk);
    return talk;
  };
  return { servers, store, talkTo };
}

test('two gateways of a pool have the same keys, times to live and databases', async (t) => {
  const { talkTo } = await twoGateways(t);
  const [one, other] = [talkTo(0), talkTo(1)];
  assert.equal(await one.ask('SET a 1 EX 100'), '+OK\r\n');
  assert.equal(await other.ask('TTL a'), ':100\r\n');
  assert.equal(await other.ask('INCR a'), ':2\r\n');
  assert.equal(await one.ask('APPEND a x'), ':2\r\n');
  await Promise.all([one.ask('SELECT 1'), other.ask('SELECT 1')]);
  assert.equal(await one.ask('SET b 1'), '+OK\r\n');
  assert.equal(await other.ask('EXISTS a b'), ':1\r\n');
  assert.equal(await other.ask('MOVE b 0'), ':1\r\n');
  assert.equal(await one.ask('EXISTS b'), ':0\r\n');
  assert.equal(await one.ask('FLUSHALL'), '+OK\r\n');
  await other.ask('SELECT 0');
  assert.equal(await other.ask('DBSIZE'), ':0\r\n');
});

test('a change by another gateway or program spoils a transaction', async (t) => {
  const { talkTo, store } = await twoGateways(t);
  const [one, other] = [talkTo(0), talkTo(1)];
  for (const change of [() => other.ask('SET a 2'), () => store.set('a', '3')]) {
    await one.ask('SET a 1');
    await one.ask('WATCH a');
    await change();
    await one.ask('MULTI');
    await one.ask('SET a 4');
    assert.equal(await one.ask('EXEC'), '*-1\r\n');
    await one.ask('WATCH a');
    await one.ask('MULTI');
    await one.ask('SET a 5');
    assert.equal(await one.ask('EXEC', '+OK'), '*1\r\n+OK\r\n');
  }
});

test('counters of two gateways lose nothing', async (t) => {
  const { talkTo } = await twoGateways(t);
  const talks = [talkTo(0), talkTo(1)];
  const rounds = 500;
  for (const talk of talks) {
    talk.send(...Array.from({ length: rounds }, () => ['INCR n', 'INCRBYFLOAT f 0.5']).flat());
  }
  await Promise.all(talks.map((talk) => talk.ask('ECHO end', 'end\r\n')));
  assert.match(await talks[0].ask('MGET n f', /500/), /1000\r\n\$3\r\n500\r\n/);
});

test('messages reach subscribers of the other gateway, in order and once', async (t) => {
  const { talkTo } = await twoGateways(t);
  const [listener, local, publisher] = [talkTo(1), talkTo(0), talkTo(0)];
  await listener.ask('SUBSCRIBE news', ':1\r\n');
  await listener.ask('PSUBSCRIBE n*', ':2\r\n');
  await local.ask('SUBSCRIBE news', ':1\r\n');
  // One client of this gateway gets it; those of others are not counted.
  assert.equal(await publisher.ask('PUBLISH news first'), ':1\r\n');
  for (let i = 0; i < 300; i++) publisher.send(`PUBLISH news ${i}`);
  await publisher.until(/(:1\r\n){300}/);
  await publisher.ask('PUBLISH news last');
  const received = await listener.until(/pmessage[\s\S]*last\r\n$/);
  const texts = ['first', ...Array.from({ length: 300 }, (_, i) => String(i)), 'last'];
  const bulk = (text: string) => `$${text.length}\r\n${text}\r\n`;
  const expected = texts.map(
    (text) =>
      `*3\r\n${bulk('message')}${bulk('news')}${bulk(text)}` +
      `*4\r\n${bulk('pmessage')}${bulk('n*')}${bulk('news')}${bulk(text)}`,
  );
  assert.equal(received, expected.join(''));
  const ofLocal = texts.map((text) => `*3\r\n${bulk('message')}${bulk('news')}${bulk(text)}`);
  assert.equal(await local.until('last\r\n'), ofLocal.join(''));
  await sleep(50);
  assert.equal(listener.unread + local.unread, '');
});

test('events of keys are published by all gateways once one of them was told to', async (t) => {
  const { talkTo } = await twoGateways(t);
  const [one, other, listener] = [talkTo(0), talkTo(1), talkTo(1)];
  await one.ask('CONFIG SET notify-keyspace-events KEA');
  while (!(await other.ask('CONFIG GET notify-keyspace-events', 'events\r\n')).includes('AKE')) {
    await sleep(50);
  }
  await listener.ask('PSUBSCRIBE __key*__:*', ':1\r\n');
  await one.ask('SET a 1 EX 100');
  await other.ask('RENAME a b');
  await one.ask('DEL b no');
  const received = await listener.until(/keyevent@0__:del/);
  const events = [...received.matchAll(/(__key\w+@0__:\w+)\r\n\$\d+\r\n(\w+)/g)].map(
    ([, channel, text]) => `${channel} ${text}`,
  );
  assert.deepEqual(events, [
    '__keyspace@0__:a set',
    '__keyevent@0__:set a',
    '__keyspace@0__:a expire',
    '__keyevent@0__:expire a',
    '__keyspace@0__:a rename_from',
    '__keyevent@0__:rename_from a',
    '__keyspace@0__:b rename_to',
    '__keyevent@0__:rename_to b',
    '__keyspace@0__:b del',
    '__keyevent@0__:del b',
  ]);
});
