import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StepwellError } from '../../../errors.ts';
import { openSync } from '../../../store/open.ts';
import { freshUrl, type Scope, SMALL } from '../../../store/tests/support/pools.ts';
import { StepwellLevel } from '../index.ts';

function levelOf(scope: Scope, location: ConstructorParameters<typeof StepwellLevel>[0]) {
  const level = new StepwellLevel(location);
  scope.after(() => level.close());
  return level;
}

test('the manifest says what there is not', async (t) => {
  const supports = levelOf(t, 'memory:').supports as unknown as Record<string, unknown>;
  const { implicitSnapshots, explicitSnapshots, snapshots, atomicBatch, permanence } = supports;
  assert.deepEqual(
    { implicitSnapshots, explicitSnapshots, snapshots, atomicBatch, permanence },
    {
      implicitSnapshots: false,
      explicitSnapshots: false,
      snapshots: false,
      atomicBatch: false,
      permanence: false,
    },
  );
  const { seek, has, getSync, createIfMissing, errorIfExists } = supports;
  assert.ok(seek && has && getSync && createIfMissing && errorIfExists);
  assert.equal(levelOf(t, freshUrl(t, 'shm')).supports.permanence, true);
});

test('a database and a store are two views of the same keys', async (t) => {
  const url = freshUrl(t, 'shm');
  const level = levelOf(t, url);
  await level.put('b', 'by level');
  const store = openSync(url, { create: false, values: 'auto' });
  t.after(() => store.close());
  assert.equal(store.get('b'), 'by level');
  store.set('a', 'by store');
  store.set('c', Uint8Array.of(1, 2));
  assert.deepEqual(await level.keys().all(), ['a', 'b', 'c']);
  assert.equal(level.getSync('a'), 'by store');
  const bytes = { valueEncoding: 'buffer' } as const;
  assert.deepEqual(await level.get('c', bytes), Buffer.of(1, 2));
  assert.deepEqual(await level.get('a', bytes), Buffer.from('by store'));
  const view = { keyEncoding: 'view', valueEncoding: 'view' } as const;
  const entries = await level.iterator({ ...view, gt: Buffer.from('b') }).all();
  const hex = entries.map((pair) => pair.map((bytes) => Buffer.from(bytes).toString('hex')));
  assert.deepEqual(hex, [['63', '0102']]);
});

test('a batch keeps the order of operations on one key', async (t) => {
  const level = levelOf(t, 'memory:');
  await level.batch([
    { type: 'put', key: 'a', value: '1' },
    { type: 'put', key: 'a', value: '2' },
    { type: 'del', key: 'b' },
    { type: 'put', key: 'b', value: '3' },
    { type: 'del', key: 'a' },
    { type: 'put', key: 'c', value: '4' },
    { type: 'put', key: 'c', value: '5' },
  ]);
  assert.deepEqual(await level.iterator().all(), [
    ['b', '3'],
    ['c', '5'],
  ]);
});

test('what a batch has done before it fails stays', async (t) => {
  const pool = openSync('memory:', { ...SMALL, index: 'chime' });
  t.after(() => pool.close());
  const level = levelOf(t, pool.handle);
  const tooLong = 'k'.repeat(65_536);
  const batch = [
    { type: 'put' as const, key: 'a', value: '1' },
    { type: 'del' as const, key: 'b' },
    { type: 'put' as const, key: tooLong, value: '2' },
  ];
  await assert.rejects(level.batch(batch), { code: 'SW_INVALID_KEY' });
  assert.equal(pool.get('a'), '1');
});

test('text that is not well-formed is stored as other databases do', async (t) => {
  const level = levelOf(t, 'memory:');
  await level.put('\ud800', 'v\udfff');
  assert.deepEqual(await level.iterator({ gte: '\ud800' }).all(), [['\ufffd', 'v\ufffd']]);
});

test('a memory: database outlives its close, as long as the object does', async (t) => {
  const level = levelOf(t, 'memory:');
  await level.put('a', '1');
  await level.close();
  assert.throws(() => level.store, { code: 'SW_CLOSED' });
  await level.open({ createIfMissing: false });
  assert.equal(await level.get('a'), '1');
  await level.close();
  await assert.rejects(level.open({ errorIfExists: true }), (error: Error) => {
    assert.ok(error.cause instanceof StepwellError && error.cause.code === 'SW_POOL_EXISTS');
    return true;
  });
});

test('a range that is refused leaves no iterator behind that could not be closed', async (t) => {
  const level = levelOf(t, 'memory:');
  await level.put('a', '1');
  const tooLong = { gte: 'k'.repeat(65_536) };
  assert.throws(() => level.iterator(tooLong), { code: 'SW_INVALID_KEY' });
  assert.throws(() => level.keys(tooLong), { code: 'SW_INVALID_KEY' });
  assert.throws(() => level.values(tooLong), { code: 'SW_INVALID_KEY' });
  await assert.rejects(level.clear(tooLong), { code: 'SW_INVALID_KEY' });
  const iterator = level.iterator();
  assert.throws(() => iterator.seek('k'.repeat(65_536)), { code: 'SW_INVALID_KEY' });
  assert.deepEqual(await iterator.next(), ['a', '1']);
  // The store below may be closed by whoever has it.
  level.store.close();
  await assert.rejects(async () => level.keys().all(), { code: 'SW_CLOSED' });
  await assert.rejects(iterator.next(), { code: 'SW_CLOSED' });
  await level.close();
});

test('a store that is not ordered is refused, and so is what is no location', async (t) => {
  const pool = openSync('memory:', { ...SMALL, index: 'race' });
  t.after(() => pool.close());
  const level = new StepwellLevel(pool.handle);
  await assert.rejects(level.open(), (error: Error) => {
    assert.ok(error.cause instanceof StepwellError && error.cause.code === 'SW_STORE_MISMATCH');
    return true;
  });
  for (const location of ['', undefined, 3, null]) {
    assert.throws(() => new StepwellLevel(location as string), { code: 'SW_INVALID_URL' });
  }
});

test('another store of the pool, by option', async (t) => {
  const url = freshUrl(t, 'shm');
  const [users, sessions] = ['users', 'sessions'].map((store) => {
    const level = new StepwellLevel<string, { name: string }>(url, {
      store,
      valueEncoding: 'json',
      chime: { span: 16 },
    });
    t.after(() => level.close());
    return level;
  });
  await users.put('1', { name: 'Ada' });
  assert.equal(await sessions.get('1'), undefined);
  assert.deepEqual(await users.get('1'), { name: 'Ada' });
  assert.deepEqual(await users.values({ reverse: true, limit: 1 }).all(), [{ name: 'Ada' }]);
});

test('an iterator lets the event loop turn, and its signal ends it', async (t) => {
  const level = levelOf(t, 'memory:');
  await level.batch(
    Array.from({ length: 20_000 }, (_, i) => ({ type: 'put' as const, key: `${i}`, value: '' })),
  );
  const controller = new AbortController();
  setImmediate(() => controller.abort());
  await assert.rejects(level.keys({ signal: controller.signal }).all(), {
    code: 'LEVEL_ABORTED',
    name: 'AbortError',
  });
});
