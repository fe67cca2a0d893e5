import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  closeSync,
  copyFileSync,
  mkdirSync,
  openSync as openFile,
  readFileSync,
  readSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { ErrorCode } from '../../errors.ts';
import { SUPERBLOCK } from '../../pool/layout.ts';
import {
  checkSync,
  createSync,
  destroySync,
  inspectSync,
  openAloneSync,
  openSync,
} from '../open.ts';
import { codeOf, throwsCode } from './support/codes.ts';
import { freshUrl, keepOpen, pathOf, SMALL, temporaryDirectory } from './support/pools.ts';

/** Each way into a pool says the same, and leaves the file as it was. */
function assertRefused(code: ErrorCode, path: string): void {
  const url = `file:${path}`;
  const before = statSync(path).isFile() ? readFileSync(path) : undefined;
  throwsCode(code, () => openSync(url), `open ${path}`);
  throwsCode(code, () => openSync(url, { create: false }), `attach ${path}`);
  throwsCode(code, () => inspectSync(url), `inspect ${path}`);
  throwsCode(code, () => checkSync(url), `check ${path}`);
  throwsCode(code, () => destroySync(url), `destroy ${path}`);
  if (before) assert.ok(readFileSync(path).equals(before), 'unchanged');
}

test('what is no pool is refused and not touched', (t) => {
  const directory = temporaryDirectory(t);
  const files: Record<string, string | Uint8Array> = {
    empty: '',
    byte: 'x',
    text: 'hello\n'.repeat(2000),
    zeros: new Uint8Array(2 ** 20),
    almost: 'STEPWELX'.padEnd(8192, '\0'),
  };
  for (const [name, content] of Object.entries(files)) {
    const path = join(directory, name);
    writeFileSync(path, content);
    assertRefused('SW_POOL_FOREIGN', path);
    throwsCode('SW_POOL_FOREIGN', () => createSync(`file:${path}`, SMALL));
  }
  mkdirSync(join(directory, 'folder'));
  assertRefused('SW_POOL_FOREIGN', join(directory, 'folder'));
  execFileSync('mkfifo', [join(directory, 'fifo')]);
  assertRefused('SW_POOL_FOREIGN', join(directory, 'fifo'));
  throwsCode('SW_POOL_FOREIGN', () => openSync('file:/dev/null'));
  symlinkSync('loop', join(directory, 'loop'));
  throwsCode('SW_INVALID_URL', () => openSync(`file:${join(directory, 'loop')}`, SMALL));
});

/** A closed pool of several regions, with records. */
function closedPool(t: TestContext): string {
  const url = freshUrl(t, 'file');
  const store = openSync(url, { size: 16 * 2 ** 20, regionSize: 2 * 2 ** 20, maxClients: 16 });
  for (let i = 0; i < 60; i++) store.set(`key ${i}`, 'v'.repeat(60_000));
  assert.ok(inspectSync(url).regions > 1);
  store.close();
  return pathOf(url);
}

test('a truncated pool is refused, and good again at its old length', (t) => {
  const path = closedPool(t);
  const copy = `${path}.copy`;
  const { size } = statSync(path);
  for (const length of [size - 1, size / 2, 2 ** 20, 4097, 4096, 4095, 1000, 16]) {
    copyFileSync(path, copy);
    truncateSync(copy, length);
    assertRefused('SW_POOL_TRUNCATED', copy);
  }
  truncateSync(copy, 15);
  assertRefused('SW_POOL_FOREIGN', copy);
  copyFileSync(path, copy);
  truncateSync(copy, size + 5000);
  assert.deepEqual(checkSync(`file:${copy}`).problems, [], 'a longer file does no harm');
  assert.deepEqual(checkSync(`file:${path}`).problems, []);
});

test('a superblock that was changed', (t) => {
  const path = closedPool(t);
  const good = readFileSync(path);
  const copy = `${path}.copy`;
  const change = (at: number, xor: number) => {
    const bytes = Buffer.from(good);
    bytes[at] ^= xor;
    writeFileSync(copy, bytes);
  };
  for (let at = 0; at < 64; at += 3) {
    change(at, 0x40);
    const code = at < 8 ? 'SW_POOL_FOREIGN' : at < 12 ? 'SW_POOL_VERSION' : 'SW_POOL_CORRUPT';
    assertRefused(code, copy);
  }
  change(SUPERBLOCK.versionAndChecksum, 3);
  assertRefused('SW_POOL_VERSION', copy);
  change(SUPERBLOCK.regionCount + 1, 1);
  assertRefused('SW_POOL_CORRUPT', copy);
});

