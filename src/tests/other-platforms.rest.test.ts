/**
 * Pools in memory, in files and on memory nodes, without anything of Linux: as on macOS, which
 * nothing here is. Only the numbers of constants are Linux's.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { tmpdir } from 'node:os';
import { after, before, describe, it } from 'node:test';
import { Worker } from 'node:worker_threads';
import { loadKoffi } from '../fabrics/shared/libc.ts';
import { INDEX_KINDS } from '../indexes/kinds.ts';
import { currentThread, livenessOf } from '../pool/clients/thread-identity.ts';
import type { IndexName } from '../store/api.ts';
import { check, checkSync, inspectSync, openSync } from '../store/open.ts';
import { growSync } from '../store/pools/grow.ts';
import { listPools } from '../store/pools/list-pools.ts';
import { startMemoryNode } from '../store/servers/memory-node.ts';
import { rejectsCode, throwsCode } from '../store/tests/support/codes.ts';
import { freshUrl, keepOpen, numbered, pathOf, SMALL } from '../store/tests/support/pools.ts';
import { Child } from '../store/tests/support/processes/children.ts';
import { openAlone, startNodes } from '../store/tests/support/remote.ts';

/** Loads koffi for this system, and says that it is macOS. */
const AS_MACOS = new URL('./support/as-macos.ts', import.meta.url);

/** File systems that only Linux has. */
const LINUX_ONLY = /^\/(proc|sys|dev)\//;

