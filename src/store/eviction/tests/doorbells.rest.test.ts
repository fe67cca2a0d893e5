import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { INDEX_KINDS } from '../../../indexes/kinds.ts';
import type { AsyncStore, IndexName, OpenOptions, Value } from '../../api.ts';
import { open } from '../../open.ts';
import { inFlight } from '../../remote/remote-clients.ts';
import { startNodes } from '../../tests/support/remote.ts';

const RECORDS = 2048;
const WRITES = 1024;
const WIDTH = 64;
/** Of 300 bytes, a value has a block of its own; shorter ones may stand in leaves. */
const SHORT = 32;
const LONG = 300;
const LEAVES: readonly IndexName[] = ['chime', 'hopscotch'];
/**
 * Doorbells that evictions may add to a write. CHIME's, 1.75 to 1.8, are too close to two: they
 * vary with how many of the verbs in flight meet.
 */
const moreMax = (index: IndexName) => (index === 'chime' ? 2.5 : 2);

interface Counts {
  doorbells: number;
  evictions: number;
}

async function writeNew(store: AsyncStore<Value>, first: number, count: number, value: string) {
  const keys = Array.from({ length: count }, (_, i) => `k${first + i}`);
  await inFlight(keys, WIDTH, (key) => store.set(key, value));
}

async function evictionsOf(store: AsyncStore<Value>): Promise<number> {
  return (await store.stats()).bound?.evictions ?? 0;
}

/** Doorbells of writes of new keys to a store that holds `RECORDS`. */
async function counted(t: TestContext, bytes: number, options: OpenOptions): Promise<Counts> {
  const { url } = await startNodes(t);
  const store = await open(url, { maxClients: 8, ...options });
  t.after(() => store.close());
  const value = 'v'.repeat(bytes);
  await writeNew(store, 0, RECORDS + WIDTH, value);
  const before = { ...(await store.counters()).traffic };
  const evictedBefore = await evictionsOf(store);
  await writeNew(store, RECORDS + WIDTH, WRITES, value);
  const evictions = (await evictionsOf(store)) - evictedBefore;
  const { traffic } = await store.counters();
  return { doorbells: traffic.roundTrips - before.roundTrips, evictions };
}

for (const { manifest } of INDEX_KINDS) {
  const index = manifest.name as IndexName;

  for (const bytes of LEAVES.includes(index) ? [SHORT, LONG] : [LONG]) {
    test(`${index}: evictions for values of ${bytes} bytes share doorbells`, async (t) => {
      const roomy = await counted(t, bytes, { index });
      const full = await counted(t, bytes, { index, maxRecords: RECORDS, eviction: 'lru' });
      const [most, least] = [1.1 * WRITES, 0.9 * WRITES];
      assert.ok(full.evictions > least && full.evictions < most, `${full.evictions} evictions`);
      const more = (full.doorbells - roomy.doorbells) / WRITES;
      const each = `${roomy.doorbells / WRITES} without evictions`;
      assert.ok(more <= moreMax(index), `${more} more doorbells a write, ${each}`);
    });
  }
}
