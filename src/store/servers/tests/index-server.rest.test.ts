import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { Store } from '../../api.ts';
import { check, checkSync, open } from '../../open.ts';
import { rejectsCode } from '../../tests/support/codes.ts';
import { endAfter, freshStore, numbered, temporaryDirectory } from '../../tests/support/pools.ts';
import { ServerProcess, startServer } from '../../tests/support/processes/index-servers.ts';
import { openIndexServer, serveIndex } from '../index-server.ts';
import { startMemoryNode } from '../memory-node.ts';

const ROUNDS = 2;

test('server processes are killed again and again: nothing is lost, scans go on', async (t) => {
  const store = freshStore(t, 'shm', { index: { kind: 'hstore', log: 64 } }) as Store<string>;
  const keys = numbered('k', 200).sort();
  for (let round = 1; round <= ROUNDS; round++) {
    const hash = await startServer(t, store.url, 'hash');
    const skiplist = await startServer(t, store.url, 'skiplist');
    for (const key of keys) store.set(key, `${round}`);
    assert.deepEqual([...store.keys({})], keys);
    const victims = round % 2 === 0 ? [hash, skiplist] : [skiplist, hash];
    for (const victim of victims) {
      victim.child.kill('SIGKILL');
      // In the middle of the process's end, too.
      for (const key of keys.slice(0, 20)) store.increment(key);
      assert.equal([...store.scan({ limit: 150 })].length, 150);
    }
    for (const [i, key] of keys.entries()) {
      assert.equal(store.get(key), i < 20 ? `${round + 2}` : `${round}`);
    }
  }
  assert.deepEqual(checkSync(store.url).problems, []);
});

test('a server process that stands still is ended by whoever waits for it', async (t) => {
  const store = freshStore(t, 'shm', { index: 'hstore' }) as Store<string>;
  store.set('a', '1');
  const hash = await startServer(t, store.url, 'hash');
  const skiplist = await startServer(t, store.url, 'skiplist');
  store.set('b', '1');
  hash.child.kill('SIGSTOP');
  store.set('c', '1');
  assert.equal(await hash.ended(), 'SIGKILL');
  assert.deepEqual([...store.keys({})], ['a', 'b', 'c']);
  skiplist.child.kill('SIGSTOP');
  assert.deepEqual([...store.keys({})], ['a', 'b', 'c']);
  assert.equal(await skiplist.ended(), 'SIGKILL');
  assert.deepEqual(checkSync(store.url).problems, []);
});

test('of several pairs each has servers of its own', async (t) => {
  const store = freshStore(t, 'shm', { index: { kind: 'hstore', pairs: 3 } }) as Store<string>;
  const others = await startServer(t, store.url, 'both', ['--pairs', '1,3']);
  const second = await startServer(t, store.url, 'both', ['--pairs', '2']);
  // Both have leases at once: neither stands by for the other.
  await others.says('holds 4 leases');
  await second.says('holds 2 leases');
  const keys = numbered('k', 100).sort();
  for (const key of keys) store.set(key, 'v');
  assert.deepEqual([...store.keys({})], keys);
  await others.kill();
  for (const key of keys) store.increment(`n${key}`);
  assert.equal(store.count({ gte: 'n' }), 100);
  for (const pairs of [[0], [4], [1.5], [Number.NaN]]) {
    const opening = () => openIndexServer(store.url, { role: 'hash', pairs });
    await rejectsCode('SW_INVALID_ARGUMENT', opening, String(pairs));
  }
});

test('a server by the file of a memory node answers clients that come over TCP', async (t) => {
  const file = join(temporaryDirectory(t), 'memory');
  const node = await startMemoryNode({ port: 0, size: 64 * 2 ** 20, file });
  t.after(() => node.stop());
  const url = `tcp://127.0.0.1:${node.port}`;
  const store = await open<string>(`${url}/s`, { index: 'hstore' });
  endAfter(t, store, (opened) => opened.close());
  const keys = numbered('k', 200).sort();
  const increment = () => Promise.all(keys.map((key) => store.increment(key)));
  await increment();
  const first = await startServer(t, `file:${file}`, 'both', ['--store', 's']);
  const options = ['--role', 'both', '--store', 's'];
  const second = await new ServerProcess(t, `file:${file}`, options).says('standing by');
  const counting = increment();
  await first.kill();
  await counting;
  await second.says('holds');
  await increment();
  const found: string[] = [];
  for await (const key of store.keys({})) found.push(String(key));
  assert.deepEqual(found, keys);
  for (const key of keys) assert.equal(await store.get(key), '3');
  // No server is left that maps the file: the client over TCP learns of its death and goes on.
  await second.kill();
  await increment();
  assert.deepEqual((await check(url)).problems, []);
});

/** How often a server sleeps in so many rounds. */
async function sleeps(t: TestContext, rounds: number, answers: (round: number) => number) {
  const timeouts = t.mock.method(globalThis, 'setTimeout');
  const ending = new AbortController();
  let done = 0;
  const round = () => {
    if (++done === rounds) ending.abort();
    return { held: 1, answered: answers(done) };
  };
  await serveIndex({ round, close: async () => {} }, ending.signal);
  timeouts.mock.restore();
  return timeouts.mock.callCount();
}

test('a server sleeps when nothing has come for long, and not while requests come', async (t) => {
  // After each round with an answer comes one that finds nothing.
  assert.equal(await sleeps(t, 8000, (round) => round % 2), 0);
  assert.equal(await sleeps(t, 2010, () => 0), 11);
});
