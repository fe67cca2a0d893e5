import assert from 'node:assert/strict';
import { inspect } from 'node:util';
import type { ErrorCode } from '../../../../errors.ts';
import type { AsyncStore, StoreStats, Value } from '../../../api.ts';
import { rejectsCode } from '../../support/codes.ts';
import { numbered } from '../../support/pools.ts';
import { collect, cramped, mustGrow, type Suite } from './suite.ts';

const CALLS: Record<string, (s: AsyncStore<Value>) => Promise<unknown>> = {
  get: (s) => s.get('k'),
  getEntry: (s) => s.getEntry('k'),
  has: (s) => s.has('k'),
  put: (s) => s.set('k', 'v'),
  insert: (s) => s.insert('k', 'v'),
  update: (s) => s.update('k', 'v'),
  write: (s) => s.write('k', 'v'),
  delete: (s) => s.delete('k'),
  take: (s) => s.take('k'),
  compareAndSet: (s) => s.compareAndSet('k', 1, 'v'),
  compareAndDelete: (s) => s.compareAndDelete('k', 1),
  increment: (s) => s.increment('k'),
  getMany: (s) => s.getMany(['k']),
  setMany: (s) => s.setMany([['k', 'v']]),
  deleteMany: (s) => s.deleteMany(['k']),
  read: (s) => s.read('k', () => 0),
  entries: (s) => collect(s.entries()),
  keys: (s) => collect(s.keys()),
  values: (s) => collect(s.values()),
  iterator: (s) => collect(s),
  scanPage: (s) => s.scanPage(0),
  scanKeys: (s) => s.scanKeys(0),
  size: (s) => s.size(),
  clear: (s) => s.clear(),
  stats: (s) => s.stats(),
};

async function assertRefused(s: AsyncStore<Value>, code: ErrorCode): Promise<void> {
  for (const [name, call] of Object.entries(CALLS)) await rejectsCode(code, () => call(s), name);
}

const assertClosed = (s: AsyncStore<Value>) => assertRefused(s, 'SW_CLOSED');

