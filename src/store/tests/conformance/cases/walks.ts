import assert from 'node:assert/strict';
import type { AsyncStore, Value } from '../../../api.ts';
import { rejectsCode } from '../../support/codes.ts';
import { numbered, patternBytes } from '../../support/pools.ts';
import { collect, cramped, grown, type Suite } from './suite.ts';

async function fill(s: AsyncStore<Value>, keys: readonly string[]): Promise<void> {
  await s.setMany(keys.map((key) => [key, `${key}!`] as const));
}

function assertAllOnce(found: readonly unknown[], keys: readonly string[]): void {
  const counts = new Map<unknown, number>();
  for (const key of found) counts.set(key, (counts.get(key) ?? 0) + 1);
  for (const key of keys) assert.equal(counts.get(key), 1, `${key} came ${counts.get(key)} times`);
}

/** Indexes whose walk over keys alone leaves the values unread. */
const KEYS_ALONE = new Set(['race', 'shard', 'chime', 'hopscotch']);

export function walkCases({ check, manifest }: Suite): void {
  check('iteration over nothing', async ({ s }) => {
    assert.deepEqual(await collect(s), []);
    assert.deepEqual(await collect(s.entries()), []);
    assert.deepEqual(await collect(s.keys()), []);
    assert.deepEqual(await collect(s.values()), []);
    assert.equal(await s.size(), 0);
    assert.deepEqual(await scanAll(s, 10), []);
  });

  check('forEach hands out value, key and store, as a Map does', async ({ s }) => {
    await fill(s, numbered('k', 20));
    const found: string[] = [];
    await s.forEach((value, key, store) => {
      assert.equal(store.name, s.name);
      found.push(`${key} ${value}`);
    });
    const all = numbered('k', 20).map((key) => `${key} ${key}!`);
    assert.deepEqual(found.toSorted(), all.toSorted());
    await assert.rejects(async () =>
      s.forEach(() => {
        throw new Error('enough');
      }),
    );
  });

  check('forEach takes a function, also over nothing', async ({ s }) => {
    for (const use of [undefined, null, 5, 'use', {}]) {
      await rejectsCode('SW_INVALID_ARGUMENT', async () => s.forEach(use as never), String(use));
    }
  });

  check('iteration hands out every record once', async ({ s }) => {
    const keys = numbered('k', 500);
    await fill(s, keys);
    await s.deleteMany(keys.splice(100, 50));
    const sorted = keys.toSorted();
    const values = sorted.map((key) => `${key}!`);
    const pairs = sorted.map((key) => [key, `${key}!`]);
    assert.deepEqual((await collect(s.keys())).sort(), sorted);
    assert.deepEqual((await collect(s.values())).sort(), values.toSorted());
    assert.deepEqual((await collect(s.entries())).sort(), pairs);
    assert.deepEqual((await collect(s)).sort(), pairs);
    assert.equal(await s.size(), 450);
    if (manifest.orderedWalk) assert.deepEqual(await collect(s.keys()), sorted);
  });

  check('iteration over keys that are longer than a slot can say', async ({ s }) => {
    const keys = numbered('long ', 8).map((key) => key.padEnd(20_000, '.'));
    await fill(s, keys);
    assertAllOnce(await collect(s.keys()), keys);
  });

  check('iteration over keys around the length that a slot can say', async ({ s }) => {
    const lengths = Array.from({ length: 40 }, (_, i) => 16_280 + i);
    for (const length of lengths) await s.set('k'.repeat(length), patternBytes(40, length));
    const found = await collect(s.entries());
    assert.deepEqual(found.map(([key]) => key.length).sort(), lengths);
    for (const [key, value] of found) assert.deepEqual(value, patternBytes(40, key.length));
  });

  check(
    'a key that is there during the whole iteration comes once, whatever splits',
    async ({ s }) => {
      const keys = numbered('old ', 200);
      await fill(s, keys);
      const found: unknown[] = [];
      let more = 0;
      for await (const key of s.keys()) {
        found.push(key);
        for (let i = 0; i < 4 && more < 600; i++) await s.set(`new ${more++}`, 'v');
        if (found.length % 3 === 0) await s.set(String(key), 'changed');
      }
      assertAllOnce(found, keys);
      if (manifest.onlineResize) assert.ok(grown(await s.stats()) > 20);
    },
    cramped(manifest),
  );

  check('iteration may be left and others go on', async ({ s }) => {
    const keys = numbered('k', 100);
    await fill(s, keys);
    const left = s.keys();
    assert.equal((await left.next()).done, false);
    for await (const [key] of s) {
      await s.delete(key);
      if ((await s.size()) < 50) break;
    }
    assert.equal((await collect(s.keys())).length, await s.size());
  });

  async function scanAll(s: AsyncStore<Value>, count?: number) {
    const found: unknown[] = [];
    for (let cursor = 0, pages = 0; ; pages++) {
      assert.ok(pages < 10_000, 'the scan does not end');
      const page = await s.scanPage(cursor, count);
      for (const { key, value, version } of page.entries) {
        assert.equal(value, `${key}!`);
        assert.ok(Number.isInteger(version));
        found.push(key);
      }
      cursor = page.cursor;
      if (cursor === 0) return found;
      assert.ok(Number.isSafeInteger(cursor) && cursor > 0);
    }
  }

  check('scan by cursor with every count', async ({ s }) => {
    const keys = numbered('k', 300);
    await fill(s, keys);
    for (const count of [undefined, 1, 7, 100, 100_000]) {
      const found = await scanAll(s, count);
      assertAllOnce(found, keys);
      assert.equal(found.length, 300);
    }
  });

  check('scan stops near the count and has the version', async ({ s }) => {
    await fill(s, numbered('k', 400));
    const page = await s.scanPage(0, 10);
    // At most all of one more leaf or bucket, which have up to 64 entries.
    assert.ok(page.entries.length >= 10 && page.entries.length < 10 + 64, `${page.entries.length}`);
    const [{ key, version }] = page.entries;
    assert.equal((await s.getEntry(key))?.version, version);
    assert.ok((await s.compareAndSet(key, version, 'by its version')) !== undefined);
  });

  check(
    'scan while the store splits: a key that stays comes at least once',
    async ({ s, attach }) => {
      const keys = numbered('old ', 200);
      await fill(s, keys);
      const other = attach();
      const found = new Set<unknown>();
      let more = 0;
      let cursor = 0;
      do {
        // A cursor holds the whole state, so any client can continue another's walk.
        const page = await (more % 2 === 0 ? s : other).scanPage(cursor, 3);
        for (const { key } of page.entries) found.add(key);
        cursor = page.cursor;
        for (let i = 0; i < 9 && more < 900; i++) await s.set(`new ${more++}`, 'v');
      } while (cursor !== 0);
      for (const key of keys) assert.ok(found.has(key), `${key} never came`);
      if (manifest.onlineResize) assert.ok(grown(await s.stats()) > 20);
    },
    cramped(manifest),
  );

  check('a walk over keys reads no values', async ({ s }) => {
    const long = [300, 16_280, 20_000, 65_000].map((length) => 'l'.repeat(length));
    const keys = [...numbered('k', 200), ...long, ''];
    for (const [i, key] of keys.entries()) await s.set(key, patternBytes(20_000 + i, i));
    for (const count of [undefined, 1, 7, 100_000]) {
      const before = (await s.stats()).traffic.bytesRead;
      const found: string[] = [];
      for (let cursor = 0, pages = 0; pages === 0 || cursor !== 0; pages++) {
        const page = await s.scanKeys(cursor, count);
        for (const key of page.keys) found.push(Buffer.from(key).toString());
        cursor = page.cursor;
        assert.ok(pages < 10_000);
      }
      assertAllOnce(found, keys);
      assert.equal(found.length, keys.length);
      const read = (await s.stats()).traffic.bytesRead - before;
      if (count === 100_000 && KEYS_ALONE.has(manifest.name)) {
        assert.ok(read < 2_000_000, `${read} bytes for values of 4,000,000`);
      }
    }
    for (const cursor of [-1, 0.5, '1', null]) {
      await rejectsCode('SW_INVALID_ARGUMENT', () => s.scanKeys(cursor as number));
    }
    await rejectsCode('SW_INVALID_ARGUMENT', () => s.scanKeys(0, 0));
  });

  check(
    'a walk over the keys with a prefix',
    async ({ s, attach }) => {
      const keys = ['a', 'user', ...numbered('user:', 300), 'user;', 'z'];
      await fill(s, keys);
      const twins = [s, attach()];
      const found = new Set<string>();
      let strangers = 0;
      for (let cursor = 0, pages = 0; pages === 0 || cursor !== 0; pages++) {
        const page = await twins[pages % 2].scanKeys(cursor, 10, { prefix: 'user:' });
        for (const key of page.keys) {
          const text = Buffer.from(key).toString();
          if (text.startsWith('user:')) found.add(text);
          else strangers++;
        }
        cursor = page.cursor;
        assert.ok(pages < 10_000);
      }
      assert.equal(found.size, 300);
      if (manifest.orderedWalk) assert.equal(strangers, 0);
      assert.deepEqual(
        await s.scanKeys(0, 10, { prefix: 'v' }).then(({ cursor }) => cursor >= 0),
        true,
      );
    },
    cramped(manifest),
  );

  check('a cursor that is none is refused', async ({ s }) => {
    await fill(s, numbered('k', 10));
    for (const cursor of [-1, 0.5, Number.NaN, 2 ** 53, 2 ** 52, 3, 1e9, '1', null, true]) {
      const refused = async () => s.scanPage(cursor as number);
      await rejectsCode('SW_INVALID_ARGUMENT', refused, String(cursor));
    }
    for (const count of [0, -1, Number.NaN, 1.5, '10']) {
      const refused = () => s.scanPage(0, count as number);
      await rejectsCode('SW_INVALID_ARGUMENT', refused, String(count));
    }
    assert.equal((await scanAll(s)).length, 10);
  });

  check(
    'clear removes what was there, also after splits',
    async ({ s, attach }) => {
      await fill(s, numbered('k', 400));
      await s.set(patternBytes(20, 3), patternBytes(40_000));
      await s.set('x'.repeat(30_000), 'long key');
      await s.clear();
      assert.equal(await s.size(), 0);
      assert.deepEqual(await collect(attach().keys()), []);
      await s.clear();
      await s.set('k1', 'again');
      assert.deepEqual(await collect(s.entries()), [['k1', 'again']]);
    },
    cramped(manifest),
  );
}
