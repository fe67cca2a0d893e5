import assert from 'node:assert/strict';
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { openSync } from '../../store/open.ts';
import {
  freshUrl,
  keepOpen,
  type Scope,
  SMALL,
  temporaryDirectory,
} from '../../store/tests/support/pools.ts';
import { RUNTIME } from '../../store/tests/support/runtime.ts';
import { lease } from '../lease.ts';
import { getOrSet } from '../single-flight.ts';
import type { Task } from './support/tasks.ts';

const SCRIPT = new URL('./support/tasks.ts', import.meta.url);
/** Long enough for a machine that is busy; passing takes a moment. */
const WAIT_MS = 60_000;

function start(scope: Scope, task: Task): ChildProcess {
  const child = fork(SCRIPT, [JSON.stringify(task)], { execArgv: [...RUNTIME], silent: true });
  scope.after(() => {
    child.kill('SIGKILL');
  });
  return child;
}

async function message(child: ChildProcess): Promise<Record<string, unknown>> {
  const ended = once(child, 'exit').then(() => {
    throw new Error(`the child ended: ${child.stderr?.read()}`);
  });
  ended.catch(() => {});
  const [told] = await Promise.race([once(child, 'message'), ended]);
  return told;
}

async function kill(child: ChildProcess): Promise<void> {
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}

test('kill -9 of a lease holder: the next one need not wait for its time', async (t) => {
  const url = freshUrl(t, 'shm');
  const store = keepOpen(t, openSync(url, SMALL));
  let before = 0;
  for (let round = 0; round < 2; round++) {
    const child = start(t, { kind: 'hold', url });
    const { token } = await message(child);
    assert.ok(Number(token) > before);
    const waiting = lease(store, 'job', { ttlMs: 600_000, waitMs: WAIT_MS });
    await kill(child);
    const held = await waiting;
    assert.ok(held.token > Number(token));
    before = held.token;
    await held.release();
  }
});

test('kill -9 of a single-flight leader: one of those that wait loads', async (t) => {
  const url = freshUrl(t, 'shm');
  const store = keepOpen(t, openSync(url, SMALL));
  const log = join(temporaryDirectory(t), 'loads');
  writeFileSync(log, '');
  const leader = start(t, { kind: 'lead', url, log });
  await message(leader);
  let loads = 0;
  const load = () => `value ${++loads}`;
  const waiting = [1, 2, 3].map(() => getOrSet(store, 'k', load, { waitMs: WAIT_MS }));
  await kill(leader);
  assert.deepEqual(await Promise.all(waiting), ['value 1', 'value 1', 'value 1']);
  assert.equal(readFileSync(log, 'utf8').trim().split('\n').length, 1);
});

test('two processes never get more of a limiter than its limit', async (t) => {
  const url = freshUrl(t, 'shm');
  keepOpen(t, openSync(url, SMALL));
  const children = [1, 2].map(() => start(t, { kind: 'take', url, times: 600 }));
  const done = (await Promise.all(children.map(message))).map(
    ({ done }) => done as { inWindow: number; fromBucket: number },
  );
  assert.equal(done[0].inWindow + done[1].inWindow, 500);
  assert.equal(done[0].fromBucket + done[1].fromBucket, 300);
});

test('what a lease guards loses no update, though a process is killed', async (t) => {
  const url = freshUrl(t, 'shm');
  const store = keepOpen(t, openSync(url, SMALL));
  const log = join(temporaryDirectory(t), 'tokens');
  writeFileSync(log, '');
  const doomed = start(t, { kind: 'hold', url });
  const children = [1, 2].map(() => start(t, { kind: 'critical', url, log, times: 25 }));
  const ends = children.map(message);
  await message(doomed);
  await kill(doomed);
  await Promise.all(ends);
  assert.equal(store.get('count'), '50');
  const tokens = readFileSync(log, 'utf8').trim().split('\n').map(Number);
  assert.deepEqual(
    tokens,
    [...tokens].sort((a, b) => a - b),
  );
  assert.equal(new Set(tokens).size, 50);
});
