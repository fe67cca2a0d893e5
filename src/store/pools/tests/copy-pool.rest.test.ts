import assert from 'node:assert/strict';
import { existsSync, readdirSync, utimesSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import type { OpenOptions, Store, Value } from '../../api.ts';
import {
  checkSync,
  createSync,
  destroySync,
  inspectSync,
  openAloneSync,
  openSync,
} from '../../open.ts';
import { openRemote } from '../../remote/remote-store.ts';
import { codeOf, rejectsCode } from '../../tests/support/codes.ts';
import {
  freshUrl,
  keepOpen,
  pathOf,
  SMALL,
  temporaryDirectory,
} from '../../tests/support/pools.ts';
import { Child } from '../../tests/support/processes/children.ts';
import { startNodes } from '../../tests/support/remote.ts';
import { copyPool } from '../copy-pool.ts';
import { growSync } from '../grow.ts';

const MIB = 2 ** 20;
const HOUR = 3_600_000;
const KINDS = ['race', 'shard', 'sephash', 'chime', 'hopscotch', 'hstore'] as const;

type Stored = Map<string, { value: Value; expires: unknown }>;

/** All that a store's walk shows. */
function contents(store: Store): Stored {
  const all: Stored = new Map();
  for (let cursor = 0; ; ) {
    const page = store.scanPage(cursor, 100);
    for (const { key, value, expires } of page.entries) {
      const sliding = expires !== undefined && 'sliding' in expires;
      all.set(String(key), { value, expires: sliding ? 'sliding' : expires });
    }
    cursor = page.cursor;
    if (cursor === 0) return all;
  }
}

/** Records of every kind that there is. */
function write(store: Store): void {
  for (let i = 0; i < 300; i++) store.set(`text ${i}`, `${i} äöü `.repeat(i % 40));
  for (let i = 0; i < 50; i++) store.set(Uint8Array.of(255, i), new Uint8Array(i * 10).fill(i));
  store.set('long', 'x'.repeat(300_000));
  store.set('', '');
  store.set('twice', 'a');
  store.set('twice', 'b');
  store.set('dies', 'soon', { expiresAt: Date.now() + HOUR });
  store.set('slides', 'on', { ttlMs: HOUR, sliding: true });
  store.set('dead', 'gone', { expiresAt: 1 });
  store.changeState('lease', () => ({ result: 0, next: { token: 7 } }));
}

const token = (store: Store) =>
  store.changeState('lease', (state) => ({ result: (state as { token: number }).token }));

/** An old pool with a store of every index, one of them bounded; its URL. */
function oldPool(t: Parameters<typeof freshUrl>[0]): string {
  const url = freshUrl(t, 'file');
  for (const index of KINDS) {
    const store = openSync(url, { ...SMALL, size: 32 * MIB, index, store: index });
    write(store);
    store.close();
  }
  const bounded: OpenOptions = { store: 'bounded', maxRecords: 200, eviction: 'lfu' };
  const store = openSync(url, bounded);
  for (let i = 0; i < 400; i++) store.set(`key ${i}`, `of ${i}`, i % 2 ? { ttlMs: HOUR } : {});
  store.close();
  return url;
}

test('a copy has all that the old pool has, and more room', async (t) => {
  const from = oldPool(t);
  const to = freshUrl(t, 'shm');
  const report = await copyPool(from, to, { maxClients: 300 });
  assert.deepEqual([report.sizeMax, report.maxClients], [64 * MIB, 300]);
  assert.deepEqual(report.stores.map(({ name }) => name).sort(), [...KINDS, 'bounded'].sort());
  for (const name of [...KINDS, 'bounded']) {
    const [old, copy] = [from, to].map((url) => keepOpen(t, openSync(url, { store: name })));
    assert.ok(isDeepStrictEqual(contents(copy), contents(old)), name);
    if (name === 'bounded') continue;
    assert.equal(contents(copy).size, 355, name);
    assert.equal(token(copy), 7, name);
    assert.ok((copy.ttl('slides') as number) > HOUR / 2, name);
  }
  const { bound } = openSync(to, { store: 'bounded' }).stats();
  assert.deepEqual([bound?.maxRecords, bound?.eviction], [200, 'lfu']);
  for (const { name, index } of inspectSync(to).stores) {
    if (name !== 'bounded') assert.equal(index, name);
  }
  for (const url of [from, to]) assert.deepEqual(checkSync(url).problems, [], url);
});

test('parameters that were chosen stay, others follow the new size', async (t) => {
  const [from, to] = [freshUrl(t, 'file'), freshUrl(t, 'file')];
  createSync(from, { ...SMALL, store: 'a', index: { kind: 'race', associativity: 5 } });
  createSync(from, { store: 'b', index: 'hstore' });
  await copyPool(from, to, { size: 256 * MIB });
  const shapes = [from, to].map((url) => inspectSync(url).stores.map((store) => store));
  const [[a, b], [copiedA, copiedB]] = shapes;
  assert.equal(copiedA.parameters.associativity, a.parameters.associativity);
  assert.ok(copiedB.slots > 4 * b.slots, `${b.slots} slots, copied ${copiedB.slots}`);
});

test('parameters follow the new size although the old pool was raised', async (t) => {
  const [from, to, fresh] = [freshUrl(t, 'file'), freshUrl(t, 'file'), freshUrl(t, 'file')];
  const shapes = (url: string) =>
    inspectSync(url)
      .stores.map(({ name, parameters: { seed, ...others } }) => ({ name, others }))
      .sort((a, b) => (a.name < b.name ? -1 : 1));
  createSync(from, { ...SMALL, size: 8 * MIB, regionSize: 4 * MIB });
  createSync(fresh, { ...SMALL, size: 512 * MIB });
  for (const [i, index] of (['race', 'hstore', 'sephash'] as const).entries()) {
    createSync(from, { store: index, index });
    createSync(fresh, { store: index, index });
    if (i < 2) growSync(from, { size: 64 * (i + 1) * MIB });
  }
  createSync(from, { store: 'chosen', index: { kind: 'race', associativity: 5 } });
  createSync(fresh, { store: 'chosen', index: { kind: 'race', associativity: 5 } });
  await copyPool(from, to, { size: 512 * MIB });
  assert.deepEqual(shapes(to), shapes(fresh));
});

test('a page of long values is short', (t) => {
  const store = keepOpen(t, openSync(freshUrl(t, 'shm'), { size: '128m', values: 'auto' }));
  const long = new Uint8Array(2 * MIB);
  for (let i = 0; i < 40; i++) store.set(`key ${i}`, long);
  const { records, cursor } = store.copyPage(0, 256);
  assert.ok(records.length < 40 && cursor !== 0, `${records.length} records`);
});

test('a client that came meanwhile stops a copy that may have missed its writes', async (t) => {
  const [from, to] = [freshUrl(t, 'file'), freshUrl(t, 'file')];
  const store = openSync(from, SMALL);
  for (let i = 0; i < 1000; i++) store.set(`key ${i}`, 'value');
  store.close();
  const late = () => {
    keepOpen(t, openAloneSync(from)).set('late', 'value');
  };
  await rejectsCode('SW_POOL_BUSY', () => copyPool(from, to, { onProgress: late }));
  assert.equal(existsSync(pathOf(to)), false);
});

test('a pool on memory nodes is copied into a file', async (t) => {
  const { url } = await startNodes(t, 2, { bytes: 8 * MIB, regionBytes: 4 * MIB });
  const old = await openRemote(url, { store: 's', index: 'shard', maxClients: 16 });
  for (let i = 0; i < 500; i++) await old.set(`key ${i}`, `of ${i}`);
  const to = freshUrl(t, 'file');
  await rejectsCode('SW_POOL_BUSY', () => copyPool(url, to));
  await copyPool(url, to, { live: true });
  await old.close();
  const copy = keepOpen(t, openSync(to, { store: 's' }));
  for (let i = 0; i < 500; i++) assert.equal(copy.get(`key ${i}`), `of ${i}`);
  assert.deepEqual(checkSync(to).problems, []);
});

test('a copier that is killed leaves the old pool alone and no new one', async (t) => {
  const from = freshUrl(t, 'file');
  const store = openSync(from, { ...SMALL, index: 'race' });
  for (let i = 0; i < 3000; i++) store.set(`key ${i}`, `of ${i}`);
  const before = contents(store);
  store.close();
  const to = `file:${join(temporaryDirectory(t), 'copy')}`;
  const folder = dirname(pathOf(to));
  for (const diesAt of [1, 4, 9]) {
    const child = new Child(t);
    const order = { kind: 'copy', url: from, to, diesAt } as const;
    await assert.rejects(child.ask(order), /SIGKILL/);
    assert.equal(existsSync(pathOf(to)), false);
    assert.equal(
      codeOf(() => openSync(to, { create: false })),
      'SW_POOL_NOT_FOUND',
    );
  }
  const drafts = readdirSync(folder);
  assert.equal(drafts.length, 3);
  for (const draft of drafts) utimesSync(join(folder, draft), 1, 1);
  await copyPool(from, to);
  assert.deepEqual(readdirSync(folder), ['copy'], 'drafts that were left are taken away');
  for (const url of [from, to]) {
    assert.ok(isDeepStrictEqual(contents(keepOpen(t, openSync(url))), before), url);
    assert.deepEqual(checkSync(url, { sweep: false }).problems, []);
  }
});

test('what cannot be copied leaves nothing', async (t) => {
  const from = freshUrl(t, 'file');
  const to = `file:${join(temporaryDirectory(t), 'copy')}`;
  const copying =
    (options: object, target = to) =>
    () =>
      copyPool(from, target, options);
  await rejectsCode('SW_POOL_NOT_FOUND', copying({}));
  const store = openSync(from, { ...SMALL, store: 'a' });
  for (let i = 0; i < 100; i++) store.set(`key ${i}`, 'x'.repeat(50_000));
  await rejectsCode('SW_POOL_BUSY', copying({}));
  store.close();
  await rejectsCode('SW_POOL_FULL', copying({ size: 2 * MIB }));
  await rejectsCode('SW_STORE_NOT_FOUND', copying({ stores: ['b'] }));
  await rejectsCode('SW_INVALID_ARGUMENT', copying({ store: ['a'] }));
  await rejectsCode('SW_INVALID_ARGUMENT', copying({ maxClients: 5000 }));
  await rejectsCode('SW_UNSUPPORTED', copying({}, 'memory:'));
  await rejectsCode('SW_UNSUPPORTED', copying({}, 'tcp://127.0.0.1:7471'));
  await rejectsCode('SW_POOL_EXISTS', copying({}, from));
  await rejectsCode('SW_ABORTED', copying({ signal: AbortSignal.abort() }));
  assert.deepEqual(readdirSync(dirname(pathOf(to))), []);
  await copyPool(from, to, { stores: ['a'] });
  destroySync(to);
});
