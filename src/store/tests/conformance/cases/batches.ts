import assert from 'node:assert/strict';
import type { Key, Value } from '../../../api.ts';
import { rejectsCode } from '../../support/codes.ts';
import { numbered, patternBytes } from '../../support/pools.ts';
import { cramped, grown, mustGrow, type Suite } from './suite.ts';

export function batchCases({ check, manifest }: Suite): void {
  check('batches of nothing', async ({ s }) => {
    assert.deepEqual(await s.getMany([]), []);
    assert.equal(await s.deleteMany([]), 0);
    await s.setMany([]);
    assert.equal(await s.size(), 0);
  });

  check('getMany keeps the order, with repeats and absent keys', async ({ s }) => {
    for (let i = 0; i < 100; i++) await s.set(`k${i}`, `v${i}`);
    const keys: Key[] = [];
    for (let i = 0; i < 300; i++) keys.push(i % 7 === 0 ? `absent${i}` : `k${(i * 31) % 100}`);
    keys.push('k1', Buffer.from('k1'), 'k1', '', 'k1');
    const expected = keys.map((key) => /^k(\d+)$/.exec(String(key))?.[1]);
    const found = await s.getMany(keys);
    assert.equal(found.length, keys.length);
    found.forEach((value, i) => {
      if (typeof keys[i] === 'string') assert.equal(value, expected[i] && `v${expected[i]}`);
      else assert.equal(value, 'v1');
    });
  });

  check('getMany with a bound returns the first values, one at least', async ({ s }) => {
    const keys = numbered('k', 100);
    await s.setMany(keys.map((key) => [key, 'x'.repeat(1000)]));
    await s.set('k9', 'y'.repeat(40_000));
    const all = await s.getMany(keys);
    const get = (from: number, maxBytes: number) => s.getMany(keys.slice(from), { maxBytes });
    assert.deepEqual(await get(0, 8999), all.slice(0, 8));
    assert.deepEqual(await get(0, 9000), all.slice(0, 9));
    assert.deepEqual(await get(0, 48_999), all.slice(0, 9));
    assert.deepEqual(await get(9, 0), all.slice(9, 10));
    assert.deepEqual(await get(10, 80_000), all.slice(10, 90));
    assert.deepEqual(await get(10, 1e9), all.slice(10));
    assert.deepEqual(await s.getMany(['none', 'k9', 'k0'], { maxBytes: 5 }), [undefined]);
    await rejectsCode('SW_INVALID_ARGUMENT', () => s.getMany(keys, { maxBytes: -1 }));
  });

  check('getMany of short, long and chained values together', async ({ s }) => {
    const lengths = Array.from({ length: 70 }, (_, i) => (i % 5 === 0 ? 17_000 + 900 * i : i));
    await s.setMany(lengths.map((length, i) => [`k${i}`, patternBytes(length, i + 1)] as const));
    const found = await s.getMany(numbered('k', 70));
    lengths.forEach((length, i) => {
      assert.ok(Buffer.from(found[i] as Uint8Array).equals(patternBytes(length, i + 1)), `k${i}`);
    });
  });

  check('setMany of keys that come again: the last one wins', async ({ s }) => {
    const entries: [Key, Value][] = [];
    for (let i = 0; i < 200; i++) entries.push([`k${i % 13}`, `v${i}`]);
    entries.push(
      [Buffer.from('k3'), 'as bytes'],
      ['k4', 'text'],
      [Buffer.from('k4'), 'bytes last'],
    );
    entries.push(
      [Uint8Array.of(0xff), 'a'],
      [Uint8Array.of(0xfe), 'b'],
      [Uint8Array.of(0xff), 'c'],
    );
    await s.setMany(entries);
    for (let i = 0; i < 13; i++) {
      const expected = { 3: 'as bytes', 4: 'bytes last' }[i];
      const last = i + 13 * Math.floor((199 - i) / 13);
      assert.equal(await s.get(`k${i}`), expected ?? `v${last}`);
    }
    assert.equal(await s.get(Uint8Array.of(0xff)), 'c');
    assert.equal(await s.get(Uint8Array.of(0xfe)), 'b');
    assert.equal(await s.size(), 15);
  });

  check('setMany takes any iterable and replaces what is there', async ({ s }) => {
    await s.set('k5', 'old');
    await s.setMany(new Map(numbered('k', 100).map((key) => [key, `${key}!`])));
    function* some(): Iterable<readonly [Key, Value]> {
      for (let i = 50; i < 150; i++) yield [`k${i}`, `later ${i}`];
    }
    await s.setMany(some());
    const found = await s.getMany(numbered('k', 150));
    found.forEach((value, i) => {
      assert.equal(value, i < 50 ? `k${i}!` : `later ${i}`);
    });
  });

  check('setMany that fails in the middle harms no other key', async ({ s }) => {
    await s.setMany(numbered('old', 40).map((key) => [key, key] as const));
    const entries = numbered('new', 50).map((key) => [key, key] as [Key, Value]);
    entries[45][1] = 5 as never;
    await rejectsCode('SW_INVALID_VALUE', () => s.setMany(entries));
    assert.deepEqual(await s.getMany(numbered('old', 40)), numbered('old', 40));
    for (const [i, value] of (await s.getMany(numbered('new', 50))).entries()) {
      assert.ok(value === undefined || value === `new${i}`);
    }
  });

  check('deleteMany counts what was present', async ({ s }) => {
    await s.setMany(numbered('k', 100).map((key) => [key, key] as const));
    assert.equal(await s.deleteMany(['k1', 'absent', 'k2', 'k1', 'k2', Buffer.from('k3')]), 3);
    assert.equal(await s.deleteMany(numbered('k', 50)), 47);
    assert.equal(await s.deleteMany(numbered('k', 200)), 50);
    assert.equal(await s.size(), 0);
  });

  check(
    'batches while the store splits under them',
    async ({ s }) => {
      const keys = numbered('key ', 600);
      await s.setMany(keys.map((key) => [key, `${key} value`] as const));
      const stats = await s.stats();
      if (mustGrow(manifest, stats)) assert.ok(grown(stats) > 10);
      assert.deepEqual(
        await s.getMany(keys),
        keys.map((key) => `${key} value`),
      );
      assert.equal(await s.deleteMany(keys.slice(0, 300)), 300);
      assert.equal(await s.size(), 300);
    },
    cramped(manifest),
  );

  check('lists that are none are refused', async ({ s }) => {
    await s.set('k', 'v');
    type Keys = readonly string[];
    for (const keys of [5, null, undefined, 'k', {}, new Set(['k'])] as unknown as Keys[]) {
      await rejectsCode('SW_INVALID_ARGUMENT', () => s.getMany(keys), String(keys));
      await rejectsCode('SW_INVALID_ARGUMENT', () => s.deleteMany(keys), String(keys));
    }
    type Entries = readonly (readonly [string, string])[];
    for (const entries of [5, null, undefined, 'kv', {}, [5], ['kv'], [null]]) {
      const put = () => s.setMany(entries as unknown as Entries);
      await rejectsCode('SW_INVALID_ARGUMENT', put, JSON.stringify(entries));
    }
    for (const entries of [5, null, 'kv', {}]) {
      const load = () => s.loadSorted(entries as unknown as Entries);
      await rejectsCode('SW_INVALID_ARGUMENT', load, JSON.stringify(entries));
    }
    assert.equal(await s.get('k'), 'v');
    assert.equal(await s.size(), 1);
  });

  check('many blocks come free and are filled by setMany again', async ({ s }) => {
    const value = patternBytes(12_000);
    for (let round = 0; round < 3; round++) {
      const keys = numbered(`round ${round} `, 400);
      for (const key of keys) await s.set(key, value);
      assert.equal(await s.deleteMany(keys), 400);
      // Each turn of the event loop lets the client announce and collect.
      for (let i = 0; i < 300; i++) await s.has('x');
      await new Promise((resolve) => setTimeout(resolve, 60));
    }
    const keys = numbered('last ', 64);
    await s.setMany(keys.map((key, i) => [key, patternBytes(12_000, i + 1)] as const));
    const found = await s.getMany(keys);
    keys.forEach((key, i) => {
      assert.ok(Buffer.from(found[i] as Uint8Array).equals(patternBytes(12_000, i + 1)), key);
    });
  });
}