/** Changes bytes of an attached pool behind its back. */
class Vandal {
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
  }

  /** Where the record with this key begins. */
  find(key: string): number {
    const at = readFileSync(this.#path).indexOf(key);
    assert.ok(at > 0);
    return at - 16;
  }

  flip(at: number, xor: number): void {
    const fd = openFile(this.#path, 'r+');
    const byte = new Uint8Array(1);
    readSync(fd, byte, 0, 1, at);
    byte[0] ^= xor;
    writeSync(fd, byte, 0, 1, at);
    closeSync(fd);
  }
}

function attachedPool(t: TestContext) {
  const url = freshUrl(t, 'file');
  const store = keepOpen(t, openSync(url, { size: 8 * 2 ** 20, maxClients: 16 }));
  const other = keepOpen(t, openAloneSync(url));
  const others = Array.from({ length: 30 }, (_, i) => `other ${i}`);
  for (const key of others) store.set(key, key);
  store.set('sixteen-byte-key', 'w'.repeat(40));
  store.set('chained-key-here', 'w'.repeat(50_000));
  const vandal = new Vandal(pathOf(url));
  return { url, store, other, vandal, others };
}

test('a changed value: SW_RECORD_CORRUPT, other keys fine, check reports it', (t) => {
  const { url, store, other, vandal, others } = attachedPool(t);
  for (const key of ['sixteen-byte-key', 'chained-key-here']) {
    const start = vandal.find(key);
    const value = start + (key.startsWith('c') ? 48 : 32);
    // Checksum, value length, codec, version, value.
    for (const at of [start, start + 3, start + 4, start + 10, start + 12, value, value + 39]) {
      vandal.flip(at, 0x01);
      for (const client of [store, other]) {
        throwsCode('SW_RECORD_CORRUPT', () => client.get(key), `byte ${at - start} of ${key}`);
        throwsCode('SW_RECORD_CORRUPT', () => client.getEntry(key));
        throwsCode('SW_RECORD_CORRUPT', () => client.read(key, () => 0));
        throwsCode('SW_RECORD_CORRUPT', () => client.getMany(['other 1', key]));
        throwsCode('SW_RECORD_CORRUPT', () => [...client]);
        assert.deepEqual(client.getMany(others), others);
      }
      assert.equal(checkSync(url).problems.length, 1);
      vandal.flip(at, 0x01);
      assert.equal(String(store.get(key)).slice(0, 40), 'w'.repeat(40));
    }
    assert.deepEqual(checkSync(url).problems, []);
  }
});

test('a damaged record can be replaced and removed', (t) => {
  const { url, store, vandal } = attachedPool(t);
  for (const [key, at] of [
    ['sixteen-byte-key', 40],
    ['chained-key-here', 200],
  ] as const) {
    vandal.flip(vandal.find(key) + at, 0xff);
    throwsCode('SW_RECORD_CORRUPT', () => store.increment(key));
    store.set(key, 'repaired');
    assert.equal(store.get(key), 'repaired');
  }
  vandal.flip(vandal.find('other 3') + 28, 0xff);
  assert.equal(store.delete('other 3'), true);
  assert.equal(store.has('other 3'), false);
  assert.deepEqual(checkSync(url).problems, []);
});

test('a changed key hides its record, and check reports it', (t) => {
  const { url, store, vandal, others } = attachedPool(t);
  const start = vandal.find('sixteen-byte-key');
  for (const at of [8, 16, 20, 31]) {
    vandal.flip(start + at, 0x04);
    assert.equal(store.get('sixteen-byte-key'), undefined);
    assert.notEqual(checkSync(url).problems.length, 0, `byte ${at}`);
    assert.deepEqual(store.getMany(others), others);
    vandal.flip(start + at, 0x04);
  }
});

test('each byte of a header and a link: an error with a code of damage, never another', (t) => {
  const { url, store, vandal, others } = attachedPool(t);
  const start = vandal.find('chained-key-here');
  const allowed = ['SW_RECORD_CORRUPT', 'SW_POOL_CORRUPT', 'returned undefined', 'returned string'];
  const wrong: string[] = [];
  const bytes = [...Array(16).keys(), ...Array.from({ length: 8 }, (_, i) => 32 + i)];
  for (const at of bytes) {
    for (const xor of [0x01, 0x80]) {
      vandal.flip(start + at, xor);
      const got = codeOf(() => store.get('chained-key-here'));
      if (!allowed.includes(got)) wrong.push(`get with byte ${at} ^ ${xor}: ${got}`);
      const checked = codeOf(() => assert.notEqual(checkSync(url).problems.length, 0));
      if (checked !== 'returned undefined')
        wrong.push(`check with byte ${at} ^ ${xor}: ${checked}`);
      assert.deepEqual(store.getMany(others), others);
      vandal.flip(start + at, xor);
    }
  }
  assert.deepEqual(wrong, []);
});

test('force does not remove what is no pool', (t) => {
  const path = join(temporaryDirectory(t), 'precious');
  writeFileSync(path, 'not a pool');
  codeOf(() => destroySync(`file:${path}`, { force: true }));
  assert.equal(readFileSync(path, 'utf8'), 'not a pool');
});
