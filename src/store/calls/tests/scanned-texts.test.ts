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
