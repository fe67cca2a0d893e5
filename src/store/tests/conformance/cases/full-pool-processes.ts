/** A pool that one process has filled, and what another one can do in it. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { IndexName, OpenOptions, Store } from '../../../api.ts';
import { openSync } from '../../../open.ts';
import { freshUrl, keepOpen } from '../../support/pools.ts';
import { Child } from '../../support/processes/children.ts';

const MIB = 2 ** 20;
const BYTES = 300;
/** What one client may hold back: caches of a few sizes, and what it has retired. */
const HELD_BYTES = 256 * 1024;

const turn = () => new Promise((resolve) => setImmediate(resolve));

async function set(child: Child, order: { url: string; options: OpenOptions; keys: number }) {
  const prefix = `${child.process.pid} `;
  const stored = await child.ask({ kind: 'set', ...order, prefix, bytes: BYTES });
  assert.equal(typeof stored, 'number', String(stored));
  return { prefix, stored: stored as number };
}

export function testFullPool(index: IndexName): void {
  test(`${index}: a set of a second process evicts few records of a full store`, async (t) => {
    const url = freshUrl(t, 'shm');
    const bound = { size: 12 * MIB, maxClients: 8, maxRecords: 1e6, eviction: 'lru' } as const;
    const store = keepOpen(t, openSync(url, { ...bound, index }));
    const first = new Child(t);
    await set(first, { url, options: { create: false }, keys: 35_000 });
    const records = () => store.stats().bound?.records as number;
    const before = records();
    const second = new Child(t);
    const { stored } = await set(second, { url, options: { create: false }, keys: 1 });
    assert.equal(stored, 1);
    assert.ok(records() >= 0.99 * before, `${records()} records of ${before}`);
  });

  test(`${index}: deletes of one process make room for its own records`, async (t) => {
    const url = freshUrl(t, 'shm');
    const store = keepOpen(t, openSync(url, { size: 12 * MIB, maxClients: 8, index }));
    const first = new Child(t);
    const filling = { url, options: { create: false }, keys: Number.MAX_SAFE_INTEGER };
    const { prefix, stored: filled } = await set(first, filling);
    for (let i = 0; i < filled; i += 2) {
      store.delete(`${prefix}${i}`);
      if (i % 500 === 0) await turn();
    }
    const wanted = Math.floor(filled / 2) - Math.ceil(HELD_BYTES / BYTES);
    assert.ok(wanted > 1000, `full at ${filled}`);
    const stored = await fill(store, BYTES, wanted);
    assert.ok(stored >= wanted, `${stored} stored, ${filled >> 1} deleted`);
  });

  test(`${index}: the memory of killed writers is for another store`, async (t) => {
    const url = freshUrl(t, 'shm');
    const options = { store: 'c', index, size: 32 * MIB, maxClients: 16 };
    openSync(url, options).close();
    const fresh = await fillOther(url);
    for (let round = 0; round < 3; round++) await killWriters(t, url);
    const cleared = openSync(url, { store: 'c', create: false });
    cleared.clear();
    cleared.close();
    const after = await fillOther(url);
    // A chunk has room for two of them; the tables of c may have grown by two chunks.
    assert.ok(after >= fresh - 4, `${after} large records, ${fresh} in a fresh pool`);
  });
}

/** Until the pool is full, or there are so many; returns how many. */
async function fill(store: Store, bytes: number, most: number): Promise<number> {
  const value = 'q'.repeat(bytes);
  for (let i = 0; i < most; i++) {
    if (i % 500 === 0) await turn();
    try {
      store.set(`other ${i}`, value);
    } catch (error) {
      assert.match(String(error), /pool is full/);
      return i;
    }
  }
  return most;
}

/** How many large records store d has room for; it has none afterwards. */
async function fillOther(url: string): Promise<number> {
  const store = openSync(url, { store: 'd', index: 'race' });
  const stored = await fill(store, 100_000, 10_000);
  store.clear();
  store.close();
  return stored;
}

async function killWriters(t: TestContext, url: string): Promise<void> {
  const writers = Array.from({ length: 3 }, () => new Child(t));
  const scribbling = { kind: 'scribble', url, keys: 2000, valueBytes: 4000 } as const;
  for (const writer of writers) {
    const options = { store: 'c', create: false };
    assert.equal(await writer.ask({ ...scribbling, options }), 'scribbling');
  }
  for (const writer of writers) await writer.signal('SIGKILL');
}
