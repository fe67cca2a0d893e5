import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TcpFabric } from '../../../fabrics/tcp/client/tcp-fabric.ts';
import { ERASE, INITIALISE, REVOKE } from '../../../fabrics/tcp/node-methods.ts';
import { INDEX_KINDS } from '../../../indexes/kinds.ts';
import { control } from '../../../pool/control.ts';
import { CLIENT_ENTRY_BYTES, CLIENTS_OFFSET, SUPERBLOCK } from '../../../pool/layout.ts';
import { runRemote } from '../../../verbs/index.ts';
import type { AsyncStore, IndexName, OpenOptions, Value } from '../../api.ts';
import { openSync } from '../../open.ts';
import { startMemoryNode } from '../../servers/memory-node.ts';
import { rejectsCode, throwsCode } from '../../tests/support/codes.ts';
import { freshStore, freshUrl, keepOpen, numbered, type Scope } from '../../tests/support/pools.ts';
import { openAlone } from '../../tests/support/remote.ts';

const SECRETS = { secret: 'of writers, long enough', readSecret: 'of readers, long enough' };

async function startNodes(scope: Scope, count: number): Promise<string> {
  const nodes = await Promise.all(
    Array.from({ length: count }, () =>
      startMemoryNode({ ...SECRETS, port: 0, size: 64 * 2 ** 20 }),
    ),
  );
  scope.after(async () => {
    await Promise.all(nodes.map((node) => node.stop()));
  });
  return `tcp://${nodes.map(({ port }) => `127.0.0.1:${port}`).join(',')}`;
}

async function openedAt(
  scope: Scope,
  url: string,
  options: OpenOptions,
): Promise<AsyncStore<Value>> {
  const store = await openAlone(url, { maxClients: 16, client: 'test', ...options });
  scope.after(() => store.close());
  return store;
}

async function refusesWrites(s: AsyncStore<Value>): Promise<void> {
  const writes: readonly (() => Promise<unknown>)[] = [
    () => s.set('k', 'v'),
    () => s.insert('k', 'v'),
    () => s.update('k0', 'v'),
    () => s.write('k0', 'v', { keepTtl: true }),
    () => s.expire('k0'),
    () => s.compareAndSet('k0', 1, 'v'),
    () => s.compareAndDelete('k0', 1),
    () => s.delete('k0'),
    () => s.take('k0'),
    () => s.increment('n'),
    () => s.incrementWithin('n', 1, { max: 5 }),
    () => s.swap('k0', 'v'),
    () => s.append('k0', 'v'),
    () => s.setMany([['k', 'v']]),
    () => s.deleteMany(['k0']),
    () => s.clear(),
    () => s.loadSorted([]),
    () => s.namespace('k').set('0', 'v'),
    () => s.changeState('state', () => ({ result: 0, next: 1 })),
  ];
  for (const write of writes) await rejectsCode('SW_READ_ONLY', write);
}

for (const { manifest } of INDEX_KINDS) {
  const index = manifest.name as IndexName;

  test(`${index}: a reader of memory nodes follows a writer and writes nothing`, async (t) => {
    const url = await startNodes(t, index === 'hstore' ? 1 : 2);
    const writer = await openedAt(t, url, { index, secret: SECRETS.secret });
    const keys = numbered('k', 400);
    await writer.setMany(keys.slice(0, 50).map((key) => [key, 'one']));
    const reader = await openedAt(t, url, { readOnly: true, secret: SECRETS.readSecret });
    assert.equal(await reader.get('k0'), 'one');
    await refusesWrites(reader);
    // The index grows under the reader's hands.
    await writer.setMany(keys.map((key) => [key, 'two']));
    const found = await reader.getMany(keys);
    assert.ok(found.every((value) => value === 'two'));
    assert.equal(await reader.size(), keys.length);
    await writer.deleteMany(keys.slice(0, 350));
    assert.equal(await reader.get('k0'), undefined);
    assert.equal(await reader.get('k399'), 'two');
    await reader.close();
    await writer.set('after', 'v');
  });

  test(`${index}: a reader of memory`, async (t) => {
    const url = freshUrl(t, 'file');
    const writer = keepOpen(t, openSync(url, { index, size: 16 * 2 ** 20, maxClients: 8 }));
    writer.set('k0', 'v');
    const reader = keepOpen(t, openSync(url, { readOnly: true }));
    assert.equal(reader.get('k0'), 'v');
    assert.equal(reader.size, 1);
    await refusesWrites(reader.async);
    assert.equal(writer.get('k0'), 'v');
  });
}

