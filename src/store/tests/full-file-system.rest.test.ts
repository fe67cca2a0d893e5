import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { checkSync, inspectSync, openSync } from '../open.ts';
import { NO_MOUNTS, smallFileSystem } from './support/file-systems.ts';
import { temporaryDirectory } from './support/pools.ts';
import { Child } from './support/processes/children.ts';
import { RUNTIME } from './support/runtime.ts';

const MIB = 2 ** 20;

for (const size of [undefined, 64 * MIB, 8 * 2 ** 30]) {
  test(`a full file system is SW_POOL_FULL and no bus error (size ${size})`, async (t) => {
    const directory = smallFileSystem(t, 8);
    if (directory === undefined) return t.skip(NO_MOUNTS);
    // In a process of its own, which a bus error would end.
    const child = new Child(t);
    const url = `file:${directory}/pool`;
    const outcome = await child.ask({ kind: 'fill', url, options: { size }, valueBytes: 1000 });
    const full = 'SW_POOL_FULL';
    assert.deepEqual(outcome, { code: full, lost: 0, same: true, other: full, some: true });
    assert.deepEqual(checkSync(url).problems, []);
    const late = await child.ask({
      kind: 'fill',
      url: `${url}2`,
      options: { size },
      valueBytes: 9,
    });
    const { some } = late as { some?: boolean };
    assert.ok(late === full || some === false, 'no room for another pool');
  });
}

test("a pool's default maximum is the size of a small file system", (t) => {
  const directory = smallFileSystem(t, 64);
  if (directory === undefined) return t.skip(NO_MOUNTS);
  const url = `file:${directory}/pool`;
  openSync(url).close();
  assert.equal(inspectSync(url).sizeMax, 64 * MIB);
});

/** As Docker's /dev/shm: with the bound that a pool has there by default, and with a larger one. */
for (const size of [undefined, 8 * 2 ** 30]) {
  test(`a full file system that is cleared takes values of other sizes (size ${size})`, async (t) => {
    const directory = smallFileSystem(t, 16);
    if (directory === undefined) return t.skip(NO_MOUNTS);
    const url = `file:${directory}/pool`;
    const child = new Child(t);
    for (const valueBytes of [1000, 5000, 200, 60_000]) {
      const stored = await child.ask({ kind: 'refill', url, options: { size }, valueBytes });
      assert.ok(Number(stored) * valueBytes > 8 * MIB, `${stored} values of ${valueBytes} bytes`);
    }
    assert.equal(await child.ask({ kind: 'close' }), 'closed');
    const later = await child.ask({ kind: 'refill', url, options: {}, valueBytes: 3000 });
    assert.ok(Number(later) * 3000 > 8 * MIB, `${later} values after reopening`);
    assert.equal(await child.ask({ kind: 'close' }), 'closed');
    assert.deepEqual(checkSync(url).problems, []);
  });
}

/** What happens to a pool in a process whose files may have so many blocks of 512 bytes. */
function underLimit(blocks: number, url: string, options: object): string {
  const library = new URL('../open.ts', import.meta.url).href;
  const script = `
    const { openSync } = await import('${library}');
    try {
      const store = openSync('${url}', ${JSON.stringify(options)});
      for (let i = 0; ; i++) store.set('key ' + i, 'v'.repeat(1000));
    } catch ({ code, message }) {
      console.log(code + ' ' + message);
    }`;
  const node = [...RUNTIME, '--input-type=module', '-e', script];
  const limited = `ulimit -f ${blocks}; exec "$0" "$@"`;
  return execFileSync('sh', ['-c', limited, process.execPath, ...node], { encoding: 'utf8' });
}

test("a limit on a file's size is SW_POOL_FULL, when a pool is made and when it grows", (t) => {
  const directory = temporaryDirectory(t);
  const why = /^SW_POOL_FULL .* limit on a file's size/;
  const blocks = (8 * MIB) / 512;
  assert.match(underLimit(blocks, `file:${directory}/large`, { size: 64 * MIB }), why);
  const growing = { size: 64 * MIB, regionSize: 2 * MIB };
  assert.match(underLimit(blocks, `file:${directory}/growing`, growing), why);
  assert.deepEqual(checkSync(`file:${directory}/growing`).problems, []);
});
