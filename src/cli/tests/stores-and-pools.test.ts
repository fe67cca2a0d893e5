/** The commands on real pools that list and drop stores, each in a process of its own. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import * as library from '../../store/open.ts';
import { createSync, openSync } from '../../store/open.ts';
import { listPools } from '../../store/pools/list-pools.ts';
import { freshUrl, keepOpen, pathOf, SMALL } from '../../store/tests/support/pools.ts';
import { RUNTIME } from '../../store/tests/support/runtime.ts';
import { stepwell } from './support/terminal.ts';

const MAIN = fileURLToPath(new URL('../main.ts', import.meta.url));

function run(...words: string[]) {
  const given = [...RUNTIME, MAIN, ...words];
  const { status, stdout, stderr } = spawnSync(process.execPath, given, { encoding: 'utf8' });
  return { status, stdout, stderr };
}

test('stores, pools and drop', (t) => {
  const url = freshUrl(t, 'shm');
  const users = keepOpen(t, openSync(url, { ...SMALL, store: 'users', index: 'chime' }));
  users.set('k', 'v');
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

/** The command in this process, on real pools. */
async function outputOf(...words: string[]): Promise<string> {
  const setting = { library: async () => library, listPools: async () => listPools };
  const { code, out, err } = await stepwell(words, setting);
  assert.deepEqual([code, err], [0, '']);
  return out;
}

test('stores and pools are JSON for programs', async (t) => {
  const url = freshUrl(t, 'shm');
  keepOpen(t, openSync(url, { ...SMALL, store: 'users', index: 'chime' })).set('k', 'v');
  keepOpen(t, openSync(url, { store: 'ü "hits"' }));
  const stores: Record<string, unknown>[] = JSON.parse(await outputOf('stores', url, '--json'));
  assert.deepEqual(
    stores.map(({ bytes, ...told }) => ({ ...told, hasMemory: Number(bytes) > 0 })),
    [
      { name: 'users', index: 'chime', state: 'ready', records: 1, hasMemory: true },
      { name: 'ü "hits"', index: 'race', state: 'ready', records: 0, hasMemory: true },
    ],
  );
  const pools: Record<string, unknown>[] = JSON.parse(await outputOf('pools', '--json'));
  const { bytes, ...told } = pools.find((pool) => pool.url === url) ?? {};
  assert.ok(Number(bytes) > 0);
  assert.deepEqual(told, {
    url,
    path: pathOf(url),
    sizeMax: SMALL.size,
    clients: 1,
    clientsMax: SMALL.maxClients,
    stores: ['users', 'ü "hits"'],
  });
});

test('a list of nothing says so, and is an empty list for programs', async (t) => {
  const url = freshUrl(t, 'shm');
  createSync(url, SMALL);
  assert.equal(await outputOf('stores', url), 'no stores\n');
  assert.equal(await outputOf('stores', url, '--json'), '[]\n');
  const none = { listPools: async () => () => [] };
  assert.equal((await stepwell(['pools'], none)).out, 'no pools\n');
  assert.equal((await stepwell(['pools', '--json'], none)).out, '[]\n');
});
