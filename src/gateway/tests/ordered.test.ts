import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { IndexName, Store } from '../../store/api.ts';
import { freshStore } from '../../store/tests/support/pools.ts';
import { command, exchange, serverFor } from './support/exchange.ts';
import { served } from './support/fake-store.ts';

async function replies(
  t: TestContext,
  store: Store<Uint8Array>,
  ...lines: string[]
): Promise<string[]> {
  const { server } = await serverFor(t, served(store));
  const bytes = Buffer.concat(lines.map(command));
  return (await exchange(server, bytes)).split('\r\n').slice(0, -1);
}

const bulks = (...items: string[]) => [
  `*${items.length}`,
  ...items.flatMap((item) => [`$${item.length}`, item]),
];

function fruits(t: TestContext, index: IndexName = 'chime'): Store<Uint8Array> {
  const store = freshStore(t, 'memory', { index, values: 'bytes' }) as Store<Uint8Array>;
  for (const key of ['fig', 'apple', 'cherry', 'date', 'banana']) store.set(key, key.slice(0, 1));
  return store;
}

test('SW.RANGE returns ranges in order, with the syntax of ZRANGE BYLEX', async (t) => {
  const found = await replies(
    t,
    fruits(t),
    'SW.RANGE - +',
    'SW.RANGE [banana (date',
    'sw.range (banana [date',
    'SW.RANGE + - REV LIMIT 0 2',
    'SW.RANGE [date [banana REV',
    'SW.RANGE - + LIMIT 1 2 WITHVALUES',
    'SW.RANGE - + LIMIT 3 -1',
    'SW.RANGE - + LIMIT 9 1',
    'SW.RANGE - + LIMIT 0 9223372036854775807',
    'SW.RANGE + -',
    'SW.RANGE [z [a',
  );
  const all = ['apple', 'banana', 'cherry', 'date', 'fig'];
  assert.deepEqual(found, [
    ...bulks(...all),
    ...bulks('banana', 'cherry'),
    ...bulks('cherry', 'date'),
    ...bulks('fig', 'date'),
    ...bulks('date', 'cherry', 'banana'),
    ...bulks('banana', 'b', 'cherry', 'c'),
    ...bulks('date', 'fig'),
    ...bulks(),
    ...bulks(...all),
    ...bulks(),
    ...bulks(),
  ]);
});

test('SW.COUNT and SW.REMRANGE', async (t) => {
  const store = fruits(t);
  const lines = ['SW.COUNT - +', 'SW.COUNT (apple [cherry', 'SW.COUNT + -'];
  const removals = ['SW.REMRANGE (apple [cherry', 'SW.REMRANGE [x [y', 'DBSIZE'];
  assert.deepEqual(await replies(t, store, ...lines, ...removals), [
    ':5',
    ':2',
    ':0',
    ':2',
    ':0',
    ':3',
  ]);
  store.setMany(Array.from({ length: 1000 }, (_, i) => [`n${i}`, ''] as const));
  assert.deepEqual(await replies(t, store, 'SW.REMRANGE [n (o', 'DBSIZE'), [':1000', ':3']);
});

test('wrong ranges and options', async (t) => {
  const item = '-ERR min or max not valid string range item';
  const lines = ['SW.RANGE a b', 'SW.COUNT [a b', 'SW.REMRANGE a +'];
  const options = ['SW.RANGE - + LIMIT 1', 'SW.RANGE - + BYLEX', 'SW.RANGE - + LIMIT -1 2'];
  assert.deepEqual(await replies(t, fruits(t), ...lines, ...options, 'SW.RANGE -'), [
    item,
    item,
    item,
    '-ERR syntax error',
    '-ERR syntax error',
    '-ERR offset is out of range, must be positive',
    "-ERR wrong number of arguments for 'sw.range' command",
  ]);
});

