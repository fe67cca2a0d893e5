import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { StepwellError } from '../../../errors.ts';
import { clientByHand } from '../../../store/tests/support/by-hand.ts';
import { throwsCode } from '../../../store/tests/support/codes.ts';
import { ADDS, type Operation } from '../../../verbs/index.ts';
import { runTogether } from '../../../verbs/tests/support/run-together.ts';
import { blocksPerChunk, CHUNK_BYTES } from '../../layout.ts';
import { claimedBlocks } from './support/claimed-blocks.ts';

const CATALOG = 60;

/** A client that may allocate: it has announced an epoch. */
function online(t: TestContext, options: Parameters<typeof clientByHand>[1] = {}) {
  const client = clientByHand(t, options);
  client.pool.run(client.pool.reclamation.quiesce());
  return client;
}

function assertDistinct(addresses: readonly number[], units: number): void {
  const sorted = addresses.toSorted((a, b) => a - b);
  for (let i = 1; i < sorted.length; i++) {
    assert.ok(sorted[i] - sorted[i - 1] >= 64 * units, `${sorted[i - 1]} and ${sorted[i]} overlap`);
  }
}

test('blocks of a class are aligned to lines and do not overlap', (t) => {
  const { pool } = online(t);
  for (const units of [1, 3, 40, 256, 511, 1280]) {
    const blocks = Array.from({ length: 50 }, () =>
      pool.run(pool.allocator.allocate(CATALOG, units)),
    );
    assertDistinct(blocks, units);
    for (const block of blocks) {
      assert.equal(block % 64, 0);
      const inChunk = block % CHUNK_BYTES;
      assert.ok(inChunk + 64 * units <= CHUNK_BYTES, 'within its chunk');
    }
  }
});

test('two clients never get the same block', (t) => {
  const first = online(t);
  const second = online(t, { handle: first.handle });
  const blocks: number[] = [];
  for (let i = 0; i < 300; i++) {
    const { pool } = i % 2 === 0 ? first : second;
    blocks.push(pool.run(pool.allocator.allocate(CATALOG, 16)));
  }
  assertDistinct(blocks, 16);
});

test('interleaved operations that all run out of blocks get different ones', (t) => {
  const { pool } = online(t);
  const { allocator } = pool;
  const units = 256;
  function* allocate(): Operation<number> {
    return yield* allocator.allocate(CATALOG, units);
  }
  const taken: number[] = [];
  const { rows } = pool.fabric.traffic;
  const before = rows[ADDS];
  runTogether(
    pool.fabric,
    Array.from({ length: 60 }, () => allocate()),
    taken,
  );
  assert.equal(taken.length, 60);
  // A claim adds to its chunk's word once, and claims for all operations that wait for it.
  const chunks = Math.ceil(60 / blocksPerChunk(units));
  assert.ok(rows[ADDS] - before <= chunks, `${rows[ADDS] - before} claims in ${chunks} chunks`);
  assertDistinct(taken, units);
});

test('of two operations that need two blocks each, two free ones serve one', (t) => {
  const { pool } = online(t, { size: 8 * 2 ** 20 });
  const { allocator } = pool;
  const units = 256;
  const blocks: number[] = [];
  throwsCode('SW_POOL_FULL', () => {
    for (;;) blocks.push(pool.run(allocator.allocate(CATALOG, units)));
  });
  for (const block of blocks.slice(0, 2)) allocator.discard(CATALOG, units, block);
  const lacked: unknown[] = [];
  function* allocateTwo(): Operation<number> {
    try {
      return (yield* allocator.allocateTogether(CATALOG, units, 2)).length;
    } catch (error) {
      if (!(error instanceof StepwellError)) throw error;
      lacked.push(allocator.lackedBy(error));
      return 0;
    }
  }
  const taken: number[] = [];
  runTogether(pool.fabric, [allocateTwo(), allocateTwo()], taken);
  assert.deepEqual(taken.toSorted(), [0, 2]);
  assert.deepEqual(lacked, [{ catalog: CATALOG, units, count: 2 }]);
});

test('what an operation lacked is told by its error, whatever others lack meanwhile', (t) => {
  const { pool } = online(t, { size: 8 * 2 ** 20 });
  const { allocator } = pool;
  const fail = (units: number): StepwellError => {
    try {
      for (;;) pool.run(allocator.allocate(CATALOG, units));
    } catch (error) {
      assert.ok(error instanceof StepwellError);
      return error;
    }
  };
  const [first, second] = [fail(256), fail(64)];
  assert.deepEqual(allocator.lackedBy(first), { catalog: CATALOG, units: 256, count: 1 });
  assert.deepEqual(allocator.lackedBy(second), { catalog: CATALOG, units: 64, count: 1 });
});

