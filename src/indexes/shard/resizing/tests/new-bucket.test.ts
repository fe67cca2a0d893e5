import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CHUNK_SPAN, ownedWord } from '../../../../pool/memory/chunk-word.ts';
import { requestFor, Stepped, shardByHand } from '../../../../store/tests/support/by-hand.ts';
import type { Scope } from '../../../../store/tests/support/pools.ts';
import { eachReachable } from '../../../sweep.ts';
import { type Client, get, put } from '../../tests/support/clients.ts';
import { resize } from '../resize.ts';

const SHARD = { buckets: 1, level1: 16, level2: 2, resizes: 6 };
const KEYS = Array.from({ length: 10 }, (_, i) => `key ${i}`);

/** Two clients of a table that was resized; the first has taken a new bucket and stands still. */
function stalled(scope: Scope, { shard = SHARD, nodes = 1 } = {}) {
  const first = shardByHand(scope, { shard, nodes });
  const other = shardByHand(scope, { shard, handle: first.handle });
  for (const { pool, index } of [first, other]) {
    pool.enter();
    scope.after(() => pool.exit());
    index.table.syncEvery = Number.POSITIVE_INFINITY;
    index.table.patience = { polls: 1, microseconds: 1 };
  }
  for (const key of KEYS) put(first, key, 'old');
  // So that this one has blocks of records, too.
  put(other, KEYS[0], 'old');
  assert.ok(first.pool.run(resize(first.index.table)));
  other.pool.run(other.index.table.segments.load());
  const taker = new Stepped(first.pool.fabric, first.index.search(requestFor(first, 'none')));
  while (!taker.done && !taker.kinds.startsWith('WRITE CAS')) taker.step();
  assert.ok(!taker.done, 'the new bucket is about to be filled');
  return { first, other, taker };
}

/** All keys as they should be, and every block of the table reached once. */
function assertWhole(client: Client): void {
  for (const key of KEYS) assert.equal(get(client, key), 'new');
  const problems: string[] = [];
  const reached: number[] = [];
  const problem = (text: string) => problems.push(text);
  const reachable = (address: number) => reached.push(address);
  client.pool.run(client.index.check({ problem, reachable, progress: () => {} }));
  assert.deepEqual(problems, []);
  assert.equal(new Set(reached).size, reached.length);
  const walked = new Set<number>();
  client.pool.run(eachReachable(client.index, (address) => walked.add(address)));
  for (const address of reached) assert.ok(walked.has(address), `${address} is not swept`);
}

test('a bucket whose mover lives but does not go on is put elsewhere, and the late WRITE is harmless', (t) => {
  const { first, other, taker } = stalled(t);
  for (const key of KEYS) put(other, key, 'new');
  assert.equal(other.index.table.relocated, 1);
  assert.equal(taker.finish(), false);
  const late = shardByHand(t, { shard: SHARD, handle: first.handle });
  for (const client of [first, other, late]) assertWhole(client);
  // The bucket is moved on from where it is.
  assert.ok(other.pool.run(resize(other.index.table)));
  for (const client of [first, other, late]) {
    client.pool.run(client.index.table.segments.load());
    assertWhole(client);
  }
});

test('in a full pool on several nodes a bucket is put into any free block of the client', (t) => {
  // Buckets of level 1 and records are of one size.
  const shard = { ...SHARD, partitions: 1, level1: 4 };
  const { first, other } = stalled(t, { shard, nodes: 3 });
  const { pool } = first;
  const word = ownedWord(CHUNK_SPAN, 60, 0, pool.allocator.client);
  const fill = function* () {
    for (;;) yield* pool.chunks.take(word, word);
  };
  assert.throws(() => pool.run(fill()), { code: 'SW_POOL_FULL' });
  for (const key of KEYS) put(other, key, 'new');
  assert.equal(other.index.table.relocated, 1);
  for (const client of [first, other]) assertWhole(client);
});

test('the place of a mover that is gone is taken over', (t) => {
  const { first, other, taker } = stalled(t);
  const { id } = first.pool.membership;
  other.pool.membership.liveness = (row) => (row.id === id ? 'gone' : 'alive');
  assert.ok(!taker.done);
  for (const key of KEYS) put(other, key, 'new');
  assert.equal(other.index.table.relocated, 0);
  assertWhole(other);
});

test('a mover that dies while it fills a bucket that it has taken over is followed by another', (t) => {
  const { first, other, taker } = stalled(t);
  const third = shardByHand(t, { shard: SHARD, handle: first.handle });
  const dead = new Set([first.pool.membership.id]);
  for (const { pool, index } of [other, third]) {
    pool.membership.liveness = (row) => (dead.has(row.id) ? 'gone' : 'alive');
    index.table.patience = { polls: 1, microseconds: 1 };
  }
  const second = new Stepped(other.pool.fabric, other.index.search(requestFor(other, 'none')));
  while (!second.done && !second.kinds.startsWith('WRITE CAS')) second.step();
  second.dieAfter(1);
  dead.add(other.pool.membership.id);
  assert.ok(!taker.done);
  for (const key of KEYS) put(third, key, 'new');
  assert.equal(third.index.table.relocated, 0);
  assertWhole(third);
});
