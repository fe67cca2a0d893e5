import assert from 'node:assert/strict';
import type { AsyncStore, Key, Value } from '../../../api.ts';
import { rejectsCode } from '../../support/codes.ts';
import { numbered } from '../../support/pools.ts';
import { collect, cramped, type Suite } from './suite.ts';

const bytesOf = (key: Key) => Buffer.from(key as string);
const inOrder = (keys: readonly Key[]) => keys.map(bytesOf).sort(Buffer.compare);

/** Prefixes of one another, and bytes that have no successor. */
const KEYS: readonly Key[] = [
  '',
  'a',
  'a:',
  'a:1',
  'a:2',
  'a;',
  'ab',
  'é',
  Uint8Array.of(0x61, 0xff),
  Uint8Array.of(0x61, 0xff, 0xff, 1),
  'b',
  Uint8Array.of(0xff),
  Uint8Array.of(0xff, 0xff),
  Uint8Array.of(0xff, 0xff, 0),
];

function beginning(prefix: Key, keys: readonly Key[] = KEYS): Key[] {
  const bytes = bytesOf(prefix);
  return keys.filter((key) => bytesOf(key).subarray(0, bytes.length).equals(bytes));
}

async function fill(s: AsyncStore<Value>, keys: readonly Key[] = KEYS): Promise<void> {
  await s.setMany(keys.map((key) => [key, `of ${bytesOf(key).toString('hex')}`] as const));
}

async function assertPrefix(s: AsyncStore<Value>, prefix: Key): Promise<void> {
  const wanted = inOrder(beginning(prefix));
  const text = `prefix ${bytesOf(prefix).toString('hex')}`;
  assert.deepEqual(inOrder(await collect(s.keys({ prefix }))), wanted, text);
  for (const walk of [s.scan({ prefix }), s.entries({ prefix })]) {
    const pairs = await collect(walk);
    assert.deepEqual(inOrder(pairs.map(([key]) => key)), wanted, text);
    for (const [key, value] of pairs) assert.equal(value, `of ${bytesOf(key).toString('hex')}`);
  }
  const values = wanted.map((key) => `of ${key.toString('hex')}`);
  assert.deepEqual((await collect(s.values({ prefix }))).sort(), values.sort(), text);
  assert.equal(await s.count({ prefix }), wanted.length, text);
}

export function prefixCases(suite: Suite): void {
  const { check } = suite;
  check('the records of a prefix, whatever its bytes are', async ({ s }) => {
    await fill(s);
    for (const prefix of [...KEYS, 'none', Uint8Array.of(0xc3)]) await assertPrefix(s, prefix);
  });

  check('a limit, the batch form and an empty store', async ({ s }) => {
    assert.deepEqual(await collect(s.keys({ prefix: 'k' })), []);
    assert.equal(await s.clear({ prefix: 'k' }), 0);
    await fill(s, [...numbered('k', 300), ...numbered('x', 300)]);
    for (const limit of [0, 1, 7, 299, 300, 301]) {
      const found = await collect(s.keys({ prefix: 'k', limit }));
      assert.equal(new Set(found).size, Math.min(limit, 300));
      assert.ok(found.every((key) => String(key).startsWith('k')));
    }
    const scan = s.keys({ prefix: 'x' });
    const some = await scan.nextMany(10);
    assert.equal(some.length, 10);
    assert.equal(new Set([...some, ...(await scan.nextMany(1000))]).size, 300);
    assert.deepEqual(await scan.nextMany(1), []);
  });

  check('a prefix in a namespace', async ({ s }) => {
    const users = s.namespace('user:');
    await fill(users);
    await fill(s, ['user', 'user;', 'a:3', 'v']);
    for (const prefix of KEYS) await assertPrefix(users, prefix);
    assert.equal(await users.clear({ prefix: 'a:' }), 3);
    assert.equal(await users.clear({ prefix: Uint8Array.of(0xff) }), 3);
    assert.equal(await users.size(), KEYS.length - 6);
    assert.equal(await s.has('a:3'), true);
    assert.equal(await users.clear(), KEYS.length - 6);
    assert.equal(await s.size(), 4);
  });

  check('what is no prefix is refused', async ({ s }) => {
    for (const prefix of [3, null, '\ud800', 'k'.repeat(65_536)]) {
      const scan = async () => s.keys({ prefix: prefix as Key }).next();
      await rejectsCode('SW_INVALID_KEY', scan, String(prefix).slice(0, 9));
    }
    const both = () => s.clear({ prefix: 'a', gte: 'b' });
    await rejectsCode('SW_INVALID_ARGUMENT', both);
  });

  clearCases(suite);
  const time = { now: 1_700_000_000_000 };
  check(
    'a prefix leaves out what has expired, and a limit does not count it',
    async ({ s }) => {
      const keys = numbered('k', 60);
      await s.setMany(keys.map((key) => [key, 'v'] as const));
      await s.setMany(
        keys.slice(0, 30).map((key) => [key, 'v'] as const),
        { ttlMs: 10 },
      );
      time.now += 10;
      assert.equal((await collect(s.keys({ prefix: 'k' }))).length, 30);
      assert.equal((await collect(s.keys({ prefix: 'k', limit: 20 }))).length, 20);
      assert.equal(await s.count({ prefix: 'k' }), 30);
      assert.equal(await s.clear({ prefix: 'k' }), 30);
    },
    { clock: () => time.now },
  );
}

function clearCases({ check, manifest }: Suite): void {
  check(
    'clear says how many records it has removed',
    async ({ s }) => {
      await fill(s, [...numbered('k', 700), ...numbered('x', 20)]);
      assert.equal(await s.clear({ prefix: 'k', limit: 300 }), 300);
      assert.equal(await s.clear({ prefix: 'k' }), 400);
      assert.equal(await s.clear({ prefix: 'k' }), 0);
      assert.equal(await s.size(), 20);
      assert.equal(await s.clear({ prefix: '' }), 20);
      await fill(s, numbered('k', 300));
      assert.equal(await s.clear(), 300);
      assert.equal(await s.clear(), 0);
    },
    cramped(manifest),
  );

  check(
    'clear of a prefix while another client writes keys of it and others',
    async ({ s, attach }) => {
      const keys = numbered('k', 400);
      await fill(s, keys);
      const other = attach();
      const writing = (async () => {
        for (let i = 0; i < 200; i++) {
          await other.set(`x${i}`, 'v');
          await other.set(keys[i], 'changed');
          await other.set(`k new ${i}`, 'v');
        }
      })();
      const removed = await s.clear({ prefix: 'k' });
      await writing;
      assert.ok(removed >= 400, `${removed} of 400`);
      assert.equal(await s.count({ prefix: 'x' }), 200);
      // Only what was written behind the clear's back is left.
      for (const key of keys.slice(200)) assert.equal(await s.get(key), undefined, key);
    },
    cramped(manifest),
  );
}
