import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CHUNK_BLOCKS, CHUNK_DRAINING, packChunk } from '../../../pool/memory/chunk-word.ts';
import type { Address } from '../../../verbs/index.ts';
import type { Attachment } from '../../attachment.ts';
import { clientByHand, requestFor } from '../../tests/support/by-hand.ts';
import type { Scope } from '../../tests/support/pools.ts';
import { ChunkDrain, type Fate } from '../chunk-drain.ts';

/** Fills some chunks with records of one size, to drain them with an `evictAt` that only notes. */
function drainOf(t: Scope, fateOf: (block: Address) => Fate) {
  const client = clientByHand(t);
  const { pool, index } = client;
  for (let i = 0; i < 300; i++) {
    pool.run(index.write(requestFor(client, `k${i}`, 'v'.repeat(3000)), 0));
  }
  // Then it claims in none of them.
  pool.run(pool.allocator.surrender());
  pool.allocator.leaveChunks();
  const together: Attachment['together'] = function* (items, act) {
    for (const item of items) yield* act(item);
  };
  const attachment = { pool, width: 1, *enter() {}, exit() {}, together } as unknown as Attachment;
  const evicted: Address[] = [];
  const drain = new ChunkDrain(index, attachment, function* evictAt(block) {
    evicted.push(block);
    yield* [];
    return fateOf(block);
  });
  const chunkOf = (block: Address) => pool.chunks.chunkOf(block);
  const wordOf = (chunk: number) => pool.run(pool.chunks.wordOf(chunk));
  return { pool, drain, evicted, chunkOf, wordOf };
}

test('a chunk that has been recycled is drained no more', (t) => {
  const { pool, drain, evicted, chunkOf, wordOf } = drainOf(t, () => 'evicted');
  drain.owe();
  pool.run(drain.pay(1));
  const chunk = chunkOf(evicted[0]);
  const before = wordOf(chunk);
  assert.equal(before.state, CHUNK_DRAINING);
  // As another client does that frees the last block, and one that takes the chunk. It serves
  // another store, so that this one cannot choose it anew.
  const after = { ...before, state: CHUNK_BLOCKS, catalog: before.catalog + 1, free: 0 };
  assert.ok(pool.run(pool.chunks.swap(chunk, packChunk(before), after)));
  evicted.length = 0;
  drain.owe();
  pool.run(drain.pay(1));
  pool.run(drain.pay(1));
  assert.ok(evicted.length > 0);
  assert.ok(evicted.every((block) => chunkOf(block) !== chunk));
});

test('a chunk is drained once; what is not free after a sweep serves again', (t) => {
  const gone = new Set<Address>();
  const { pool, drain, evicted, chunkOf, wordOf } = drainOf(t, (block) => {
    if (gone.has(block)) return 'stays';
    gone.add(block);
    return 'evicted';
  });
  const drainOne = () => {
    evicted.length = 0;
    assert.ok(pool.run(drain.drainOne()) > 0);
    return chunkOf(evicted[0]);
  };
  const [first, second] = [drainOne(), drainOne()];
  assert.notEqual(first, second);
  assert.equal(wordOf(first).state, CHUNK_DRAINING);
  drain.noteSweep();
  while (pool.run(drain.drainOne()) > 0);
  assert.equal(wordOf(first).state, CHUNK_BLOCKS);
});

test('records that cannot be removed without memory are tried again', (t) => {
  let isFull = true;
  const { pool, drain, evicted, chunkOf, wordOf } = drainOf(t, () => (isFull ? 'full' : 'evicted'));
  assert.equal(pool.run(drain.drainOne()), 0);
  const chunk = chunkOf(evicted[0]);
  assert.equal(wordOf(chunk).state, CHUNK_DRAINING);
  isFull = false;
  for (let drains = 0; drains < 8; drains++) pool.run(drain.drainOne());
  assert.equal(evicted.filter((block) => chunkOf(block) === chunk).length > 1, true);
});
