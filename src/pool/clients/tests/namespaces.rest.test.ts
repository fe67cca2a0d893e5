/** Clients in pid namespaces of their own, as those of containers are, and clients over TCP. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { OpenOptions, Store } from '../../../store/api.ts';
import { attach, checkSync, inspect, open, openSync } from '../../../store/open.ts';
import { startMemoryNode } from '../../../store/servers/memory-node.ts';
import { throwsCode } from '../../../store/tests/support/codes.ts';
import { freshUrl, keepOpen, pathOf } from '../../../store/tests/support/pools.ts';
import { Child, noPidNamespaces } from '../../../store/tests/support/processes/children.ts';
import {
  NodeProcess,
  Writer,
  writerTask,
} from '../../../store/tests/support/processes/remote-processes.ts';
import { SUPERBLOCK } from '../../layout.ts';
import { HELD, HolderWord, INHERITED, TAKEN } from '../holder-word.ts';

const MIB = 2 ** 20;
const RACE: OpenOptions = {
  size: 6 * MIB,
  maxClients: 8,
  index: { kind: 'race', groups: 8, maxDepth: 8 },
};
const HSTORE = { kind: 'hstore', buckets: 2 ** 14, rows: 64, log: 64 } as const;
const skip = noPidNamespaces();

/** Clients beside the one that looks, by whether they live. */
async function others(url: string): Promise<boolean[]> {
  const { clients } = await inspect(url);
  return clients.filter(({ self }) => !self).map(({ alive }) => alive);
}

/** Tries to take the catalog's lock and gives it back; by a client that has joined before. */
function catalogLock(t: TestContext, url: string): () => number {
  const { pool } = attach(url, { create: false }).client;
  t.after(() => pool.close());
  const word = new HolderWord(pool.membership, SUPERBLOCK.catalogLock);
  return () => {
    const outcome = pool.run(word.take());
    if (outcome !== HELD) pool.run(word.leave());
    return outcome;
  };
}

/** Fills the store, and returns how many records it took. */
function fill(store: Store): number {
  let stored = 0;
  throwsCode('SW_POOL_FULL', () => {
    for (; ; stored++) store.set(`key ${stored}`, 'v'.repeat(1000));
  });
  return stored;
}

const HOLD = { kind: 'hold', options: { store: 'new', index: HSTORE }, chunks: 3 } as const;

test('a lock holder that was killed in another pid namespace is followed', { skip }, async (t) => {
  const url = freshUrl(t, 'file');
  const store = keepOpen(t, openSync(url, RACE));
  const takeLock = catalogLock(t, url);
  const child = new Child(t, true);
  const churn = { kind: 'churn', url, options: { store: 'default' }, keys: 2000 } as const;
  assert.equal(await child.ask(churn), 'churned');
  assert.equal(await child.ask({ ...HOLD, url }), 'holding');
  assert.equal(takeLock(), HELD);
  await child.signal('SIGKILL');
  assert.equal(takeLock(), INHERITED);
  assert.equal(takeLock(), TAKEN);
  // A client that joins cleans up.
  assert.deepEqual(await others(url), [true, true]);
  store.clear();
  const stored = fill(store);
  const { problems, unfinished } = checkSync(url);
  assert.deepEqual([problems, unfinished], [[], []]);
  const fresh = fill(keepOpen(t, openSync(freshUrl(t, 'file'), RACE)));
  assert.ok(stored >= 0.9 * fresh, `${stored} records, of ${fresh} in a fresh pool`);
});

test('a lock holder that was stopped in another pid namespace is waited for', {
  skip,
}, async (t) => {
  const url = freshUrl(t, 'file');
  keepOpen(t, openSync(url, RACE));
  const takeLock = catalogLock(t, url);
  const child = new Child(t, true);
  assert.equal(await child.ask({ ...HOLD, url }), 'holding');
  await child.signal('SIGSTOP');
  assert.equal(takeLock(), HELD);
  assert.deepEqual(await others(url), [true, true, true]);
  await child.signal('SIGCONT');
  assert.equal(await child.ask({ kind: 'close' }), 'closed');
  assert.equal(takeLock(), HELD);
  await child.signal('SIGKILL');
  assert.equal(takeLock(), INHERITED);
});

test('a thread that was terminated in another pid namespace is gone', { skip }, async (t) => {
  const url = freshUrl(t, 'shm');
  keepOpen(t, openSync(url, RACE));
  const child = new Child(t, true);
  assert.equal(await child.ask({ kind: 'terminate', url, options: {} }), 'terminated');
  assert.deepEqual(await others(url), [true]);
  assert.equal(await child.ask({ kind: 'close' }), 'closed', 'its process lives');
});

/** A memory node in this process, and the file that it lends. */
async function lentFile(t: TestContext) {
  const file = freshUrl(t, 'file');
  const node = await startMemoryNode({
    port: 0,
    size: 16 * MIB,
    file: pathOf(file),
    leaseMs: 120_000,
  });
  t.after(() => node.stop());
  return { file, url: `tcp://127.0.0.1:${node.port}` };
}

test('clients over a network learn of local ones that they are gone', { skip }, async (t) => {
  const { file, url } = await lentFile(t);
  const store = await open(url, { index: { kind: 'race', groups: 8, maxDepth: 8 } });
  t.after(() => store.close());
  const child = new Child(t, true);
  assert.equal(await child.ask({ ...HOLD, url: file }), 'holding');
  await child.signal('SIGSTOP');
  assert.deepEqual(await others(url), [true, true]);
  await child.signal('SIGKILL');
  const late = await open(url, { store: 'other', client: 'late' });
  t.after(() => late.close());
  assert.deepEqual(await others(url), [true, true]);
  assert.deepEqual(await others(file), [true, true]);
});

test('local clients learn of those over a network that they are gone', async (t) => {
  const file = freshUrl(t, 'file');
  // A busy machine may keep a writer silent for long.
  const words = ['--size', '16m', '--file', pathOf(file), '--lease', '120'];
  const node = await NodeProcess.start(t, words);
  const url = `tcp://127.0.0.1:${node.port}`;
  const options: OpenOptions = { index: { kind: 'race', groups: 8, maxDepth: 8 } };
  const first = await Writer.start(t, writerTask(t, url, options, 'first'));
  const second = await Writer.start(t, writerTask(t, url, options, 'second'));
  await Promise.all([first.progress(50), second.progress(50)]);
  const store = keepOpen(t, openSync(file, { create: false }));
  assert.deepEqual(await others(file), [true, true, true]);
  first.child.kill('SIGSTOP');
  assert.deepEqual(await others(file), [true, true, true]);
  await first.kill();
  // The node hears of it when the connection breaks.
  for (let looks = 0; (await others(file)).length > 2 && looks < 500; looks++) {
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  assert.deepEqual(await others(file), [true, true]);
  await node.signal('SIGSTOP');
  assert.deepEqual(await others(file), [true, true]);
  await node.signal('SIGKILL');
  assert.deepEqual(await others(file), [true]);
  await second.kill();
  await first.verify(store.async);
  await second.verify(store.async);
  assert.deepEqual(checkSync(file).problems, []);
});
