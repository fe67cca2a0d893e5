/** Pools in memory and on memory nodes, without anything of Linux: as on macOS. */
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { after, before, describe, it } from 'node:test';
import { INDEX_KINDS } from '../indexes/kinds.ts';
import type { IndexName } from '../store/api.ts';
import { check, checkSync, openSync } from '../store/open.ts';
import { throwsCode } from '../store/tests/support/codes.ts';
import { keepOpen, numbered, SMALL } from '../store/tests/support/pools.ts';
import { openAlone, startNodes } from '../store/tests/support/remote.ts';

/** File systems that only Linux has. */
const LINUX_ONLY = /^\/(proc|sys|dev)\//;

describe('a platform that is not Linux', () => {
  const platform = Object.getOwnPropertyDescriptor(process, 'platform') as PropertyDescriptor;
  const { readFileSync, readlinkSync, existsSync } = fs;

  before(() => {
    Object.defineProperty(process, 'platform', { ...platform, value: 'darwin' });
    const refusing = <F extends (path: never, ...rest: never[]) => unknown>(call: F) =>
      ((path, ...rest) => {
        assert.doesNotMatch(String(path), LINUX_ONLY);
        return call(path, ...rest);
      }) as F;
    Object.assign(fs, {
      readFileSync: refusing(readFileSync),
      readlinkSync: refusing(readlinkSync),
      existsSync: refusing(existsSync),
    });
    syncBuiltinESMExports();
  });

  after(() => {
    Object.defineProperty(process, 'platform', platform);
    Object.assign(fs, { readFileSync, readlinkSync, existsSync });
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

  it('files that are mapped are refused with a remedy', () => {
    throwsCode('SW_UNSUPPORTED', () => openSync('shm:elsewhere'));
    throwsCode('SW_UNSUPPORTED', () => openSync('file:/tmp/elsewhere'));
  });
});
