import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { LEDGER_LINE_BYTES } from '../../../pool/bound.ts';
import type { OpenOptions, Store } from '../../api.ts';
import { poolOf } from '../../places/pool-place.ts';
import { requestFor } from '../../tests/support/by-hand.ts';
import { codeOf } from '../../tests/support/codes.ts';
import { attachTo, freshStore, numbered } from '../../tests/support/pools.ts';
import { counting } from './support/counting.ts';

const LIMIT = 100;

/** A client that dies when it has added records that it has not counted. */
function addUncounted(t: TestContext, store: Store, records: number): void {
  const { pool, index } = counting(t, store);
  for (const key of numbered('uncounted', records)) {
    pool.enter();
    pool.run(index.write(requestFor({ index }, key, 'v'), 0));
    pool.exit();
  }
  pool.run(pool.catalog.addUnswept(index.records.catalog, 1));
  pool.close();
}

for (const eviction of ['lru', 'lfu', 'adaptive', 'none'] as const) {
  const options: OpenOptions = { maxRecords: LIMIT, eviction };

  test(`${eviction}: what dead clients have added and not counted is found`, (t) => {
    const store = freshStore(t, 'memory', options);
    const fill = (writer: Store) => {
      for (const key of numbered('k', 2 * LIMIT)) codeOf(() => writer.set(key, 'v'));
      assert.equal(writer.size, LIMIT);
      assert.equal(writer.stats().bound?.records, LIMIT);
      for (const key of numbered('k', LIMIT / 2)) writer.delete(key);
    };
    for (let death = 0; death < 3; death++) {
      addUncounted(t, store, 20);
      fill(store);
    }
    // One that comes later finds deaths that others have made good.
    addUncounted(t, store, 20);
    fill(attachTo(t, store));
  });

  test(`${eviction}: a line that is far too low leaves no store without a bound`, (t) => {
    for (const value of [-1e15, -1e6]) {
      const store = freshStore(t, 'memory', options);
      for (const key of numbered('k', LIMIT / 2)) store.set(key, 'v');
      const { bounded } = counting(t, store);
      const [region] = poolOf(store.handle) as SharedArrayBuffer[];
      const line = new Float64Array(region, bounded.bound.block + 5 * LEDGER_LINE_BYTES, 8);
      line.fill(value, 0, 2);
      for (const key of numbered('n', 3 * LIMIT)) codeOf(() => store.set(key, 'v'));
      assert.equal(store.size, LIMIT);
    }
  });
}
