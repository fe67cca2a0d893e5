import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { CHUNK_BYTES } from '../../../pool/layout.ts';
import type { LocalPool } from '../../../pool/local-pool.ts';
import { recycleEmptied } from '../../../pool/memory/emptied-chunks.ts';
import { UNIT_BYTES } from '../../../verbs/index.ts';
import type { Store } from '../../api.ts';
import { attach, inspectSync, openSync } from '../../open.ts';
import type { MemoryReport, PoolReport } from '../../reports.ts';
import { attachTo, freshStore, numbered } from '../../tests/support/pools.ts';
import { observePool } from '../../watching/observer.ts';

const UNITS = 16;
const BLOCK = UNITS * UNIT_BYTES;

interface Client {
  pool: LocalPool;
  catalog: number;
}

/** A client that has the stores open and is idle. */
function clientOf(t: TestContext, { handle }: Store, name: string, stores = ['default']): Client {
  const { client } = attach(handle, { create: false, client: name });
  t.after(() => client.end());
  for (const store of stores) client.open({ store, create: false });
  const { pool } = client;
  const entry = pool.run(pool.catalog.find('default'));
  pool.run(pool.reclamation.goOffline());
  return { pool, catalog: entry?.id ?? 0 };
}

/** A pool whose only client is idle and has told what it holds. */
async function storeAtRest(t: TestContext): Promise<Store> {
  const store = freshStore(t, 'memory', { index: 'race' });
  for (const key of numbered('key ', 200)) store.set(key, key);
  await new Promise(setImmediate);
  return store;
}

/** Allocates blocks, retires some of them, and goes idle: they wait for clients that are not. */
function retire({ pool, catalog }: Client, allocated: number, retired: number): void {
  pool.enter();
  const blocks = Array.from({ length: allocated }, () => {
    return pool.run(pool.allocator.allocate(catalog, UNITS));
  });
  for (const block of blocks.slice(0, retired)) pool.reclamation.retire(block, UNITS, catalog);
  pool.exit();
  pool.rest();
  pool.run(pool.collectIdle());
}

function publish({ pool }: Client): void {
  assert.ok(Number.isFinite(pool.tellsInMs), 'it has something to tell, and tells it by a timer');
  pool.run(pool.telling());
}

function sumOf(memory: MemoryReport): number {
  const { live, claimed, waiting, freeBlocks, freeChunks, overhead } = memory;
  return live + claimed + waiting + freeBlocks + freeChunks + overhead;
}

/** What a walk of the state bytes and the chunk table finds in use. */
function usedBytes({ pool, catalog }: Client): number {
  let used = 0;
  pool.run(
    pool.allocator.eachMap(catalog, ({ blocks, units }, _, map) => {
      for (let i = 0; i < blocks; i++) if (map[i] !== 0) used += units * UNIT_BYTES;
    }),
  );
  return used;
}

function heldIn({ clients }: Pick<PoolReport, 'clients'>) {
  const held = clients.filter(({ name }) => name.startsWith('client'));
  return held.map(({ name, claimed, waiting, lags }) => [name, claimed, waiting, lags]);
}

/** One retired three blocks that wait for another, which is in an operation; a third claims. */
async function clientsOf(t: TestContext) {
  const store = await storeAtRest(t);
  const holder = clientOf(t, store, 'client holder');
  const owner = clientOf(t, store, 'client owner');
  const claimer = clientOf(t, store, 'client claimer');
  holder.pool.enter();
  retire(owner, 5, 3);
  claimer.pool.enter();
  // Claims are of one block, of two and of four.
  const { pool, catalog } = claimer;
  for (let i = 0; i < 4; i++) pool.run(pool.allocator.allocate(catalog, UNITS));
  publish(owner);
  publish(claimer);
  return { store, holder, owner, claimer };
}

test('a report tells what is claimed ahead and what waits, of which clients, and for which', async (t) => {
  const { store, holder, owner, claimer } = await clientsOf(t);
  const report = inspectSync(store.handle);
  assert.deepEqual(heldIn(report), [
    ['client holder', 0, 0, true],
    ['client owner', 0, 3 * BLOCK, false],
    ['client claimer', 3 * BLOCK, 0, false],
  ]);
  const { memory } = report;
  assert.deepEqual([memory.claimed, memory.waiting], [3 * BLOCK, 3 * BLOCK]);
  assert.deepEqual([memory.total, sumOf(memory)], [report.sizeMax, report.sizeMax]);
  assert.equal(memory.freeChunks, report.chunks.free * CHUNK_BYTES);
  const [{ store: name, used, live, free }] = memory.stores;
  assert.deepEqual([name, live, free], ['default', used - 6 * BLOCK, memory.freeBlocks]);
  assert.equal(live, memory.live);
  const spans = memory.blocks.find(({ blockSize }) => blockSize === CHUNK_BYTES)?.used ?? 0;
  assert.equal(used - spans, usedBytes(owner));
  const size = memory.blocks.find(({ blockSize }) => blockSize === BLOCK);
  // Five and four blocks were allocated, and three are claimed: two chunks, as clients spread.
  assert.equal(size?.used, 12 * BLOCK);

  holder.pool.exit();
  claimer.pool.exit();
  for (const { pool } of [holder, claimer]) pool.rest();
  owner.pool.run(owner.pool.collectIdle());
  publish(owner);
  publish(claimer);
  const later = inspectSync(store.handle);
  assert.deepEqual(heldIn(later).flat().filter(Boolean), [
    'client holder',
    'client owner',
    'client claimer',
  ]);
  assert.deepEqual([later.memory.claimed, later.memory.waiting], [0, 0]);
  assert.equal(later.memory.live, live, 'of nine blocks six are in use');
  assert.equal(sumOf(later.memory), later.sizeMax);
});

