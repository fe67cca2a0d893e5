import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  closeSync,
  fstatSync,
  mkdtempSync,
  openSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { type ByteLocks, FileLocks, LOCK_HELD, LOCK_REFUSED, LOCK_TAKEN } from '../file-locks.ts';
import { loadLibc } from '../libc.ts';

function newFile(t: TestContext): string {
  const directory = mkdtempSync(join(tmpdir(), 'stepwell-test-'));
  t.after(() => rmSync(directory, { recursive: true }));
  const path = join(directory, 'pool');
  writeFileSync(path, 'pool');
  return path;
}

function byteLocks(): ByteLocks {
  const { byteLocks: calls } = loadLibc();
  assert.ok(calls);
  return calls;
}

function locksOf(t: TestContext, path: string): FileLocks {
  const fd = openSync(path, 'r+');
  const locks = new FileLocks(byteLocks(), fd, () => openSync(path, 'r+'));
  t.after(() => {
    locks.close();
    closeSync(fd);
  });
  return locks;
}

test('a lock is held by one, seen by all, and ends with the descriptor', (t) => {
  const path = newFile(t);
  const [one, other, looker] = [locksOf(t, path), locksOf(t, path), locksOf(t, path)];
  assert.equal(looker.isTaken(4095), false);
  assert.equal(one.take(4095), LOCK_TAKEN);
  for (const each of [one, other, looker]) assert.equal(each.isTaken(4095), true);
  assert.equal(other.take(4095), LOCK_HELD);
  assert.equal(other.take(4094), LOCK_TAKEN);
  other.release(4095);
  assert.equal(looker.isTaken(4095), true, 'it is not the other one’s to release');
  one.release(4095);
  assert.deepEqual([looker.isTaken(4095), looker.isTaken(4094)], [false, true]);
  other.close();
  assert.equal(looker.isTaken(4094), false);
  assert.equal(fstatSync(openSync(path, 'r')).size, 4, 'the file is no longer for it');
});

test('another program that a process runs does not inherit its locks', (t) => {
  const path = newFile(t);
  const locks = locksOf(t, path);
  assert.equal(locks.take(1), LOCK_TAKEN);
  const { stdout } = spawnSync('ls', ['-l', '/proc/self/fd'], { encoding: 'utf8' });
  assert.ok(!stdout.includes(path), stdout);
});

test('a file that took the place of the mapped one is not locked', (t) => {
  const path = newFile(t);
  const locks = locksOf(t, path);
  writeFileSync(`${path}.new`, 'another');
  renameSync(`${path}.new`, path);
  assert.throws(() => locks.take(1), { code: 'SW_POOL_NOT_FOUND' });
});

test('where the system fails nothing is taken, and nothing is free', (t) => {
  const path = newFile(t);
  const fd = openSync(path, 'r+');
  const errors = { lockByte: () => 22, isByteLocked: byteLocks().isByteLocked };
  const locks = new FileLocks(errors, fd, () => openSync(path, 'r+'));
  assert.equal(locks.take(1), LOCK_REFUSED);
  closeSync(fd);
  assert.equal(locks.isTaken(1), true, 'the descriptor is none any more');
  locks.close();
});
