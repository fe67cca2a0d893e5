import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { IndexName } from '../../api.ts';
import {
  type Counts,
  counted,
  LONG,
  RECORDS,
  SHORT,
  WRITES,
  writerTo,
} from './support/counted-writes.ts';

/** Of a pool that is full before its store is. Filling it takes long: the others are measured. */
const SMALL_BYTES = 12 * 2 ** 20;
/**
 * Doorbells that evictions may add to a write in a full pool: CHIME's, 1.8 to 3.8, vary with how
 * many operations find the pool full together.
 */
const FULL_POOLS = [
  { index: 'chime', bytes: SHORT, most: 5 },
  { index: 'chime', bytes: LONG, most: 5 },
  { index: 'hopscotch', bytes: SHORT, most: 2 },
] as const;
/** Runs of writes until one has met a full pool. */
const WINDOWS_MAX = 8;

/** The same in a pool that has been full for a while. */
async function countedWhenFull(t: TestContext, bytes: number, index: IndexName): Promise<Counts> {
  const options = { index, maxRecords: 2 ** 30, eviction: 'lru' } as const;
  const writer = await writerTo(t, bytes, options, SMALL_BYTES);
  while ((await writer.evictions()) === 0) await writer.write(RECORDS);
  await writer.write(2 * RECORDS);
  // A chunk or a leaf that was emptied a moment ago may leave room for a while.
  for (let window = 1; ; window++) {
    const counts = await writer.counted(2 * WRITES);
    if (counts.evictions > WRITES / 4 || window === WINDOWS_MAX) return counts;
  }
}

for (const { index, bytes, most } of FULL_POOLS) {
  test(`${index}: evictions of a full pool share doorbells, for values of ${bytes} bytes`, async (t) => {
    const roomy = await counted(t, bytes, { index });
    const full = await countedWhenFull(t, bytes, index);
    assert.ok(full.evictions > WRITES / 4, `${full.evictions} evictions`);
    const more = full.doorbells - roomy.doorbells;
    assert.ok(more <= most, `${more} more doorbells a write, ${roomy.doorbells} without evictions`);
  });
}
