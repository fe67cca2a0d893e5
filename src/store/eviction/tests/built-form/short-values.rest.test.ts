// On what the package ships, where operations are plain functions: see scripts/test.ts.
import '../../../../../scripts/fresh-build.mjs';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { INDEX_KINDS } from '../../../../indexes/kinds.ts';
import { rounds } from '../../../../random/tests/support/rounds.ts';
import type { IndexName } from '../../../api.ts';
import { freshStore } from '../../../tests/support/pools.ts';

const WRITES = rounds(20_000, 60_000);

for (const { manifest } of INDEX_KINDS) {
  const index = manifest.name as IndexName;
  test(`${index}: a full pool takes short values, each for about one evicted record`, (t) => {
    const sizes = { size: 6 * 2 ** 20, index, maxRecords: 2 ** 30, eviction: 'lru' } as const;
    const store = freshStore(t, 'memory', sizes);
    const bound = () => store.stats().bound ?? assert.fail('the store has no bound');
    let written = 0;
    const write = (count: number) => {
      for (let i = 0; i < count; i++) store.set(`k${written++}`, 'v'.repeat(8));
    };
    while (bound().evictions === 0) write(1000);
    // A full store still turns memory of records into tables: HStore's chained buckets.
    write(WRITES / 3);
    const before = bound();
    write(WRITES);
    const after = bound();
    assert.ok(after.records > 0.9 * before.records, `${before.records}, then ${after.records}`);
    const evicted = after.evictions - before.evictions;
    assert.ok(evicted < 1.5 * WRITES, `${evicted} evicted`);
  });
}
