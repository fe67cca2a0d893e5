import assert from 'node:assert/strict';
import type { Key } from '../../../api.ts';
import { rejectsCode } from '../../support/codes.ts';
import { numbered } from '../../support/pools.ts';
import { collect, cramped, type Suite } from './suite.ts';

const sorted = (keys: readonly Key[]) => keys.map(String).sort();

/** Keys by prefix, as stores of their own. */
export function namespaceCases({ check, manifest }: Suite): void {
  check('a namespace is the keys with its prefix, without it', async ({ s }) => {
    const users = s.namespace('user:');
    await s.set('user', 'no user');
    await s.set('user;', 'none either');
    await users.set('7', 'Ada');
    await users.set('', 'the prefix itself');
    assert.equal(await s.get('user:7'), 'Ada');
    assert.equal(await s.get('user:'), 'the prefix itself');
    assert.equal(await users.get('7'), 'Ada');
    assert.equal(await users.get('user:7'), undefined);
    assert.deepEqual((await users.getEntry('7'))?.key, '7');
    assert.equal(await users.insert('7', 'x'), false);
    assert.equal(await users.increment('hits', 2), 2);
    assert.deepEqual(await users.getMany(['7', 'none', 'hits']), ['Ada', undefined, '2']);
    assert.deepEqual(await s.getMany(['user:hits', 'hits']), ['2', undefined]);
    assert.equal(await users.deleteMany(['hits', 'none']), 1);
    assert.equal(await users.take('7'), 'Ada');
    assert.equal(await s.has('user:7'), false);
  });

  check(
    'walks, size and clear of a namespace are about its keys',
    async ({ s }) => {
      const keys = numbered('k', 60);
      const [one, other] = [s.namespace('one:'), s.namespace('other:')];
      for (const [space, value] of [
        [one, '1'],
        [other, '2'],
        [s, '0'],
      ] as const) {
        await space.setMany(keys.map((key) => [key, value]));
      }
      assert.equal(await one.size(), keys.length);
      assert.deepEqual(sorted(await collect(one.keys())), sorted(keys));
      assert.deepEqual(new Set(await collect(one.values())), new Set(['1']));
      assert.deepEqual(sorted((await collect(other.entries())).map(([key]) => key)), sorted(keys));
      const paged = new Set<string>();
      let cursor = 0;
      do {
        const page = await one.scanPage(cursor, 7);
        for (const { key, value } of page.entries) paged.add(`${key}=${value}`);
        cursor = page.cursor;
      } while (cursor !== 0);
      assert.deepEqual([...paged].sort(), sorted(keys.map((key) => `${key}=1`)));
      const raw = await one.scanKeys(0, 10_000, { prefix: 'k1' });
      for (const key of keys.filter((key) => key.startsWith('k1'))) {
        assert.ok(raw.keys.some((bytes) => Buffer.from(bytes).toString() === key));
      }
      await one.clear();
      assert.equal(await one.size(), 0);
      assert.equal(await other.size(), keys.length);
      assert.equal(await s.size(), 2 * keys.length);
    },
    cramped(manifest),
  );

  check('namespaces in namespaces, of bytes and of text', async ({ s }) => {
    const inner = s.namespace('a:').namespace(Uint8Array.of(0, 255));
    const key = Buffer.concat([Buffer.from('a:'), Uint8Array.of(0, 255), Buffer.from('läng')]);
    await inner.set('läng', 'v');
    assert.equal(await s.get(key), 'v');
    assert.deepEqual(await collect(inner.keys()), ['läng']);
    assert.equal(await s.namespace('').get(key), 'v');
    await rejectsCode('SW_INVALID_KEY', async () => s.namespace('x'.repeat(65_536)).get('k'));
    await rejectsCode('SW_INVALID_KEY', async () => s.namespace('\ud800').get('k'));
    await rejectsCode('SW_INVALID_KEY', async () => s.namespace(7 as never).get('k'));
    await rejectsCode('SW_INVALID_KEY', async () => s.namespace('x').get('y'.repeat(65_535)));
    await rejectsCode('SW_INVALID_KEY', async () => s.namespace('x').get(7 as never));
    await rejectsCode('SW_INVALID_ARGUMENT', async () =>
      s.namespace('x', { values: 'no' as 'utf8' }).get('k'),
    );
    await rejectsCode('SW_INVALID_ARGUMENT', async () =>
      s.namespace('x', { ttl: 1 } as never).get('k'),
    );
  });

  check('a namespace has values of its own', async ({ s }) => {
    const sessions = s.namespace<{ user: string }>('session:', { values: 'json' });
    await sessions.set('1', { user: 'Ada' });
    assert.equal((await sessions.get('1'))?.user, 'Ada');
    assert.equal(await s.get('session:1'), '{"user":"Ada"}');
    const bytes = await s.namespace('session:', { values: 'bytes' }).get('1');
    assert.equal(new TextDecoder().decode(bytes), '{"user":"Ada"}');
  });

  check('closing a namespace closes it alone, and it ends with its store', async ({ s }) => {
    const one = s.namespace('a');
    const two = s.namespace('b').namespace('c');
    await one.set('k', 'v');
    await one.close();
    await rejectsCode('SW_CLOSED', () => one.get('k'));
    assert.equal(await s.get('ak'), 'v');
    await two.set('k', 'v');
    await s.close();
    await rejectsCode('SW_CLOSED', () => two.get('k'));
  });

  {
    const time = { now: 1_700_000_000_000 };
    const clock = () => time.now;
    check(
      'a namespace has a time to live of its own',
      async ({ s }) => {
        const short = s.namespace('short:', { ttlMs: 10 });
        const ever = s.namespace('ever:', { ttlMs: Number.POSITIVE_INFINITY });
        await short.set('k', 'v');
        await ever.set('k', 'v');
        await s.set('k', 'v');
        assert.equal(await s.ttl('short:k'), 10);
        assert.equal(await short.namespace('x').ttl('k'), undefined);
        await short.namespace('x').set('k', 'v');
        assert.equal(await s.ttl('short:xk'), 10);
        assert.equal(await s.ttl('ever:k'), Number.POSITIVE_INFINITY);
        assert.equal(await s.ttl('k'), 1000);
        time.now += 10;
        assert.equal(await short.size(), 0);
      },
      { clock, ttlMs: 1000 },
    );
  }

  if (!manifest.ordered) return;
  check('ranges of a namespace stay in it', async ({ s }) => {
    const space = s.namespace('m:');
    const keys = ['a', 'b', 'c', 'd', 'e'];
    for (const near of ['m', 'm9', 'm:', 'm;', 'l', 'n']) await s.set(near, 'near');
    await s.delete('m:');
    await space.setMany(keys.map((key) => [key, `of ${key}`]));
    assert.deepEqual(await collect(space.keys({})), keys);
    assert.deepEqual(await collect(space.keys({ gt: 'b', reverse: true })), ['e', 'd', 'c']);
    assert.deepEqual(await collect(space.scan({ lte: 'b' })), [
      ['a', 'of a'],
      ['b', 'of b'],
    ]);
    assert.equal((await space.first())?.[0], 'a');
    assert.equal((await space.last())?.[0], 'e');
    assert.equal(await space.count({ gte: 'b', lt: 'e' }), 3);
    assert.equal(await space.count(), 5);
    const scan = space.keys({});
    scan.seek('d');
    assert.deepEqual(await scan.nextMany(10), ['d', 'e']);
    await space.clear({ gte: 'd' });
    assert.deepEqual(await collect(space.keys({})), ['a', 'b', 'c']);
    await space.clear();
    assert.equal(await s.size(), 5);
  });
}