test('a viewer tells the same; a client holds memory back when two looks find it so', async (t) => {
  const { store, holder } = await clientsOf(t);
  const observer = await observePool(store.handle, 'memory:', { client: 'observer' });
  t.after(() => observer.close());
  const first = await observer.observe();
  const second = await observer.observe();
  const heldOf = ({ clients }: typeof first) => heldIn({ clients: clients as never });
  assert.deepEqual(
    heldOf(first).map(([, , , lags]) => lags),
    [false, false, false],
  );
  assert.deepEqual(heldOf(second), [
    ['client holder', 0, 0, true],
    ['client owner', 0, 3 * BLOCK, false],
    ['client claimer', 3 * BLOCK, 0, false],
  ]);
  assert.deepEqual([sumOf(second.memory), second.memory.total], [second.sizeMax, second.sizeMax]);
  assert.equal(second.bytesUsed, second.sizeMax - second.memory.freeChunks);
  holder.pool.exit();
  holder.pool.rest();
  assert.deepEqual(
    heldOf(await observer.observe()).map(([, , , lags]) => lags),
    [false, false, false],
  );
});

test('what is live in a store is not told where a client of two stores holds memory', async (t) => {
  const store = await storeAtRest(t);
  const other = openSync(store.handle, { store: 'other', create: true });
  t.after(() => other.close());
  await new Promise(setImmediate);
  const single = clientOf(t, store, 'client one');
  const both = clientOf(t, store, 'client both', ['default', 'other']);
  const holder = clientOf(t, store, 'client holder', ['other']);
  const liveOf = () => {
    const { stores } = inspectSync(store.handle).memory;
    return stores.map(({ store, used, live }) => [store, live === null ? null : used - live]);
  };
  holder.pool.enter();
  retire(single, 2, 2);
  publish(single);
  assert.deepEqual(liveOf(), [
    ['default', 2 * BLOCK],
    ['other', 0],
  ]);
  retire(both, 1, 1);
  publish(both);
  assert.deepEqual(liveOf(), [
    ['default', null],
    ['other', null],
  ]);
  holder.pool.exit();
});

test('spans and chunks that wait count whole, and the chunks without being told', async (t) => {
  const store = await storeAtRest(t);
  const before = inspectSync(store.handle).memory;
  const holder = clientOf(t, store, 'client holder');
  const owner = clientOf(t, store, 'client owner');
  const { pool, catalog } = owner;
  holder.pool.enter();
  pool.enter();
  const units = CHUNK_BYTES / UNIT_BYTES + 1;
  const span = pool.run(pool.allocator.allocate(catalog, units));
  const chunks = pool.run(pool.allocator.spans.takeOver(catalog, span, units));
  pool.reclamation.retireSpan(chunks, catalog);
  const block = pool.run(pool.allocator.allocate(catalog, units - 2));
  pool.allocator.discard(catalog, units - 2, block);
  pool.exit();
  pool.rest();
  publish(owner);
  assert.equal(inspectSync(store.handle).memory.waiting, 2 * CHUNK_BYTES);
  pool.allocator.leaveChunks();
  pool.run(pool.reclamation.duringEpoch(() => recycleEmptied(pool, 1)));
  const { memory, clients } = inspectSync(store.handle);
  assert.equal(memory.waiting, 3 * CHUNK_BYTES);
  assert.equal(clients.find(({ name }) => name === 'client owner')?.waiting, 3 * CHUNK_BYTES);
  assert.equal(memory.live, before.live);
  assert.equal(sumOf(memory), memory.total);
  holder.pool.exit();
  holder.pool.rest();
  pool.run(pool.collectIdle());
  publish(owner);
  const { memory: after } = inspectSync(store.handle);
  assert.deepEqual([after.waiting, after.freeChunks], [0, before.freeChunks]);
});

test('what a client tells is at most what is there, however late', async (t) => {
  const store = await storeAtRest(t);
  const liar = clientOf(t, store, 'client liar');
  const { pool } = liar;
  pool.meter.noteHeld(2 ** 40, 2 ** 40);
  pool.run(pool.meter.tell(pool.unwaited, pool.layout.clientEntry(pool.membership.id)));
  const { memory, sizeMax } = inspectSync(store.handle);
  assert.deepEqual([memory.live, memory.claimed, sumOf(memory)], [0, 0, sizeMax]);
  assert.deepEqual(
    memory.stores.map(({ live }) => live),
    [0],
  );
  const alone = attachTo(t, store);
  assert.equal(alone.size, 200);
});
