// On what the package ships, where operations are plain functions: see scripts/test.ts.
import '../../../../../scripts/fresh-build.mjs';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { INDEX_KINDS } from '../../../../indexes/kinds.ts';
import type { IndexName } from '../../../api.ts';
import { freshStore } from '../../../tests/support/pools.ts';

const MIB = 2 ** 20;
const POOL_BYTES = 8 * MIB;
const PHASES = [[300], [1000], [60, 100, 180, 300, 500, 800, 1300, 2100, 3400, 5500], [100]];

for (const { manifest } of INDEX_KINDS) {
  const index = manifest.name as IndexName;
  test(`${index}: a full store whose records change in size stays full, and refuses none`, (t) => {
    const sizes = { size: POOL_BYTES, index, maxRecords: 2 ** 30, eviction: 'lru' } as const;
    const store = freshStore(t, 'memory', sizes);
    let written = 0;
    for (const phase of PHASES) {
      const values = phase.map((bytes) => 'v'.repeat(bytes));
      for (let bytes = 0; bytes < POOL_BYTES; written++) {
        const value = values[written % values.length];
        store.set(`k${written}`, value);
        bytes += 64 * Math.ceil((value.length + 32) / 64);
      }
      const { memory, bound } = store.stats();
      const held = (bound?.bytes ?? 0) + memory.subtables + memory.directory;
      assert.ok(held > 0.6 * POOL_BYTES, `${held} bytes of records and tables`);
    }
  });
}
