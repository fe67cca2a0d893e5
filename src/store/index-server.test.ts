import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { Store } from './api.ts';
import { checkPool } from './open.ts';
import { freshStore, numbered, type Scope } from './test-support/pools.ts';

const MAIN = fileURLToPath(new URL('../cli/main.ts', import.meta.url));
const ROUNDS = 3;

/** A server process, once it holds its lease. */
async function startServer(scope: Scope, url: string, role: string): Promise<ChildProcess> {
  const args = ['--import', 'tsx', MAIN, 'index-server', url, '--role', role];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  scope.after(() => {
    child.kill('SIGKILL');
  });
  let text = '';
  for await (const chunk of child.stdout) {
    text += chunk;
    if (text.includes('holds 1 lease')) return child;
  }
  throw new Error(`the server ended: ${text}`);
}

test('server processes are killed again and again: nothing is lost, scans go on', async (t) => {
  const store = freshStore(t, 'shm', { index: 'hstore', hstore: { log: 64 } }) as Store<string>;
  const keys = numbered('k', 200).sort();
  for (let round = 1; round <= ROUNDS; round++) {
    const hash = await startServer(t, store.url, 'hash');
    const skiplist = await startServer(t, store.url, 'skiplist');
    for (const key of keys) store.put(key, `${round}`);
    assert.deepEqual([...store.keys({})], keys);
    const victims = round % 2 === 0 ? [hash, skiplist] : [skiplist, hash];
    for (const victim of victims) {
      victim.kill('SIGKILL');
      // In the middle of the process's end, too.
      for (const key of keys.slice(0, 20)) store.increment(key);
      assert.equal([...store.scan({ limit: 150 })].length, 150);
    }
    for (const [i, key] of keys.entries()) {
      assert.equal(store.get(key), i < 20 ? `${round + 2}` : `${round}`);
    }
  }
  assert.deepEqual(checkPool(store.url).problems, []);
});