for (const { manifest } of INDEX_KINDS) {
  const index = manifest.name as IndexName;

  test(`${index}: a reader of a bounded store counts and notes nothing`, async (t) => {
    const url = await startNodes(t, 1);
    const bound = { index, maxRecords: 10, secret: SECRETS.secret };
    const writer = await openedAt(t, url, bound);
    await writer.setMany(numbered('k', 10).map((key) => [key, 'v']));
    const reader = await openedAt(t, url, { readOnly: true, secret: SECRETS.readSecret });
    assert.deepEqual(await reader.getMany(['k0', 'missing']), ['v', undefined]);
    assert.equal(await reader.namespace('k').get('1'), 'v');
    await refusesWrites(reader);
    await writer.set('one more', 'v');
    const { bound: seen } = await reader.stats();
    assert.deepEqual([seen?.records, seen?.hits, seen?.misses], [10, 0, 0]);
    assert.equal(await writer.get('one more'), 'v');
  });
}

test('a reader creates nothing, and begins no time anew', async (t) => {
  throwsCode('SW_POOL_NOT_FOUND', () => openSync(freshUrl(t, 'shm'), { readOnly: true }));
  const time = { now: 1_700_000_000_000 };
  const clock = () => time.now;
  const store = freshStore(t, 'memory', { clock, ttlMs: 1000, sliding: true });
  throwsCode('SW_STORE_NOT_FOUND', () =>
    openSync(store.handle, { store: 'other', readOnly: true, create: true }),
  );
  throwsCode('SW_INVALID_ARGUMENT', () => openSync(store.handle, { readOnly: 1 as never }));
  const reader = keepOpen(t, openSync(store.handle, { readOnly: true }));
  store.set('k', 'v');
  time.now += 900;
  assert.equal(reader.get('k'), 'v');
  assert.equal(store.ttl('k'), 100);
});

test('a memory node lets a client with the secret of readers write to its own row alone', async (t) => {
  const url = await startNodes(t, 1);
  const writer = await openedAt(t, url, { secret: SECRETS.secret });
  await writer.set('k', 'v');
  const reader = await openedAt(t, url, { readOnly: true, secret: SECRETS.readSecret });
  assert.equal(await reader.get('k'), 'v');
  // Without the option it would clean up, or write, and is told why that fails.
  await rejectsCode('SW_READ_ONLY', async () => {
    const rash = await openedAt(t, url, { secret: SECRETS.readSecret });
    await rash.set('k', 'w');
  });
  await rejectsCode('SW_UNAUTHENTICATED', () =>
    openedAt(t, url, { secret: 'another secret, long' }),
  );
  const [, host, port] = /\/\/(.*):(\d+)$/.exec(url) ?? [];
  const secret = Buffer.from(SECRETS.readSecret);
  const fabric = await TcpFabric.connect([{ host, port: Number(port) }], { secret } as never);
  t.after(() => fabric.close());
  const attempt = (operation: Parameters<typeof runRemote>[1]) => runRemote(fabric, operation);
  const row = (number: number) => CLIENTS_OFFSET + (number - 1) * CLIENT_ENTRY_BYTES;
  const ofWriter = (await attempt(control.load(row(1)))) as bigint;
  assert.notEqual(ofWriter & 3n, 0n);
  for (const at of [SUPERBLOCK.epoch, SUPERBLOCK.catalogLock, row(1), row(1) + 24, 2 ** 20]) {
    const word = (await attempt(control.load(at))) as bigint;
    await rejectsCode('SW_READ_ONLY', () => attempt(control.store(at, 1n)));
    await rejectsCode('SW_READ_ONLY', () => attempt(control.swap(at, word | 1n, 2n)));
    await rejectsCode('SW_READ_ONLY', () => attempt(control.add(at, 1n)));
  }
  // A CAS that expects a free row fails where a client is, and gives no right to the row.
  assert.equal(await attempt(control.swap(row(1), 0n, 1n)), false);
  await rejectsCode('SW_READ_ONLY', () => attempt(control.store(row(1) + 24, 0n)));
  assert.equal(await attempt(control.swap(row(9), 0n, 1n)), true);
  await attempt(control.store(row(9) + 24, 5n));
  await rejectsCode('SW_READ_ONLY', () => attempt(control.store(row(8) + 24, 0n)));
  await rejectsCode('SW_READ_ONLY', () =>
    attempt(control.writeBytes(row(9) + 64, new Uint8Array(128))),
  );
  await rejectsCode('SW_READ_ONLY', () => attempt(control.swap(row(17), 0n, 1n)));
  // One row at a time, and it is another's as soon as it is free.
  await rejectsCode('SW_READ_ONLY', () => attempt(control.swap(row(10), 0n, 1n)));
  await attempt(control.store(row(9), 0n));
  await rejectsCode('SW_READ_ONLY', () => attempt(control.store(row(9) + 24, 5n)));
  await rejectsCode('SW_READ_ONLY', () => attempt(control.store(row(9), 1n)));
  await rejectsCode('SW_READ_ONLY', () => attempt(control.swap(row(9), 0n, 0n)));
  assert.equal(await attempt(control.swap(row(9), 0n, 1n)), true);
  for (const method of [INITIALISE, ERASE, REVOKE]) {
    await rejectsCode('SW_READ_ONLY', () => fabric.call(0, method, new Uint8Array(64)));
  }
  assert.equal(await writer.get('k'), 'v');
});
