import assert from 'node:assert/strict';
import { closeSync, openSync as openFile, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { FileLocks, LOCK_TAKEN } from '../../../fabrics/shared/file-locks.ts';
import { loadLibc } from '../../../fabrics/shared/libc.ts';
import { startUcxNode, ucxMissing } from '../../../fabrics/ucx/tests/support/nodes.ts';
import type { Store } from '../../api.ts';
import { checkSync, createSync, inspectSync, openAloneSync, openSync } from '../../open.ts';
import { openRemote } from '../../remote/remote-store.ts';
import { startMemoryNode } from '../../servers/memory-node.ts';
import { rejectsCode, throwsCode } from '../../tests/support/codes.ts';
import { freshUrl, keepOpen, pathOf, temporaryDirectory } from '../../tests/support/pools.ts';
import { Child } from '../../tests/support/processes/children.ts';
import { NodeProcess, Writer, writerTask } from '../../tests/support/processes/remote-processes.ts';
import { GROWER_LOCK, grow, growSync } from '../grow.ts';

const MIB = 2 ** 20;
const SIZES = { size: 4 * MIB, regionSize: 2 * MIB, maxClients: 16 };
const VALUE = 'x'.repeat(3000);

/** Writes until the pool is full; how many records there are then. */
function fill(store: Store, from = 0): number {
  for (let i = from; ; i++) {
    try {
      store.set(`key ${i}`, VALUE);
    } catch (error) {
      assert.equal((error as { code: string }).code, 'SW_POOL_FULL');
      assert.match((error as Error).message, /stepwell grow/);
      return i;
    }
  }
}

for (const index of ['race', 'chime'] as const) {
  test(`${index}: clients that are attached use what the pool may hold now`, (t) => {
    const url = freshUrl(t, 'shm');
    const store = keepOpen(t, openSync(url, { ...SIZES, index }));
    const reader = keepOpen(t, openAloneSync(url));
    const before = fill(store);
    assert.equal(reader.get('key 0'), VALUE);
    assert.deepEqual(growSync(url, { size: 13 * MIB }), { before: 4 * MIB, sizeMax: 14 * MIB });
    const after = fill(store, before);
    assert.ok(after > 2.5 * before, `${before} records, then ${after}`);
    for (let i = 0; i < after; i++) assert.equal(reader.get(`key ${i}`), VALUE, `${i}`);
    assert.deepEqual(checkSync(url).problems, []);
    const { sizeMax, regions, chunks } = inspectSync(url);
    assert.deepEqual([sizeMax, regions, chunks.total], [14 * MIB, 7, 56]);
    // Tables of added regions are in use, too. CHIME keeps two chunks in reserve to merge leaves.
    assert.ok(chunks.used >= (index === 'chime' ? 54 : 56), `${chunks.used} chunks`);
    const later = keepOpen(t, openAloneSync(url));
    assert.equal(later.get(`key ${after - 1}`), VALUE);
  });
}

test('clients of stores that keep a chunk in reserve use what the pool may hold now', (t) => {
  const kinds = [
    { index: 'chime' },
    { index: 'race', maxRecords: 1_000_000, eviction: 'lru' },
  ] as const;
  for (const kind of kinds) {
    const url = freshUrl(t, 'shm');
    const store = keepOpen(t, openSync(url, { ...SIZES, size: 8 * MIB, ...kind }));
    const records = () => {
      for (let i = 0; i < 5000; i++) {
        try {
          store.set(`key ${i}`, VALUE);
        } catch (error) {
          assert.equal((error as { code: string }).code, 'SW_POOL_FULL');
          return i;
        }
      }
      return store.stats().bound?.records ?? 0;
    };
    const before = records();
    growSync(url, { size: 16 * MIB });
    const after = records();
    assert.ok(after > 1.7 * before, `${kind.index}: ${before} records, then ${after}`);
  }
});

test('values that take chunks in one piece find room in added regions', (t) => {
  const url = freshUrl(t, 'file');
  const store = keepOpen(t, openSync(url, SIZES));
  growSync(url, { size: 8 * MIB });
  const large = 'y'.repeat(1.2 * MIB);
  for (const key of ['a', 'b', 'c']) store.set(key, large);
  for (const key of ['a', 'b', 'c']) assert.equal(store.get(key), large);
  assert.deepEqual(checkSync(url).problems, []);
});

test('processes that were attached before write and read beyond the old maximum', async (t) => {
  const url = freshUrl(t, 'shm');
  const [writer, reader] = [new Child(t), new Child(t)];
  const options = { ...SIZES, index: 'race' as const };
  assert.equal(await reader.ask({ kind: 'open', url, options, at: 0, key: 'first' }), 'open');
  const order = { kind: 'refill', url, options, valueBytes: 3000 } as const;
  const before = (await writer.ask(order)) as number;
  growSync(url, { size: 16 * MIB });
  const after = (await writer.ask(order)) as number;
  assert.ok(after > 2.5 * before, `${before} records, then ${after}`);
  const store = keepOpen(t, openSync(url));
  // The writer has removed its records, and gives their memory back when it is idle.
  let last = -1;
  for (let tries = 0; last < before && tries < 200; tries++) {
    await setTimeout(20);
    last = fill(store) - 1;
  }
  assert.equal(await reader.ask({ kind: 'read', key: `key ${last}` }), VALUE);
});

test('clients of a memory node that lends the file have the room, too', async (t) => {
  const path = join(temporaryDirectory(t), 'pool');
  const words = ['--file', path, '--size', '4m', '--region-size', '2m'];
  const node = await NodeProcess.start(t, words);
  const url = `tcp://127.0.0.1:${node.port}`;
  const store = await openRemote(url, { maxClients: 16, timeoutMs: 5000 });
  const put = async () => {
    for (let i = 0; i < 20_000; i++) await store.set(`key ${i}`, VALUE);
  };
  await rejectsCode('SW_POOL_FULL', put);
  const writer = await Writer.start(t, writerTask(t, url, { timeoutMs: 5000 }));
  await writer.failure('SW_POOL_FULL');
  await rejectsCode('SW_UNSUPPORTED', () => grow(url, { size: 16 * MIB }));
  await grow(`file:${path}`, { size: 16 * MIB });
  await writer.progress(600);
  await writer.kill();
  for (let i = 0; i < 2500; i++) await store.set(`key ${i}`, VALUE);
  await writer.verify(store as never);
  const local = keepOpen(t, openSync(`file:${path}`));
  for (let i = 0; i < 2500; i += 100) assert.equal(local.get(`key ${i}`), VALUE);
  await store.close();
  await node.signal('SIGTERM');
  await node.restart();
  const again = await openRemote(url, { timeoutMs: 5000 });
  assert.equal(await again.get('key 2499'), VALUE, 'a node that starts again has all of it');
  await again.close();
});

const withoutUcx = ucxMissing();
test('clients over UCX reach what the file has by now', { skip: withoutUcx }, async (t) => {
  const file = join(temporaryDirectory(t), 'pool');
  const node = await startUcxNode('posix', { file, size: 4 * MIB, regionSize: 2 * MIB });
  t.after(() => node.stop());
  const url = `ucx://127.0.0.1:${node.port}`;
  const open = async () => {
    const store = await openRemote(url, { maxClients: 16, timeoutMs: 5000 });
    t.after(() => store.close());
    return store;
  };
  const [early, idle] = [await open(), await open()];
  await grow(`file:${file}`, { size: 8 * MIB });
  const large = 'y'.repeat(1.2 * MIB);
  for (const key of ['a', 'b', 'c']) await early.set(key, large);
  for (const store of [early, idle, await open()]) {
    const all = await Promise.all(['a', 'b', 'c'].map((key) => store.get(key)));
    assert.ok(all.every((value) => value === large));
  }
});

test('of two growers one waits for the other, and takes it for no memory node', (t) => {
  const url = freshUrl(t, 'file');
  createSync(url, SIZES);
  const reopen = () => openFile(pathOf(url), 'r+');
  const [fd, libc] = [reopen(), loadLibc()];
  assert.ok(libc.byteLocks);
  const locks = new FileLocks(libc.byteLocks, fd, reopen);
  try {
    assert.equal(locks.take(GROWER_LOCK), LOCK_TAKEN);
    assert.ok(libc.lock(fd));
    throwsCode('SW_POOL_BUSY', () => growSync(url, { size: 64 * MIB }));
  } finally {
    locks.close();
    closeSync(fd);
  }
  growSync(url, { size: 64 * MIB });
  assert.ok(statSync(pathOf(url)).size < 8 * MIB, 'nothing is taken ahead where no node lends it');
});

test('a memory node cannot lend more regions than its verbs can name', async (t) => {
  const file = join(temporaryDirectory(t), 'pool');
  const node = await startMemoryNode({ port: 0, file, size: 2 * MIB, regionSize: MIB });
  const store = await openRemote(`tcp://127.0.0.1:${node.port}`, { maxClients: 16 });
  await store.close();
  throwsCode('SW_INVALID_ARGUMENT', () => growSync(`file:${file}`, { size: 1024 * MIB }));
  await node.stop();
  growSync(`file:${file}`, { size: 1024 * MIB });
  await rejectsCode('SW_UNSUPPORTED', () => startMemoryNode({ port: 0, file }));
});

test('what cannot be', async (t) => {
  const url = freshUrl(t, 'shm');
  throwsCode('SW_POOL_NOT_FOUND', () => growSync(url, { size: MIB }));
  createSync(url, SIZES);
  for (const size of [MIB, 4 * MIB, 4096 * MIB, 0, 1.5, Number.NaN]) {
    throwsCode('SW_INVALID_ARGUMENT', () => growSync(url, { size }));
  }
  throwsCode('SW_UNSUPPORTED', () => growSync('memory:', { size: MIB }));
  throwsCode('SW_INVALID_ARGUMENT', () => growSync(url, {} as { size: number }));
});
