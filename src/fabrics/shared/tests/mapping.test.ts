import assert from 'node:assert/strict';
import { once } from 'node:events';
import { closeSync, ftruncateSync, openSync as openFile, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { openSync } from '../../../store/open.ts';
import { freshUrl, keepOpen, SMALL } from '../../../store/tests/support/pools.ts';
import { startThread } from '../../../store/tests/support/processes/children.ts';
import { loadKoffi, loadLibc } from '../libc.ts';
import { windowsCalls } from '../windows.ts';

const MIB = 2 ** 20;
const GIB = 2 ** 30;
const RLIMIT_AS = 9;
const skip = process.platform === 'linux' ? false : 'needs /proc';

/** A file without memory of its own. */
function newFile(t: TestContext, bytes: number): number {
  const path = join(tmpdir(), `stepwell-test-${process.pid}-${Date.now()}`);
  const fd = openFile(path, 'w+');
  rmSync(path);
  t.after(() => closeSync(fd));
  ftruncateSync(fd, bytes);
  return fd;
}

function addressBytes(): number {
  const [, kib] = /^VmSize:\s+(\d+)/m.exec(readFileSync('/proc/self/status', 'utf8')) ?? [];
  return Number(kib) * 1024;
}

function collector(): () => void {
  setFlagsFromString('--expose-gc');
  return runInNewContext('gc');
}

/** Maps the file, writes to it, and closes it. */
function mapOnce(fd: number, bytes: number, value: number): Uint8Array {
  const libc = loadLibc();
  const mapping = libc.mapShared(fd, 0, bytes);
  const view = new Uint8Array(mapping.memory);
  view[0] = value;
  libc.release(mapping);
  return view;
}

test('addresses of closed mappings are given back when no view is left', { skip }, async (t) => {
  const fd = newFile(t, GIB);
  const gc = collector();
  const stale = mapOnce(fd, GIB, 7);
  const before = addressBytes();
  for (let i = 0; i < 32; i++) {
    mapOnce(fd, GIB, 9);
    // Views of this turn are not collected before it ends.
    await setImmediate();
    gc();
  }
  assert.ok(addressBytes() < before + 4 * GIB, `${(addressBytes() - before) / GIB} GiB more`);
  assert.deepEqual([stale.length, stale[0]], [GIB, 0]);
});

test('a turn that opens and closes again and again has addresses enough', { skip }, (t) => {
  const fd = newFile(t, GIB);
  const koffi = loadKoffi();
  const libc = koffi.load(null);
  const limit = (call: string, value: BigUint64Array): void => {
    assert.equal(libc.func(`int ${call}(int, void *)`)(RLIMIT_AS, value), 0);
  };
  const old = new BigUint64Array(2);
  limit('getrlimit', old);
  limit('setrlimit', BigUint64Array.of(BigInt(addressBytes() + 8 * GIB), old[1]));
  t.after(() => limit('setrlimit', old));
  const views = Array.from({ length: 32 }, () => mapOnce(fd, GIB, 9));
  const mapping = loadLibc().mapShared(fd, 0, GIB);
  new Uint8Array(mapping.memory).fill(5, 0, MIB);
  // Without addresses of its own, or of zeros.
  for (const view of views) assert.ok(view.length === 0 || view[0] === 0);
  assert.ok(views.some((view) => view.length === 0));
  loadLibc().release(mapping);
});

test('what terminated threads have mapped, the next opening unmaps', { skip }, async (t) => {
  const url = freshUrl(t, 'shm');
  const keeper = keepOpen(t, openSync(url, SMALL));
  const path = url.replace('shm:', '/stepwell-');
  const mapped = () => readFileSync('/proc/self/maps', 'utf8').split(path).length - 1;
  const { handle } = keeper;
  const task = { handle, store: keeper.name, forever: true, increments: 0, prefix: '', inserts: 0 };
  for (let i = 0; i < 4; i++) {
    const threads = [startThread(task), startThread(task)];
    await Promise.all(threads.map((thread) => once(thread, 'message')));
    assert.ok(mapped() <= 5, `${mapped()} mappings`);
    for (const thread of threads) await thread.terminate();
  }
  // The system takes a moment to forget a thread that has ended.
  for (let attempt = 0; attempt < 100 && mapped() > 1; attempt++) {
    await setImmediate();
    openSync(freshUrl(t, 'shm'), SMALL).close();
  }
  assert.equal(mapped(), 1, 'that of this thread');
  keeper.set('k', 'v');
  assert.equal(keeper.get('k'), 'v');
});

test('Windows: a runtime that lacks the function of libuv is told so', () => {
  const func = () => {
    throw new Error("Cannot find function 'uv_get_osfhandle' in shared library");
  };
  assert.throws(() => windowsCalls({ load: () => ({ func }) }), {
    code: 'SW_UNSUPPORTED',
    message: /run the program with Node or Bun/,
  });
});
