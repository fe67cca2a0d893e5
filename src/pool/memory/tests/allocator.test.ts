import assert from 'node:assert/strict';
import { test } from 'node:test';
import { clientByHand } from '../../../store/tests/support/by-hand.ts';
import { Batch, type Operation } from '../../../verbs/index.ts';
import { runTogether } from '../../../verbs/tests/support/run-together.ts';
import { CHUNK_BYTES } from '../../layout.ts';

const CATALOG = 60;

function assertDistinct(addresses: readonly number[], units: number): void {
  const sorted = addresses.toSorted((a, b) => a - b);
  for (let i = 1; i < sorted.length; i++) {
    assert.ok(sorted[i] - sorted[i - 1] >= 64 * units, `${sorted[i - 1]} and ${sorted[i]} overlap`);
  }
}

test('blocks of a class are aligned to lines and do not overlap', (t) => {
  const { pool } = clientByHand(t);
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
  const first = clientByHand(t);
  const second = clientByHand(t, { handle: first.handle });
  const blocks: number[] = [];
  for (let i = 0; i < 300; i++) {
    const { pool } = i % 2 === 0 ? first : second;
    blocks.push(pool.run(pool.allocator.allocate(CATALOG, 16)));
  }
  assertDistinct(blocks, 16);
});

test('interleaved operations that all run out of blocks get different ones', (t) => {
  const { pool } = clientByHand(t);
  const { allocator } = pool;
  const units = 256;
  const blocks = Array.from({ length: 60 }, () => pool.run(allocator.allocate(CATALOG, units)));
  const sizeClass = allocator.sizeClass(CATALOG, units);
  assert.ok(sizeClass.chunks.length > 3);
  // As if all of them had been freed by others: marked free in the state maps.
  for (const chunk of sizeClass.chunks) {
    const start = pool.layout.chunkStart(chunk);
    for (let i = 0; i < sizeClass.mapBytes; i++) pool.fabric.window(start + i, 1)[0] = 0;
  }
  sizeClass.cache.length = 0;
  sizeClass.current = undefined;
  function* allocate(): Operation<number> {
    return yield* allocator.allocate(CATALOG, units);
  }
  const again: number[] = [];
  runTogether(
    pool.fabric,
    blocks.slice(0, 32).map(() => allocate()),
    again,
  );
  assert.equal(again.length, 32);
  assertDistinct(again, units);
});

test('sizes that share chunks give up empty ones to each other, and to no other size', (t) => {
  const { pool } = clientByHand(t);
  const { allocator } = pool;
  const [small, large, other] = [129, 2047, 1023];
  allocator.shareChunks(CATALOG, [small, large]);
  const freeAll = (blocks: readonly number[], units: number) => {
    const batch = new Batch();
    for (const block of blocks) allocator.free(block, units, CATALOG, batch);
    if (batch.length > 0) pool.fabric.execute(batch);
  };
  const take = (units: number) => pool.run(allocator.allocate(CATALOG, units));
  const first = Array.from({ length: 62 }, () => take(small));
  const before = allocator.sizeClass(CATALOG, small).chunks.length;
  assert.ok(before >= 2);
  freeAll(first, small);
  take(other);
  assert.equal(allocator.sizeClass(CATALOG, small).chunks.length, before);
  const chunks = new Set(first.map((block) => Math.floor(block / CHUNK_BYTES)));
  const second = Array.from({ length: 2 * before }, () => take(large));
  assert.ok(second.every((block) => chunks.has(Math.floor(block / CHUNK_BYTES))));
  assert.equal(allocator.sizeClass(CATALOG, small).chunks.length, 0);
  assertDistinct([...second, take(small), take(small)], small);
});

test('a chunk with one block in use is not given up', (t) => {
  const { pool } = clientByHand(t);
  const { allocator } = pool;
  allocator.shareChunks(CATALOG, [129, 2047]);
  const kept = pool.run(allocator.allocate(CATALOG, 129));
  const freed = pool.run(allocator.allocate(CATALOG, 129));
  allocator.free(freed, 129, CATALOG, new Batch());
  const large = Array.from({ length: 4 }, () => pool.run(allocator.allocate(CATALOG, 2047)));
  const chunkOf = (block: number) => Math.floor(block / CHUNK_BYTES);
  assert.ok(large.every((block) => chunkOf(block) !== chunkOf(kept)));
});
