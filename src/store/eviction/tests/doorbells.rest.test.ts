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
/** Of a pool that is full before its store is. Filling it takes long: the others are measured. */
const SMALL_BYTES = 12 * 2 ** 20;
/** Of 300 bytes, a value has a block of its own; shorter ones may stand in leaves. */
const SHORT = 32;
const LONG = 300;
const LEAVES: readonly IndexName[] = ['chime', 'hopscotch'];
/**
 * Doorbells that evictions may add to a write in a full pool: CHIME's, 1.8 to 3.8, vary with how
 * many operations find the pool full together.
 */
const FULL_POOLS = [
  { index: 'chime', bytes: SHORT, most: 5 },
  { index: 'chime', bytes: LONG, most: 5 },
  { index: 'hopscotch', bytes: SHORT, most: 2 },
] as const;
/**
 * Doorbells that evictions may add to a write. CHIME's, 1.75 to 1.8, are too close to two: they
 * vary with how many of the verbs in flight meet.
 */
const moreMax = (index: IndexName) => (index === 'chime' ? 2.5 : 2);

/** Runs of writes until one has met a full pool. */
const WINDOWS_MAX = 8;

interface Counts {
  doorbells: number;
  evictions: number;
}

/** Writes new keys, one number after the other. */
class Writer {
  readonly #store: AsyncStore<Value>;
  readonly #value: string;
  #next = 0;

  constructor(store: AsyncStore<Value>, bytes: number) {
    this.#store = store;
    this.#value = 'v'.repeat(bytes);
  }

  async write(count: number): Promise<void> {
    const keys = Array.from({ length: count }, () => `k${this.#next++}`);
    await inFlight(keys, WIDTH, (key) => this.#store.set(key, this.#value));
  }

  async evictions(): Promise<number> {
    return (await this.#store.stats()).bound?.evictions ?? 0;
  }

  /** Doorbells and evictions of so many writes. */
  async counted(writes: number): Promise<Counts> {
    // Figures of a store take round trips of their own.
    const evicted = await this.evictions();
    const { roundTrips } = { ...(await this.#store.counters()).traffic };
    await this.write(writes);
    const { traffic } = await this.#store.counters();
    const doorbells = (traffic.roundTrips - roundTrips) / writes;
    return { doorbells, evictions: (await this.evictions()) - evicted };
  }
}

async function writerTo(t: TestContext, bytes: number, options: OpenOptions, nodeBytes?: number) {
  const { url } = await startNodes(t, 1, nodeBytes === undefined ? {} : { bytes: nodeBytes });
  const store = await open(url, { maxClients: 8, ...options });
  t.after(() => store.close());
  return new Writer(store, bytes);
}

/** Doorbells of writes of new keys to a store that holds `RECORDS`. */
async function counted(t: TestContext, bytes: number, options: OpenOptions): Promise<Counts> {
  const writer = await writerTo(t, bytes, options);
  await writer.write(RECORDS + WIDTH);
  return writer.counted(WRITES);
}

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

for (const { manifest } of INDEX_KINDS) {
  const index = manifest.name as IndexName;

  for (const bytes of LEAVES.includes(index) ? [SHORT, LONG] : [LONG]) {
    test(`${index}: evictions for values of ${bytes} bytes share doorbells`, async (t) => {
      const roomy = await counted(t, bytes, { index });
      const full = await counted(t, bytes, { index, maxRecords: RECORDS, eviction: 'lru' });
      const [most, least] = [1.1 * WRITES, 0.9 * WRITES];
      assert.ok(full.evictions > least && full.evictions < most, `${full.evictions} evictions`);
      const more = full.doorbells - roomy.doorbells;
      const each = `${roomy.doorbells} without evictions`;
      assert.ok(more <= moreMax(index), `${more} more doorbells a write, ${each}`);
    });
  }
}

for (const { index, bytes, most } of FULL_POOLS) {
  test(`${index}: so they do in a full pool, for values of ${bytes} bytes`, async (t) => {
    const roomy = await counted(t, bytes, { index });
    const full = await countedWhenFull(t, bytes, index);
    assert.ok(full.evictions > WRITES / 4, `${full.evictions} evictions`);
    const more = full.doorbells - roomy.doorbells;
    assert.ok(more <= most, `${more} more doorbells a write, ${roomy.doorbells} without evictions`);
  });
}
