import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertSameAtOnce } from '../../store/test-support/at-once.ts';
import { requestFor, shardByHand } from '../../store/test-support/by-hand.ts';
import { resize } from './resize.ts';

const SHARD = { buckets: 1, level1: 8, level2: 2, threshold: 100, resizes: 9 };
const WRITES = 4000;

test('writeOnce executes what write yields, or leaves the request to it', (t) => {
  const [plain, fast] = [0, 1].map(() => shardByHand(t, { shard: SHARD }));
  for (const { index } of [plain, fast]) index.table.syncEvery = Number.POSITIVE_INFINITY;
  const first = assertSameAtOnce(plain, fast, WRITES, (prng) => {
    if (prng.below(500) > 0) return;
    for (const { pool, index } of [plain, fast]) {
      pool.run(resize(index.table));
      pool.run(index.table.load());
    }
  });
  assert.ok(first > WRITES / 4, `${first} at once`);
  assert.ok(first < (3 * WRITES) / 4, `only ${WRITES - first} left to write`);
});

test('a report that is due is left to write', (t) => {
  const client = shardByHand(t, { shard: SHARD });
  const { pool, index } = client;
  pool.run(pool.allocator.refill(pool.allocator.sizeClass(index.catalog, 1)));
  index.table.syncEvery = 2;
  const put = (key: string) => {
    const request = requestFor(client, key, 'value');
    const outcome = index.writeOnce(request, 0, 0, pool.fabric);
    if (outcome === undefined) pool.run(index.write(request, 0));
    return outcome !== undefined;
  };
  assert.deepEqual(['a', 'b'].map(put), [true, false]);
  assert.equal(index.table.unreported, 0, 'it has been reported');
});
