import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { currentThread, endProcess, livenessOf, type ThreadIdentity } from '../thread-identity.ts';

const skip = existsSync('/proc/thread-self') ? false : 'needs /proc';
const self = currentThread();

/** State and start time of a process as the system tells them. */
function statOf(pid: number): { state: string; startTime: number } {
  const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return { state: fields[0], startTime: Number(fields[19]) };
}

test('this thread is alive', { skip }, () => {
  assert.equal(self.pid, process.pid);
  assert.ok(self.tid > 0);
  assert.equal(self.startTime, statOf(process.pid).startTime);
  assert.deepEqual(currentThread(), self);
  assert.equal(livenessOf(self, self), 'alive');
  assert.equal(livenessOf({ ...self, startTime: 0 }, self), 'alive', 'a start time not known');
});

test('a re-used pid, another boot, another namespace, another thread', { skip }, () => {
  assert.equal(livenessOf({ ...self, startTime: self.startTime + 1 }, self), 'gone');
  assert.equal(livenessOf({ ...self, boot: self.boot ^ 1 }, self), 'gone');
  assert.equal(livenessOf({ ...self, namespace: self.namespace ^ 1 }, self), 'unknown');
  assert.equal(livenessOf({ ...self, tid: 4_194_000 }, self), 'gone');
});

test('a child is alive, gone as a zombie, and gone afterwards', { skip }, async () => {
  const child = spawn('sleep', ['60'], { stdio: 'ignore' });
  const pid = child.pid ?? 0;
  const exited = once(child, 'exit');
  const { startTime } = statOf(pid);
  const other: ThreadIdentity = { ...self, pid, tid: pid, startTime };
  assert.equal(livenessOf(other, self), 'alive');
  child.kill('SIGKILL');
  // The event loop stands still meanwhile, so nobody reaps the child.
  const cell = new Int32Array(new SharedArrayBuffer(4));
  for (let i = 0; i < 2000 && statOf(pid).state !== 'Z'; i++) Atomics.wait(cell, 0, 0, 5);
  assert.equal(statOf(pid).state, 'Z');
  assert.equal(livenessOf(other, self), 'gone');
  await exited;
  assert.equal(livenessOf(other, self), 'gone');
});

test('without /proc only the process can be asked for', () => {
  const poor = { pid: process.pid, tid: 0, startTime: 0, boot: 0, namespace: 0 };
  assert.equal(livenessOf(poor, poor), 'unknown', 'the thread may have ended');
  assert.equal(livenessOf({ ...poor, pid: 1 }, poor), 'unknown', 'also of another user');
  assert.equal(livenessOf({ ...poor, pid: 4_194_303 }, poor), 'gone');
});

test('a row that names one process and a thread of another one kills neither', { skip }, (t) => {
  const { mock } = t.mock.method(process, 'kill', () => true);
  const killed = () => mock.calls.filter(({ arguments: [, signal] }) => signal === 'SIGKILL');
  const { startTime } = statOf(process.ppid);
  const parent = { ...self, pid: process.ppid, tid: process.ppid, startTime };
  for (const pid of [0, 1, 4_194_303]) {
    if (pid === parent.pid) continue;
    assert.equal(endProcess({ ...parent, pid }, self), false);
  }
  assert.equal(killed().length, 0);
  assert.equal(endProcess(parent, self), true, 'which is only counted here');
  assert.deepEqual(killed()[0].arguments, [process.ppid, 'SIGKILL']);
});
