import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { test } from 'node:test';
import { type EventName, isHeard, publish, ResizeNews } from '../diagnostics.ts';
import type { Task } from '../helpers/tests/support/tasks.ts';
import { openSync } from '../store/open.ts';
import { freshStore, freshUrl, keepOpen, type Scope, SMALL } from '../store/tests/support/pools.ts';
import { openAlone, startNodes } from '../store/tests/support/remote.ts';
import { RUNTIME } from '../store/tests/support/runtime.ts';

const TASKS = new URL('../helpers/tests/support/tasks.ts', import.meta.url);

interface Heard {
  name: string;
  message: Record<string, unknown>;
}

function listen(scope: Scope, ...names: EventName[]): Heard[] {
  const heard: Heard[] = [];
  for (const name of names) {
    const hear = (message: unknown) => {
      heard.push({ name, message: message as Heard['message'] });
    };
    subscribe(`stepwell:${name}`, hear);
    scope.after(() => {
      unsubscribe(`stepwell:${name}`, hear);
    });
  }
  return heard;
}

test('opening and closing a store is told, in memory and over a network', async (t) => {
  const heard = listen(t, 'open', 'close');
  const store = openSync('memory:', { ...SMALL, store: 'mine' });
  store.namespace('a').close();
  store.close();
  const { url } = await startNodes(t, 1);
  const remote = await openAlone(url, { store: 'theirs', maxClients: 16 });
  await remote.namespace('a').close();
  await remote.close();
  const told = heard.map(({ name, message }) => `${name} ${message.store}`);
  assert.deepEqual(told, ['open mine', 'close mine', 'open theirs', 'close theirs']);
  assert.equal(heard[0].message.url, 'memory:');
});

test('a death that is seen, and the recovery', async (t) => {
  const url = freshUrl(t, 'shm');
  const store = keepOpen(t, openSync(url, SMALL));
  const task: Task = { kind: 'hold', url };
  const child = fork(TASKS, [JSON.stringify(task)], { execArgv: [...RUNTIME], silent: true });
  t.after(() => {
    child.kill('SIGKILL');
  });
  await once(child, 'message');
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
  const heard = listen(t, 'death', 'recovery');
  // Who makes a store cleans up first.
  keepOpen(t, openSync(url, { store: 'another' }));
  assert.deepEqual(
    heard.map(({ name, message }) => [name, message.pid]),
    [
      ['death', child.pid],
      ['recovery', child.pid],
    ],
  );
  store.close();
});

test('a full pool', (t) => {
  const heard = listen(t, 'full', 'sweep');
  const store = freshStore(t, 'memory', { size: 2 ** 21, store: 'small' });
  assert.throws(() => {
    for (let i = 0; ; i++) store.set(`k${i}`, 'x'.repeat(4000));
  }, /SW_POOL_FULL|full/);
  assert.deepEqual(heard.at(-1), { name: 'full', message: { store: 'small', write: 'write' } });
  assert.ok(heard.some(({ name, message }) => name === 'sweep' && message.store === 'small'));
});

test('what an index did to grow is told by how much more it is', (t) => {
  const counters = { splits: 1, merges: 0 };
  const news = new ResizeNews('s', () => ({ ...counters }));
  counters.splits = 2;
  // Nobody listens: nothing is taken for told.
  news.look();
  const heard = listen(t, 'resize');
  counters.splits = 4;
  news.look();
  news.look();
  assert.deepEqual(
    heard.map(({ message }) => message),
    [{ store: 's', resizes: { splits: 3 } }],
  );
});

test('a message is not made when nobody listens', () => {
  assert.equal(isHeard('open'), false);
  publish('open', () => {
    throw new Error('made in vain');
  });
});
