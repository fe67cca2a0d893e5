/**
 * Tests a gateway with Redis clients that the project does not depend on. It deletes all keys. To
 * run: in a new folder `npm i redis connect-redis express-session keyv @keyv/redis`, copy this file
 * there, and run `node node-clients.mjs redis://127.0.0.1:6380`.
 */
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import KeyvRedis from '@keyv/redis';
import { RedisStore } from 'connect-redis';
import Keyv from 'keyv';
import { createClient } from 'redis';

const url = process.argv[2];
const client = createClient({ url });
await client.connect();
await client.flushDb();
await sessions();
await keyv();
await transactionsAndMessages();
await client.close();

async function sessions() {
  const store = new RedisStore({ client, prefix: 'sess:', ttl: 100 });
  const call = (name, ...words) => promisify(store[name].bind(store))(...words);
  await call('set', 'a', { cookie: {}, user: 1 });
  assert.equal((await call('get', 'a')).user, 1);
  await call('touch', 'a', { cookie: {} });
  await call('set', 'b', { cookie: {}, user: 2 });
  assert.equal(await call('length'), 2);
  assert.deepEqual((await call('ids')).sort(), ['a', 'b']);
  assert.equal((await call('all')).length, 2);
  assert.equal(await client.ttl('sess:a'), 100);
  await call('destroy', 'a');
  assert.equal((await call('get', 'a')) ?? null, null);
  await call('clear');
  assert.equal(await call('length'), 0);
  console.log('connect-redis: ok');
}

async function keyv() {
  const store = new Keyv(new KeyvRedis(url), { namespace: 'ns' });
  store.on('error', (error) => {
    throw error;
  });
  await store.set('x', { a: 1 }, 100_000);
  assert.deepEqual(await store.get('x'), { a: 1 });
  await store.set('short', 1, 30);
  await sleep(60);
  assert.equal(await store.get('short'), undefined);
  assert.equal(await store.has('x'), true);
  await store.set('y', 2);
  assert.deepEqual(await store.getMany(['x', 'y', 'z']), [{ a: 1 }, 2, undefined]);
  await store.setMany([
    { key: 'm1', value: 1 },
    { key: 'm2', value: 2, ttl: 10_000 },
  ]);
  const names = [];
  for await (const [name] of store.iterator()) names.push(name);
  assert.deepEqual(names.sort(), ['m1', 'm2', 'x', 'y']);
  assert.equal(await store.deleteMany(['m1', 'm2']), true);
  assert.equal(await store.delete('x'), true);
  await store.clear();
  assert.equal(await store.get('y'), undefined);
  await store.disconnect();
  console.log('@keyv/redis: ok');
}

async function transactionsAndMessages() {
  const subscriber = client.duplicate();
  await subscriber.connect();
  const received = deferred();
  await subscriber.subscribe('news', received.resolve);
  await client.publish('news', 'hello');
  assert.equal(await received.promise, 'hello');
  const expiration = { type: 'EX', value: 10 };
  const [, sum] = await client.multi().set('t', '1', { expiration }).incr('t').exec();
  assert.equal(sum, 2);
  await client.watch('t');
  await client.set('t', '5');
  await assert.rejects(client.multi().incr('t').exec(), /watched/i);
  assert.equal((await client.clientList()).length, 2);
  await subscriber.close();
  console.log('node-redis: ok');
}

function deferred() {
  let resolve;
  const promise = new Promise((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}