test('a block that one client frees any other can claim, wherever the first one is', (t) => {
  const first = online(t, { size: 8 * 2 ** 20 });
  const second = online(t, { handle: first.handle });
  const taken: number[] = [];
  throwsCode('SW_POOL_FULL', () => {
    for (;;) taken.push(first.pool.run(first.pool.allocator.allocate(CATALOG, 5)));
  });
  first.pool.run(first.pool.reclamation.goOffline());
  throwsCode('SW_POOL_FULL', () => second.pool.run(second.pool.allocator.allocate(CATALOG, 5)));
  const freed = taken.filter((_, i) => i % 700 === 0);
  for (const block of freed) second.pool.allocator.free(block, 5, CATALOG);
  second.pool.run(second.pool.reclamation.goOffline());
  second.pool.run(second.pool.reclamation.quiesce());
  const again = freed.map(() => second.pool.run(second.pool.allocator.allocate(CATALOG, 5)));
  assert.deepEqual(new Set(again), new Set(freed));
  throwsCode('SW_POOL_FULL', () => second.pool.run(second.pool.allocator.allocate(CATALOG, 5)));
});

test('a client that goes idle holds nothing that it has claimed ahead', (t) => {
  const { pool } = online(t);
  const block = pool.run(pool.allocator.allocate(CATALOG, 2));
  for (let i = 0; i < 200; i++) pool.run(pool.allocator.allocate(CATALOG, 3));
  pool.run(pool.reclamation.goOffline());
  assert.equal(claimedBlocks(pool, CATALOG).size, 201);
  assert.ok(claimedBlocks(pool, CATALOG).has(block));
  assert.throws(() => pool.run(pool.allocator.allocate(CATALOG, 2)), { code: 'SW_POOL_CORRUPT' });
});

test('chunks without a block in use serve any size when the pool is full', (t) => {
  const { pool } = online(t, { size: 8 * 2 ** 20 });
  const { allocator } = pool;
  const taken: number[] = [];
  throwsCode('SW_POOL_FULL', () => {
    for (;;) taken.push(pool.run(allocator.allocate(CATALOG, 129)));
  });
  const kept = taken.filter((_, i) => i % 93 === 0);
  for (const block of taken) if (!kept.includes(block)) allocator.free(block, 129, CATALOG);
  assert.ok(pool.run(pool.reclaiming()));
  const chunkOf = (block: number) => Math.floor(block / CHUNK_BYTES);
  const chunks = new Set(kept.map(chunkOf));
  const large = Array.from({ length: 8 }, () => pool.run(allocator.allocate(CATALOG + 1, 2047)));
  assert.ok(
    large.every((block) => !chunks.has(chunkOf(block))),
    'a block in use was given away',
  );
  assertDistinct([...large, ...kept], 129);
});

test('a full pool that stays as it is is not read anew for each block that it lacks', (t) => {
  const { pool } = online(t, { size: 32 * 2 ** 20 });
  const { allocator, layout } = pool;
  const { traffic } = pool.fabric;
  const lack = () => throwsCode('SW_POOL_FULL', () => pool.run(allocator.allocate(CATALOG, 256)));
  throwsCode('SW_POOL_FULL', () => {
    for (;;) pool.run(allocator.allocate(CATALOG, 256));
  });
  lack();
  const before = traffic.snapshot().bytesRead;
  const attempts = layout.chunksMax / 8;
  for (let i = 0; i < attempts; i++) lack();
  const tables = (traffic.snapshot().bytesRead - before) / (8 * layout.chunksMax);
  assert.ok(tables < 2, `${tables} tables for ${attempts} blocks`);
});

test('in a full pool retired blocks come free in parts, the last ones without others', (t) => {
  const { pool } = online(t, { size: 8 * 2 ** 20 });
  const { allocator, reclamation } = pool;
  const taken: number[] = [];
  throwsCode('SW_POOL_FULL', () => {
    for (;;) taken.push(pool.run(allocator.allocate(CATALOG, 5)));
  });
  const gone = taken.slice(0, 200);
  for (const block of gone) reclamation.retire(block, 5, CATALOG);
  const left: number[] = [];
  for (let points = 0; reclamation.retired > 0 && points < 20; points++) {
    pool.run(reclamation.quiesce());
    left.push(reclamation.retired);
  }
  assert.deepEqual(left.slice(0, 2), [150, 112]);
  assert.equal(left.at(-1), 0);
  const again = gone.map(() => pool.run(allocator.allocate(CATALOG, 5)));
  assert.deepEqual(new Set(again), new Set(gone));
});
