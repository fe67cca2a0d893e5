import assert from 'node:assert/strict';
import { test } from 'node:test';
import { freshStore, numbered } from '../../tests/support/pools.ts';

/** ASCII texts alone are decoded together; others stand between them, and one leaf is too long. */
const TEXTS: readonly ((i: number) => string)[] = [
  (i) => 'x'.repeat(i % 49),
  (i) => (i % 20 === 0 ? 'žluť' : `text ${i}`),
  (i) => `${i} `.padEnd(150, 'long'),
];

for (const values of ['auto', 'utf8'] as const) {
  test(`texts that a scan finds together are those that were stored (${values})`, (t) => {
    for (const textOf of TEXTS) {
      const index = { kind: 'chime', inlineBytes: 200 } as const;
      const store = freshStore(t, 'memory', { index, values });
      const stored = numbered('k', 300).map((key, i): [string, string] => [key, textOf(i)]);
      store.setMany(stored);
      const sorted = stored.sort(([a], [b]) => (a < b ? -1 : 1));
      assert.deepEqual([...store.entries()], sorted);
      assert.deepEqual(
        [...store.values()],
        sorted.map(([, value]) => value),
      );
    }
  });
}

test('keys and values as bytes are views that do not overlap', (t) => {
  const as = { keys: 'bytes', values: 'bytes' } as const;
  const store = freshStore(t, 'memory', { index: 'chime', ...as });
  // A key that is longer than the memory that short ones share.
  const stored = [...numbered('k', 1000), `z${'long'.repeat(4000)}`].map((key, i) => {
    return [Buffer.from(key), Buffer.from(`${i}`.repeat(i % 9))] as const;
  });
  for (const [key, value] of stored) store.set(key, value);
  const found = [...store.entries({ gte: '' })];
  const again = [...store.entries({ gte: '' })].flat() as Uint8Array[];
  for (const bytes of again) bytes.fill(0);
  assert.deepEqual(
    (found as Uint8Array[][]).map((pair) => pair.map((bytes) => Buffer.from(bytes))),
    [...stored].sort(([a], [b]) => Buffer.compare(a, b)).map((pair) => [...pair]),
  );
});