test('a store without order says so', async (t) => {
  const lines = ['SW.RANGE - +', 'SW.COUNT - +', 'SW.REMRANGE - +', 'DBSIZE'];
  const found = await replies(t, fruits(t, 'race'), ...lines);
  for (const reply of found.slice(0, 3)) assert.match(reply, /^-ERR SW_UNSUPPORTED .*no order/);
  assert.equal(found[3], ':5');
});

test('SCAN of an ordered store is in order, and MATCH with a beginning goes there', async (t) => {
  const store = freshStore(t, 'memory', {
    index: { kind: 'chime', span: 8 },
    values: 'bytes',
  }) as Store<Uint8Array>;
  const keys = Array.from({ length: 300 }, (_, i) => `user:${String(i).padStart(3, '0')}`);
  for (const key of keys.toReversed()) store.set(key, 'v'.repeat(1000));
  for (let i = 0; i < 2000; i++) store.set(`other:${i}`, 'v');
  const { server } = await serverFor(t, served(store));
  const found: string[] = [];
  let calls = 0;
  for (let cursor = '0'; calls === 0 || cursor !== '0'; calls++) {
    const line = `SCAN ${cursor} MATCH user:* COUNT 20`;
    const reply = (await exchange(server, command(line))).split('\r\n');
    cursor = reply[2];
    for (let at = 5; at < reply.length; at += 2) found.push(reply[at]);
  }
  assert.deepEqual(found, keys);
  assert.ok(calls <= 16, `${calls} calls for 300 keys by 20`);
});

test('SW.RANGE beyond the limit of a reply is refused, and goes on with LIMIT', async (t) => {
  const store = freshStore(t, 'memory', { index: 'chime', values: 'bytes' }) as Store<Uint8Array>;
  for (let i = 0; i < 1000; i++) store.set(`k${1000 + i}`, Buffer.alloc(2000, i));
  const { server } = await serverFor(t, { ...served(store), maxClientBytes: 1024 * 1024 });
  const ask = (line: string) => exchange(server, command(line));
  const tooLong = '-ERR the reply would be longer than 1048576 bytes: ask for less by LIMIT\r\n';
  assert.equal(await ask('SW.RANGE - + WITHVALUES'), tooLong);
  assert.match(await ask('SW.RANGE - + WITHVALUES LIMIT 700 400'), /^\*600\r\n\$5\r\nk1700\r\n/);
  assert.match(await ask('SW.RANGE + - REV WITHVALUES LIMIT 300 1'), /^\*2\r\n\$5\r\nk1699\r\n/);
  const all = (await ask('SW.RANGE - +')).match(/k\d+/g);
  assert.deepEqual(
    all,
    Array.from({ length: 1000 }, (_, i) => `k${1000 + i}`),
  );
  assert.deepEqual((await ask('SW.RANGE + - REV')).match(/k\d+/g), all?.toReversed());
  assert.equal(await ask('SW.REMRANGE (k1100 [k1700'), ':600\r\n');
  assert.equal(store.size, 400);
});

test('a page of SCAN ends early when keys are long, and the walk is whole', async (t) => {
  const store = freshStore(t, 'memory', {
    values: 'bytes',
    size: 256 * 1024 * 1024,
  }) as Store<Uint8Array>;
  const keys = Array.from({ length: 100 }, (_, i) => `${i}-${'x'.repeat(60_000)}`);
  for (const key of keys) store.set(key, '');
  const { server } = await serverFor(t, served(store));
  const found = new Set<string>();
  let [cursor, longest] = ['0', 0];
  do {
    const reply = await exchange(server, command(`SCAN ${cursor} COUNT 16000`));
    longest = Math.max(longest, reply.length);
    cursor = reply.split('\r\n')[2];
    for (const key of reply.match(/\d+-x+/g) ?? []) found.add(key);
  } while (cursor !== '0');
  assert.equal(found.size, keys.length);
  assert.ok(longest < 5_000_000, String(longest));
});
