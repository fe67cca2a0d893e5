import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CHUNK_BYTES } from '../../../pool/layout.ts';
import type { AsyncStore, OpenOptions, Value } from '../../api.ts';
import { open } from '../../open.ts';
import { rejectsCode } from '../../tests/support/codes.ts';
import type { Scope } from '../../tests/support/pools.ts';
import { openAlone, startNodes } from '../../tests/support/remote.ts';
import { type MemoryNodeReport, memoryNodes } from '../memory-nodes.ts';

const NODES = 3;
const RECORDS = 1500;
/** The most of 64 partitions for each of so many nodes: the even share and a quarter. */
const CAPACITY: Record<number, number> = { 2: 40, 3: 27 };

async function opened(scope: Scope, index: OpenOptions['index']) {
  const { url } = await startNodes(scope, NODES, { bytes: 32 * 2 ** 20 });
  const stores = [await openAlone(url, { index }), await openAlone(url)];
  scope.after(async () => {
    for (const store of stores) await store.close();
  });
  return { url, stores };
}

const entries = (from: number, to: number) =>
  Array.from({ length: to - from }, (_, i) => [`key ${from + i}`, `value ${from + i}`] as const);

async function assertHolds(store: AsyncStore<Value>, model: ReadonlyMap<string, string>) {
  const keys = [...model.keys()];
  assert.deepEqual(await store.getMany(keys), [...model.values()]);
  assert.equal((await store.stats()).records, model.size);
}

function assertPlaced(nodes: readonly MemoryNodeReport[], on: readonly number[]): void {
  for (const { number, placed, parts = 0, tables = 0 } of nodes) {
    assert.equal(placed, on.includes(number));
    assert.ok(parts <= (placed ? CAPACITY[on.length] : 0), `${parts} parts on node ${number}`);
    assert.equal(tables > 0, parts > 0);
  }
  assert.equal(
    nodes.reduce((sum, { parts = 0 }) => sum + parts, 0),
    64,
  );
}

test('a memory node is taken from a SHARD index and given back while clients write', async (t) => {
  const { url, stores } = await opened(t, 'shard');
  const model = new Map<string, string>(entries(0, RECORDS));
  await stores[0].setMany(entries(0, RECORDS));
  assertPlaced((await memoryNodes(url)).nodes, [1, 2, 3]);
  let next = RECORDS;
  const traffic = async (turning: Promise<unknown>) => {
    let turned = false;
    const isDone = turning.finally(() => {
      turned = true;
    });
    do {
      const added = entries(next, next + 50);
      next += added.length;
      for (const [key, value] of added) model.set(key, value);
      await stores[next % 2].setMany(added);
      const some = entries(next % RECORDS, (next % RECORDS) + 20);
      const found = await stores[1].getMany(some.map(([key]) => key));
      assert.deepEqual(
        found,
        some.map(([key]) => model.get(key)),
      );
    } while (!turned);
    return await isDone;
  };
  const last = new URL(url.split(',')[0]).host;
  const turns = [
    { change: { remove: ['2'] }, on: [1, 3] },
    { change: { add: ['2'], remove: [last] }, on: [2, 3] },
    { change: { add: ['1'] }, on: [1, 2, 3] },
  ];
  for (const { change, on } of turns) {
    const report = memoryNodes(url, change);
    await traffic(report);
    assert.ok((await report).moved > 0);
    assertPlaced((await report).nodes, on);
    for (const store of stores) await assertHolds(store, model);
  }
  assert.equal((await memoryNodes(url)).moved, 0);
});

test('what cannot be placed so is refused', async (t) => {
  const { url, stores } = await opened(t, 'shard');
  await stores[0].set('key', 'value');
  await rejectsCode('SW_INVALID_ARGUMENT', () => memoryNodes(url, { remove: ['4'] }));
  await rejectsCode('SW_INVALID_ARGUMENT', () => memoryNodes(url, { add: ['elsewhere:1'] }));
  await rejectsCode('SW_INVALID_ARGUMENT', () => memoryNodes(url, { add: ['x:y'] }));
  await rejectsCode('SW_INVALID_ARGUMENT', () => memoryNodes(url, { remove: ['1', '2', '3'] }));
  await rejectsCode('SW_STORE_NOT_FOUND', () => memoryNodes(url, { store: 'other' }));
  assert.equal(await stores[1].get('key'), 'value');
  const race = await open(url, { store: 'race', index: 'race' });
  await race.set('key', 'value');
  await race.close();
  await rejectsCode('SW_UNSUPPORTED', () => memoryNodes(url, { store: 'race', remove: ['1'] }));
  const { index, nodes } = await memoryNodes(`${url}/race`);
  assert.equal(index, 'race');
  assert.ok(nodes.every(({ parts }) => parts === undefined));
});

for (const index of ['race', 'sephash'] as const) {
  test(`segments and records of ${index} are dealt out to all nodes`, async (t) => {
    const { url, stores } = await opened(t, index);
    await stores[0].setMany(entries(0, 10_000));
    const { nodes } = await memoryNodes(url);
    const sums = nodes.map(({ memory }) => memory.tables + memory.records + memory.spans);
    // Chunks go round the nodes; those of the pool's own tables on the first one count, too.
    assert.ok(Math.min(...sums) > 0, `${sums}`);
    // SepHash's merges give chunks back, wherever they are.
    const uneven = index === 'sephash' ? 6 : 3;
    assert.ok(Math.max(...sums) - Math.min(...sums) <= uneven * CHUNK_BYTES, `${sums}`);
  });
}
