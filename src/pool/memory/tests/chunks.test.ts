import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { clientByHand } from '../../../store/tests/support/by-hand.ts';
import { throwsCode } from '../../../store/tests/support/codes.ts';
import { control, packFields, unpackFields } from '../../control.ts';
import { SUPERBLOCK } from '../../layout.ts';
import {
  blocksWord,
  CHUNK_BLOCKS,
  CHUNK_EMPTIED,
  CHUNK_SPAN,
  freeBlocks,
  ownedWord,
  packChunk,
  unpackChunk,
} from '../chunk-word.ts';

const MIB = 2 ** 20;

test('a chunk word keeps its fields', () => {
  for (const word of [
    { state: 0, catalog: 0, units: 0, owner: 0, incarnation: 0, free: 0 },
    { state: CHUNK_SPAN, catalog: 64, units: 1280, owner: 4095, incarnation: 65_535, free: 0 },
    { state: CHUNK_BLOCKS, catalog: 255, units: 65_535, owner: 0, incarnation: 0, free: 4032 },
    { state: CHUNK_EMPTIED, catalog: 1, units: 7, owner: 3, incarnation: 0, free: -1 },
  ]) {
    assert.deepEqual(unpackChunk(packChunk(word)), word);
  }
});

test('a count of free blocks that goes below zero changes no other field', () => {
  const word = packChunk(blocksWord(3, 4, 2));
  const less = unpackChunk(BigInt.asUintN(64, word + freeBlocks(-5)));
  assert.deepEqual(less, blocksWord(3, 4, -3));
  const again = unpackChunk(BigInt.asUintN(64, packChunk(less) + freeBlocks(9)));
  assert.deepEqual(again, blocksWord(3, 4, 6));
});

test('fields from the lowest bit up', () => {
  const widths = [2, 16, 22, 22];
  const values = [3, 65_535, 4_194_303, 1];
  const word = packFields(values, widths);
  assert.deepEqual(unpackFields(word, widths), values);
  assert.equal(word & 3n, 3n);
});

test('taking chunks until the pool is full, then giving one back', (t) => {
  const { pool } = clientByHand(t, { size: 8 * MIB, regionSize: 4 * MIB });
  const word = ownedWord(CHUNK_SPAN, 60, 0, { owner: 9, incarnation: 9 });
  const taken: number[] = [];
  throwsCode('SW_POOL_FULL', () => {
    for (;;) taken.push(pool.run(pool.chunks.take(word, word)).chunk);
  });
  assert.equal(new Set(taken).size, taken.length);
  assert.ok(taken.length > 20 && taken.length < 32);
  assert.equal(pool.run(control.load(SUPERBLOCK.regionCount)), 2n, 'the pool has grown');
  for (const chunk of taken) {
    const start = pool.layout.chunkStart(chunk);
    assert.equal(pool.chunks.chunkOf(start), chunk);
    assert.equal(pool.chunks.chunkOf(start + 256 * 1024 - 64), chunk);
  }
  pool.run(pool.chunks.release(taken[3], word));
  const again = pool.run(pool.chunks.take(word, word));
  assert.deepEqual(again, { chunk: taken[3], origin: 'recycled' });
  throwsCode('SW_POOL_FULL', () => pool.run(pool.chunks.take(word, word)));
});

test('a span lies within one region, and what it skips is not lost', (t) => {
  const { pool } = clientByHand(t, { size: 8 * MIB, regionSize: 4 * MIB });
  const span = ownedWord(CHUNK_SPAN, 60, 0, { owner: 9, incarnation: 9 });
  const first = pool.run(pool.chunks.takeSpan(span, 15, 0));
  assert.ok(first % 16 === 1 || first % 16 === 0, `${first}`);
  const word = ownedWord(CHUNK_SPAN, 60, 0, { owner: 9, incarnation: 9 });
  const { chunk } = pool.run(pool.chunks.take(word, word));
  assert.ok(chunk < first, 'the skipped chunks come next');
  throwsCode('SW_POOL_FULL', () => pool.run(pool.chunks.takeSpan(span, 16, 0)));
});

test('a span that no region can hold is refused, and the pool does not grow for it', (t) => {
  const { pool } = clientByHand(t, { size: 16 * MIB, regionSize: 4 * MIB });
  const span = ownedWord(CHUNK_SPAN, 60, 0, { owner: 9, incarnation: 9 });
  throwsCode('SW_POOL_FULL', () => pool.run(pool.chunks.takeSpan(span, 17, 0)));
  assert.equal(pool.run(control.load(SUPERBLOCK.regionCount)), 1n);
});

test('of many clients that want a chunk at once each tries few, and all get one', (t) => {
  const { pool } = clientByHand(t, { size: 128 * MIB, regionSize: 64 * MIB });
  const clients = 100;
  const ownedBy = (owner: number) => ownedWord(CHUNK_SPAN, 60, 0, { owner, incarnation: 9 });
  const takers = Array.from({ length: clients }, (_, i) =>
    pool.chunks.take(ownedBy(10 + i), ownedBy(10 + i)),
  );
  const taken: number[] = [];
  const before = pool.fabric.traffic.snapshot().compareAndSwaps;
  for (let left = takers; left.length > 0; ) {
    left = left.filter((taker) => {
      const step = taker.next();
      if (step.done) taken.push(step.value.chunk);
      else pool.fabric.execute(step.value);
      return !step.done;
    });
  }
  assert.equal(new Set(taken).size, clients);
  const tried = pool.fabric.traffic.snapshot().compareAndSwaps - before;
  assert.ok(tried < 15 * clients, `${tried} CAS; one after the other they are ${clients ** 2 / 2}`);
  // What they have passed is found by those that come later.
  const rest: number[] = [];
  throwsCode('SW_POOL_FULL', () => {
    for (;;) rest.push(pool.run(pool.chunks.take(ownedBy(9), ownedBy(9))).chunk);
  });
  assert.equal(new Set([...taken, ...rest]).size, clients + rest.length);
  assert.ok(clients + rest.length > 500, `${rest.length}`);
});

/** Two clients take the last two chunks, and one stands still after so many doorbells. */
function lastChunksTaken(t: TestContext, steps: number): boolean {
  const { pool, handle } = clientByHand(t, { size: 8 * MIB, regionSize: 8 * MIB });
  const other = clientByHand(t, { handle }).pool;
  const word = ownedWord(CHUNK_SPAN, 60, 0, { owner: 9, incarnation: 9 });
  while (pool.run(pool.chunks.take(word, word)).chunk < pool.layout.chunksMax - 3);
  const taker = other.chunks.take(word, word);
  let next = taker.next();
  for (let i = 0; i < steps && !next.done; i++) {
    other.fabric.execute(next.value);
    next = taker.next();
  }
  const wasOver = next.done === true;
  pool.run(pool.chunks.take(word, word));
  for (; !next.done; next = taker.next()) other.fabric.execute(next.value);
  throwsCode('SW_POOL_FULL', () => pool.run(pool.chunks.take(word, word)));
  const isLeft = pool.run(pool.chunks.hasMoreThan(0));
  assert.ok(!isLeft, `a chunk is said to be free: stopped after ${steps} doorbells`);
  return wasOver;
}

test('of clients that take the last chunks together none leaves the frontier before them', (t) => {
  let steps = 0;
  while (!lastChunksTaken(t, steps)) steps++;
  assert.ok(steps > 3, `${steps} doorbells`);
});
