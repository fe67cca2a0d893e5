import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openSync } from '../../open.ts';
import { NO_MOUNTS, smallFileSystem } from '../../tests/support/file-systems.ts';
import { keepOpen } from '../../tests/support/pools.ts';

const MIB = 2 ** 20;

test('a store that evicts changes the size of its records on a full file system', (t) => {
  const directory = smallFileSystem(t, 12);
  if (directory === undefined) return t.skip(NO_MOUNTS);
  const bound = { maxRecords: 1_000_000, eviction: 'lru' } as const;
  const options = { size: 64 * MIB, index: 'race', maxClients: 16, ...bound } as const;
  const store = keepOpen(t, openSync(`file:${directory}/pool`, options));
  for (let i = 0; i < 4500; i++) store.set(`short ${i}`, 'x'.repeat(3000));
  const before = store.stats().bound?.records ?? 0;
  assert.ok(before < 4500, 'the file system is full');
  for (let i = 0; i < 50; i++) {
    const value = `${i}`.repeat(5000);
    store.set(`long ${i}`, value);
    assert.equal(store.get(`long ${i}`), value);
  }
});
