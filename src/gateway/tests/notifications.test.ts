import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { StepwellError } from '../../errors.ts';
import type { MessageStore } from '../messages/message-bus.ts';
import { array, command, exchange, serverFor } from './support/exchange.ts';
import { fakeStore, served } from './support/fake-store.ts';
import { Talk } from './support/talk.ts';

/** A server with two databases whose store of messages raises `failure` for writes, once set. */
async function setUp(t: TestContext) {
  const store = fakeStore();
  const { operations } = fakeStore(store, 'messages');
  const broken: { failure?: Error } = {};
  const messages: MessageStore = {
    get: (key) => operations.get(key),
    getMany: (keys, options) => operations.getMany(keys, options),
    increment: (key, by) => operations.increment(key, by),
    set(key, value, options) {
      if (broken.failure !== undefined) throw broken.failure;
      return operations.set(key, value, options);
    },
  };
  const second = fakeStore(store, 'second');
  const rig = await serverFor(t, {
    ...served(store),
    databases: { count: 2, open: () => second.operations },
    messages: () => messages,
  });
  return { ...rig, store, broken };
}

/** Commands of each file that tells of an event. */
const WRITES = [
  'SET a 1',
  'SET b 1 EX 100',
  'SETEX c 100 1',
  'SETNX d 1',
  'MSET e 1 f 1',
  'MSETNX g 1 h 1',
  'GETSET a 2',
  'APPEND a 3',
  'SETRANGE a 1 4',
  'INCR a',
  'INCRBYFLOAT a 0.5',
  'SETBIT i 7 1',
  'BITFIELD i SET u8 0 255',
  'BITOP AND j a i',
  'BITOP AND j no no',
  'EXPIRE a 100',
  'PERSIST a',
  'GETEX a EX 100',
  'GETEX a PERSIST',
  'EXPIRE f 0',
  'COPY a k',
  'RENAME k l',
  'MOVE l 1',
  'GETDEL a',
  'DEL b c d no',
  'UNLINK e',
  'PING',
];

test('a write that succeeded says so when its events cannot be sent', async (t) => {
  const { server, broken, store, failures } = await setUp(t);
  await exchange(server, command('CONFIG SET notify-keyspace-events KEA'));
  const run = async () => {
    for (const database of [0, 1]) await exchange(server, `SELECT ${database}\r\nFLUSHDB\r\n`);
    return exchange(server, Buffer.concat(WRITES.map(command)));
  };
  const expected = await run();
  assert.match(expected, /\+PONG\r\n$/);
  broken.failure = new StepwellError('SW_POOL_FULL', 'planted');
  assert.equal(await run(), expected);
  assert.deepEqual(failures, []);
  broken.failure = new Error('planted');
  assert.equal(await run(), expected);
  assert.equal(store.has('a'), false);
  assert.ok(failures.length > 0);
  assert.ok(failures.every(({ error }) => error === broken.failure));
});

test('events of the longest keys reach this server alone, and are counted', async (t) => {
  const { server } = await setUp(t);
  const listener = new Talk(server);
  t.after(() => listener.socket.destroy());
  await listener.ask('PSUBSCRIBE __key*', ':1\r\n');
  const key = 'k'.repeat(65_530);
  const requests = [
    command('CONFIG SET notify-keyspace-events KEA'),
    array('SET', key, '1'),
    array('DEL', key),
    command('SET short 1'),
    command('INFO stats'),
  ];
  const replies = await exchange(server, Buffer.concat(requests));
  assert.match(replies, /^\+OK\r\n\+OK\r\n:1\r\n\+OK\r\n\$/);
  assert.match(replies, /stepwell_unsent_events:4\r\n/);
  const received = await listener.until(/keyevent@0__:set\r\n\$5\r\nshort\r\n$/);
  assert.equal(received.split(key).length - 1, 4);
});

test('CONFIG SET that is refused by a full pool sets nothing', async (t) => {
  const { server, broken } = await setUp(t);
  const ask = (line: string) => exchange(server, command(line));
  broken.failure = new StepwellError('SW_POOL_FULL', 'planted');
  const asked = 'CONFIG GET timeout notify-keyspace-events';
  const before = await ask(asked);
  const change = 'CONFIG SET timeout 7 notify-keyspace-events KEA';
  assert.equal(await ask(change), '-OOM command not allowed: planted\r\n');
  assert.equal(await ask(asked), before);
  broken.failure = undefined;
  assert.equal(await ask(change), '+OK\r\n');
  assert.match(await ask(asked), /AKE\r\n[\s\S]*\r\n7\r\n/);
});

test('SUBSCRIBE is refused while the store of messages cannot be made, and works later', async (t) => {
  let isFull = true;
  const store = fakeStore();
  const { operations } = fakeStore(store, 'messages');
  const open = (create: boolean) => {
    if (create && isFull) throw new StepwellError('SW_POOL_FULL', 'planted');
    return isFull ? undefined : operations;
  };
  const { server, failures } = await serverFor(t, { ...served(store), messages: open });
  const listener = new Talk(server);
  t.after(() => listener.socket.destroy());
  const refused = '-OOM command not allowed: planted\r\n';
  assert.equal(await listener.ask('SUBSCRIBE news'), refused);
  assert.equal(await listener.ask('PSUBSCRIBE n*'), refused);
  // A client that leaves meanwhile has the server look at the subscriptions that are left.
  assert.equal(await exchange(server, command('PUBSUB NUMSUB news')), '*2\r\n$4\r\nnews\r\n:0\r\n');
  isFull = false;
  await listener.ask('SUBSCRIBE news', ':1\r\n');
  assert.equal(await exchange(server, command('PUBLISH news hi')), ':1\r\n');
  await listener.until('hi\r\n');
  assert.deepEqual(failures, []);
});
