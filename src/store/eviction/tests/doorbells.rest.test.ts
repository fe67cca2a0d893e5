import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { IndexName } from '../../api.ts';
import { someIndexes } from '../../tests/support/some-indexes.ts';
import { counted, LONG, RECORDS, SHORT, WRITES } from './support/counted-writes.ts';

const LEAVES: readonly IndexName[] = ['chime', 'hopscotch'];
/** Doorbells that evictions may add to a write. */
const MORE_MAX = 2;

for (const index of someIndexes('race', 'chime', 'hstore')) {
  for (const bytes of LEAVES.includes(index) ? [SHORT, LONG] : [LONG]) {
    test(`${index}: evictions for values of ${bytes} bytes share doorbells`, async (t) => {
      const roomy = await counted(t, bytes, { index });
      const full = await counted(t, bytes, { index, maxRecords: RECORDS, eviction: 'lru' });
      const [most, least] = [1.1 * WRITES, 0.9 * WRITES];
      assert.ok(full.evictions > least && full.evictions < most, `${full.evictions} evictions`);
      const more = full.doorbells - roomy.doorbells;
      const each = `${roomy.doorbells} without evictions`;
      assert.ok(more <= MORE_MAX, `${more} more doorbells a write, ${each}`);
    });
  }
}