describe('a platform that is not Linux', () => {
  const platform = Object.getOwnPropertyDescriptor(process, 'platform') as PropertyDescriptor;
  const names = [
    'readFileSync',
    'readlinkSync',
    'existsSync',
    'openSync',
    'statSync',
    'lstatSync',
    'readdirSync',
  ] as const;
  const real = Object.fromEntries(names.map((name) => [name, fs[name]]));
  // Loaded as what it is for, this system.
  const koffi = loadKoffi();
  const { load } = koffi;
  const symbols = new Set<string>();

  before(() => {
    koffi.load = (...words: unknown[]) => {
      const library = load(...words);
      return {
        func: (prototype: string) => {
          symbols.add(/(\w+)\(/.exec(prototype)?.[1] ?? prototype);
          return library.func(prototype);
        },
      };
    };
    Object.defineProperty(process, 'platform', { ...platform, value: 'darwin' });
    const refusing = <F extends (path: never, ...rest: never[]) => unknown>(call: F) =>
      ((path, ...rest) => {
        assert.doesNotMatch(String(path), LINUX_ONLY);
        return call(path, ...rest);
      }) as F;
    for (const name of names) Object.assign(fs, { [name]: refusing(fs[name] as never) });
    syncBuiltinESMExports();
  });

  after(() => {
    Object.defineProperty(process, 'platform', platform);
    koffi.load = load;
    Object.assign(fs, real);
    syncBuiltinESMExports();
  });

  for (const { manifest } of INDEX_KINDS) {
    const index = manifest.name as IndexName;
    // The lock of a thread that was ended would stay: nothing tells that it was.
    if (manifest.locks) {
      it(`${index} is refused in memory`, () => {
        throwsCode('SW_UNSUPPORTED', () => openSync('memory:', { ...SMALL, index }));
      });
      continue;
    }
    it(`${index} works in memory`, (t) => {
      const store = keepOpen(t, openSync('memory:', { ...SMALL, size: 64 * 2 ** 20, index }));
      const second = keepOpen(t, openSync(store.handle));
      for (const key of numbered('k', 500)) store.set(key, key);
      for (const key of numbered('k', 500)) assert.equal(second.get(key), key);
      assert.deepEqual(checkSync(store.handle).problems, []);
    });
  }

  it('memory nodes and their clients work', async (t) => {
    const { url } = await startNodes(t, 2, { bytes: 32 * 2 ** 20 });
    const stores = [await openAlone(url), await openAlone(url)];
    for (const key of numbered('k', 200)) await stores[0].set(key, key);
    for (const key of numbered('k', 200)) assert.equal(await stores[1].get(key), key);
    for (const store of stores) await store.close();
    assert.deepEqual((await check(url)).problems, []);
  });

  for (const index of ['race', 'chime'] as const) {
    it(`${index} works in a file that several processes map, and that grows`, async (t) => {
      const url = freshUrl(t, 'file');
      const options = { index, size: 4 * 2 ** 20, regionSize: 2 ** 20 };
      const store = keepOpen(t, openSync(url, { ...options, client: 'first' }));
      const child = new Child(t, false, AS_MACOS);
      const churned = {
        kind: 'churn',
        url,
        options: { index, client: 'child' },
        keys: 100,
      } as const;
      assert.equal(await child.ask(churned), 'churned');
      assert.equal(store.size, 50);
      const value = 'v'.repeat(20_000);
      for (const key of numbered('k', 20)) store.set(key, value);
      growSync(url, { size: 16 * 2 ** 20 });
      for (const key of numbered('l', 240)) store.set(key, value);
      const file = fs.statSync(pathOf(url));
      assert.ok(file.size > 4 * 2 ** 20 && file.blocks * 512 >= file.size, 'no page is missing');
      const named = () => inspectSync(url).clients.map(({ name }) => name);
      assert.ok(named().includes('child'));
      await child.signal('SIGKILL');
      store.close();
      const second = keepOpen(t, openSync(url, { index, client: 'second' }));
      assert.ok(!named().includes('child'), 'a client that was killed is gone');
      for (const key of numbered('l', 240)) assert.equal(second.get(key), value);
      assert.deepEqual(checkSync(url).problems, []);
    });
  }

  it('files use calls that POSIX has', () => {
    assert.deepEqual([...symbols].sort(), ['fcntl', 'flock', 'mmap', 'munmap']);
  });

  it('a process is told from one that has its number later', () => {
    const self = currentThread(true);
    assert.equal(livenessOf(self, self), 'alive');
    assert.equal(livenessOf({ ...self, startTime: self.startTime - 60 }, self), 'gone');
    assert.equal(livenessOf({ ...self, tid: 4_194_303 }, self), 'gone');
  });

  it('shm: is a file in the folder for temporary files', (t) => {
    const url = freshUrl(t, 'shm');
    keepOpen(t, openSync(url, SMALL)).set('k', 'v');
    assert.ok(pathOf(url).startsWith(tmpdir()));
    assert.ok(fs.statSync(pathOf(url)).isFile());
    assert.ok(listPools().some((pool) => pool.url === url));
  });

  for (const index of ['chime', 'hopscotch'] as const) {
    it(`${index} opens in a worker thread, and is told that the thread has ended`, async (t) => {
      const url = freshUrl(t, 'file');
      const store = keepOpen(t, openSync(url, { ...SMALL, index }));
      const program = `
        const { workerData, parentPort } = require('node:worker_threads');
        import(workerData.first).then(() => import(workerData.module)).then(({ openSync }) => {
          const store = openSync(workerData.url, { index: workerData.index, client: 'thread' });
          store.set('k', 'v');
          parentPort.postMessage('written');
          setInterval(() => store.get('k'), 1000);
        });
      `;
      const module = new URL('../store/open.ts', import.meta.url).href;
      const workerData = { url, index, first: AS_MACOS.href, module };
      const worker = new Worker(program, { eval: true, workerData });
      await once(worker, 'message');
      assert.equal(store.get('k'), 'v');
      const named = () => inspectSync(url).clients.map(({ name }) => name);
      assert.ok(named().includes('thread'));
      await worker.terminate();
      assert.ok(!named().includes('thread'));
    });
  }

  it('a system that maps nothing is told what works there', () => {
    Object.defineProperty(process, 'platform', { ...platform, value: 'sunos' });
    try {
      const open = () => openSync('shm:elsewhere');
      assert.throws(open, { code: 'SW_UNSUPPORTED', message: /use memory:, or tcp:\/\// });
      keepOpen({ after: (end) => end() }, openSync('memory:', SMALL));
    } finally {
      Object.defineProperty(process, 'platform', { ...platform, value: 'darwin' });
    }
  });

  it('what it has not is refused with a remedy', async () => {
    await rejectsCode('SW_UNSUPPORTED', () => startMemoryNode({ port: 0, file: '/tmp/elsewhere' }));
  });
});
