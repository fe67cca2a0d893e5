import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Store } from '../../api.ts';
import { freshStore } from '../../tests/support/pools.ts';

const WRITES = 5000;

function roundTripsOf(store: Store, from: number): number {
  const before = store.stats().traffic.roundTrips;
  for (let i = from; i < from + WRITES; i++) store.set(`key ${i}`, 'v'.repeat(100));
  return store.stats().traffic.roundTrips - before;
}

/**
 * A write that finds no free block takes two more round trips for each epoch that it waits, and
 * tries again. If the client held only two blocks, every second write would wait: 12 or 13 round
 * trips a write instead of 9.
 */
test('a client in a full pool holds the blocks of its next writes', (t) => {
  const bound = { maxRecords: 2 ** 30, eviction: 'lru' } as const;
  const store = freshStore(t, 'memory', { index: 'race', size: 24 * 2 ** 20, ...bound });
  let written = 0;
  const write = () => {
    written += WRITES;
    return roundTripsOf(store, written - WRITES);
  };
  while (store.stats().bound?.evictions === 0) write();
  for (let i = 0; i < 4; i++) write();
  const trips = write() / WRITES;
  assert.ok(trips < 10, `${trips} round trips a write`);
});
