/** The commands on real pools that list and drop stores, each in a process of its own. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { listPools } from '../store/list-pools.ts';
import { openSync } from '../store/open.ts';
import { freshUrl, keepOpen, pathOf, SMALL } from '../store/test-support/pools.ts';

const MAIN = fileURLToPath(new URL('./main.ts', import.meta.url));

function run(...words: string[]) {
  const given = ['--import', 'tsx', MAIN, ...words];
  const { status, stdout, stderr } = spawnSync(process.execPath, given, { encoding: 'utf8' });
  return { status, stdout, stderr };
}

test('stores, pools and drop', (t) => {
  const url = freshUrl(t, 'shm');
  const users = keepOpen(t, openSync(url, { ...SMALL, store: 'users', index: 'chime' }));
  users.put('k', 'v');
  assert.match(run('stores', url).stdout, /NAME +INDEX +STATE[\s\S]*\nusers +chime +ready +1 /);
  const busy = run('drop', url, 'users');
  assert.deepEqual([busy.status, busy.stdout], [3, '']);
  assert.match(busy.stderr, /\(test\).*--force\) \(SW_POOL_BUSY\)/);
  const forced = run('drop', url, 'users', '--force');
  assert.equal(forced.status, 0, forced.stderr);
  assert.match(forced.stdout, /^dropped users of shm:\S+: .*let go of it: process \d+ \(test\)\n$/);
  assert.equal(run('drop', url, 'users').status, 3);
});

test('pools are listed, foreign files are not', (t) => {
  const url = freshUrl(t, 'shm');
  const foreign = `${pathOf(url)}-foreign`;
  writeFileSync(foreign, 'no pool');
  mkdirSync(`${foreign}-directory`);
  t.after(() => rmSync(foreign));
  t.after(() => rmSync(`${foreign}-directory`, { recursive: true }));
  keepOpen(t, openSync(url, { ...SMALL, store: 'users' }));
  const mine = listPools().filter((pool) => pool.url.startsWith(url));
  assert.deepEqual(
    mine.map((pool) => [pool.url, pool.clients, pool.clientsMax, pool.stores, pool.problem]),
    [[url, 1, 16, ['users'], undefined]],
  );
  const { status, stdout } = run('pools');
  assert.equal(status, 0);
  const lines = stdout.split('\n').filter((line) => line.startsWith(url));
  assert.equal(lines.length, 1);
  assert.match(lines[0], / 1 of 16 +users$/);
});