export function lifecycleCases({ check, manifest, checkSync }: Suite): void {
  check('after close every call says so, and others go on', async ({ s, attach }) => {
    const other = attach();
    await s.set('k', 'v');
    const { name, url, handle } = s;
    await s.close();
    await assertClosed(s);
    await s.close();
    assert.deepEqual([s.name, s.url, s.handle], [name, url, handle]);
    assert.equal(await other.get('k'), 'v');
  });

  check('closing in the middle of an iteration ends it', async ({ s, attach }) => {
    await attach().setMany(numbered('k', 400).map((key) => [key, key] as const));
    await rejectsCode('SW_CLOSED', async () => {
      for await (const key of s.keys()) if (key) await s.close();
    });
  });

  check('a signal ends all calls of a handle, and no others', async ({ s }) => {
    const aborting = new AbortController();
    const cut = s.withSignal(aborting.signal);
    await cut.setMany(numbered('k', 400).map((key) => [key, key] as const));
    assert.deepEqual([cut.name, cut.url], [s.name, s.url]);
    let met = 0;
    await assert.rejects(
      async () => {
        for await (const _ of cut) if (++met === 3) aborting.abort('enough');
      },
      { code: 'SW_ABORTED', cause: 'enough' },
    );
    assert.ok(met < 400, `${met} records`);
    await assertRefused(cut, 'SW_ABORTED');
    await assertRefused(cut.namespace('k'), 'SW_ABORTED');
    await assertRefused(cut.withSignal(new AbortController().signal), 'SW_ABORTED');
    await assertRefused(s.namespace('k').withSignal(aborting.signal), 'SW_ABORTED');
    assert.equal(await s.size(), 400);
    for (const wrong of ['now', undefined] as never[]) {
      await rejectsCode('SW_INVALID_ARGUMENT', async () => s.withSignal(wrong).get('k'));
    }
    await cut.close();
    await assertClosed(s);
  });

  check('asyncDispose closes', async ({ s }) => {
    await s[Symbol.asyncDispose]();
    await assertClosed(s);
  });

  checkSync('dispose closes both twins', async (store) => {
    const { async: promised } = store;
    assert.equal(promised.sync, store);
    assert.equal(store.async, promised);
    assert.equal(promised.name, store.name);
    assert.equal(promised.url, store.url);
    assert.equal(promised.handle, store.handle);
    store[Symbol.dispose]();
    store[Symbol.dispose]();
    await assertClosed(promised);
  });

  checkSync('closing inside the callback of a read', async (store) => {
    store.set('k', 'v');
    assert.equal(
      store.read('k', () => {
        store.close();
        return 'closed';
      }),
      'closed',
    );
    await assertClosed(store.async);
  });

  const shown = (kind: string, { url }: { url: string }, closed: boolean) =>
    `${kind} ${inspect({ url, store: 'default', index: manifest.name, closed })}`;

  checkSync(
    'a store that is printed tells url, name, index and whether it is closed',
    async (s) => {
      assert.equal(inspect(s), shown('Store', s, false));
      assert.equal(inspect(s.async), shown('AsyncStore', s, false));
      s.close();
      assert.equal(inspect(s), shown('Store', s, true));
      assert.equal(inspect(s.async), shown('AsyncStore', s, true));
    },
  );

  check('name, url and handle', async ({ s, attach }) => {
    assert.equal(s.name, 'default');
    assert.match(s.url, /^(memory|shm|file|tcp):/);
    const other = attach({ store: 'ünïcode ' });
    assert.equal(other.name, 'ünïcode ');
    assert.equal(other.url, s.url);
  });

  check(
    'stats tell what the store holds and what this client did',
    async ({ s, attach }) => {
      const before = await s.stats();
      assert.equal(before.records, 0);
      // The last value is too long to stand beside its key in an index that keeps short ones there.
      const value = (key: string) => (key === 'k299' ? key.repeat(30) : key);
      await s.setMany(numbered('k', 300).map((key) => [key, value(key)] as const));
      const after = await s.stats();
      assert.equal(after.records, 300);
      assert.equal(after.loadFactor, 300 / after.slots);
      assert.equal(after.subtables > before.subtables, mustGrow(manifest, after));
      // SHARD doubles, and counts buckets moved; HStore chains buckets.
      const splits = manifest.onlineResize && manifest.name !== 'shard';
      if (splits) assertSplitsCounted(before, after);
      // A tree has no directory.
      if (!manifest.ordered && manifest.onlineResize) assertDirectoryCounted(before, after);
      assert.ok(after.memory.records > 0);
      // Chained buckets are as long as short records.
      assert.ok(after.memory.subtables > 0 || !manifest.onlineResize);
      for (const [row, count] of Object.entries(after.traffic)) {
        const earlier = before.traffic[row as keyof typeof before.traffic];
        assert.ok(count >= earlier && Number.isSafeInteger(count), row);
      }
      assert.ok(after.traffic.writes >= before.traffic.writes + 300);
      const other = await attach().stats();
      assert.equal(other.records, 300);
      assert.ok(Object.values(other.resizes).every((count) => count === 0));
    },
    cramped(manifest),
  );
}

function assertSplitsCounted(before: StoreStats, after: StoreStats): void {
  assert.equal(after.slots / after.subtables, before.slots / before.subtables);
  assert.equal(after.resizes.splits, after.subtables - before.subtables);
}

function assertDirectoryCounted(before: StoreStats, after: StoreStats): void {
  assert.ok(after.subtables <= 2 ** after.globalDepth);
  assert.ok(after.memory.directory > 0);
  if (after.resizes.doublings === undefined) return;
  assert.equal(after.resizes.doublings, after.globalDepth - before.globalDepth);
  const full = after.retries.subtableFull ?? after.resizes.merges;
  assert.ok(full >= after.resizes.splits);
}
