/** A store is closed by the code that a call of it runs: an iterator, or the user of a value. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Key, Store } from '../api.ts';
import { check, checkSync, inspectSync, open, openAloneSync, openSync } from '../open.ts';
import { rejectsCode, throwsCode } from './support/codes.ts';
import { freshUrl, keepOpen, numbered, POOL_KINDS, SMALL } from './support/pools.ts';
import { startNodes } from './support/remote.ts';

const KEYS = numbered('k', 400).sort();
const CHIME = { store: 'events', index: 'chime', ...SMALL } as const;

/** Entries in order; the code that yields them does something before one of them, or at the end. */
function* entriesWith(at: number, action: () => void): Generator<readonly [Key, string]> {
  for (const [i, key] of KEYS.entries()) {
    if (i === at) action();
    yield [key, 'v'];
  }
  if (at === KEYS.length) action();
}

for (const kind of POOL_KINDS) {
  for (const at of [0, 1, 300, KEYS.length]) {
    test(`${kind}: loadSorted whose entries close the store before number ${at}`, async (t) => {
      const keeper = keepOpen(t, openAloneSync(freshUrl(t, kind), SMALL));
      keeper.set('k', 'kept');
      const place = keeper.handle;
      const alone = openSync(place, CHIME);
      throwsCode('SW_CLOSED', () => alone.loadSorted(entriesWith(at, () => alone.close())));
      // The client has left, and all that it had taken is for others.
      assert.equal(inspectSync(place).clients.filter(({ self }) => !self).length, 1);
      const { problems, leftover, unreachable } = checkSync(place);
      assert.deepEqual({ problems, leftover, unreachable }, NOTHING);

      const one = openSync(place, CHIME);
      const twin = keepOpen(t, openSync(place, CHIME));
      const promised = openSync(place, CHIME).async;
      throwsCode('SW_CLOSED', () => one.loadSorted(entriesWith(at, () => one.close())));
      await rejectsCode('SW_CLOSED', () =>
        promised.loadSorted(entriesWith(at, () => promised.sync.close())),
      );
      assert.equal(twin.size, 0);
      assert.equal(keeper.get('k'), 'kept');
      assert.equal(twin.loadSorted(entriesWith(-1, () => {})), KEYS.length);
      assert.equal(twin.last()?.[0], KEYS.at(-1));
      assert.deepEqual(checkSync(place).problems, []);
    });
  }

  test(`${kind}: a value stays until the callback returns that closes the last store`, (t) => {
    const keeper = keepOpen(t, openAloneSync(freshUrl(t, kind), SMALL));
    const store = openSync(keeper.handle, { store: 'users' });
    store.set('k', 'value');
    const seen = store.read('k', (bytes) => {
      store.close();
      throwsCode('SW_CLOSED', () => store.get('k'));
      assert.equal(inspectSync(keeper.handle).clients.filter(({ self }) => !self).length, 2);
      return Buffer.from(bytes).toString();
    });
    assert.equal(seen, 'value');
    assert.equal(inspectSync(keeper.handle).clients.filter(({ self }) => !self).length, 1);
    // The client that is about to leave stays for a store that is opened before it has left.
    const again = openSync(keeper.handle, { store: 'users' });
    const next = again.read('k', () => {
      again.close();
      return openSync(keeper.handle, { store: 'users' });
    });
    assert.equal(next?.get('k'), 'value');
    next?.close();
    assert.equal(inspectSync(keeper.handle).clients.filter(({ self }) => !self).length, 1);
    assert.deepEqual(checkSync(keeper.handle).problems, []);
  });
}

const NOTHING = { problems: [], leftover: { blocks: 0, bytes: 0 }, unreachable: 0 };

test('tcp: loadSorted whose entries close the store', async (t) => {
  const { url } = await startNodes(t, 2);
  const keeper = await open(url, SMALL);
  t.after(() => keeper.close());
  for (const at of [0, 1, 300, KEYS.length]) {
    const store = await open(url, CHIME);
    await rejectsCode('SW_CLOSED', () => store.loadSorted(entriesWith(at, () => store.close())));
    await store.close();
  }
  const store = await open(url, CHIME);
  t.after(() => store.close());
  assert.equal(await store.size(), 0);
  assert.equal(await store.loadSorted(entriesWith(-1, () => {})), KEYS.length);
  await keeper.set('k', 'v');
  const { problems, leftover, unreachable } = await check(url);
  assert.deepEqual({ problems, leftover, unreachable }, NOTHING);
});

/** Calls with arguments that no store takes. */
const BAD_CALLS: ((store: Store) => unknown)[] = [
  (store) => store.scan({ limit: -1 }),
  (store) => store.keys({ limit: -1 }),
  (store) => store.values({ limit: -1 }),
  (store) => store.entries({ limit: -1 }),
  (store) => store.scanPage(-1),
  (store) => store.scanKeys(-1),
  (store) => store.count(7 as never),
  (store) => store.clear(7 as never),
  (store) => store.first(7 as never),
  (store) => store.read('k', 7 as never),
  (store) => store.forEach(7 as never),
  (store) => store.incrementWithin('k', 1, { min: 4, max: 3 }),
  (store) => store.write('k', 'v', { when: 'never' as never }),
  (store) => store.increment('k', 0.5),
  (store) => store.getMany(7 as never),
  (store) => store.setMany(7 as never),
  (store) => store.deleteMany(7 as never),
];

test('a closed store says that it is closed, also to calls that no store takes', async (t) => {
  const url = freshUrl(t, 'shm');
  for (const call of BAD_CALLS) {
    const store = openSync(url, CHIME);
    throwsCode('SW_INVALID_ARGUMENT', () => call(store), `open: ${call}`);
    store.close();
    throwsCode('SW_CLOSED', () => call(store), `closed: ${call}`);
  }
});
