import assert from 'node:assert/strict';
import { test } from 'node:test';
import { requestFor, Stepped, shardByHand } from '../../../store/tests/support/by-hand.ts';
import { numbered, type Scope } from '../../../store/tests/support/pools.ts';
import { IF_ABSENT, INSERTED } from '../../contract.ts';
import { eachBucket } from '../each-bucket.ts';
import { type Cleared, clearOverflow } from '../overflow.ts';
import { resize } from '../resizing/resize.ts';
import { OVERFLOW_MASK } from '../table/slot.ts';
import { type Client, get, put, remove } from './support/clients.ts';

const CROWDED = { buckets: 2, level1: 2, level2: 1, resizes: 4 };
const KEYS = numbered('key ', 40);

function clients(scope: Scope, count: number, shard = CROWDED): Client[] {
  const first = shardByHand(scope, { shard });
  const more = Array.from({ length: count - 1 }, () =>
    shardByHand(scope, { shard, handle: first.handle }),
  );
  return [first, ...more].map((client) => {
    client.pool.enter();
    scope.after(() => client.pool.exit());
    const { table } = client.index;
    table.syncEvery = Number.POSITIVE_INFINITY;
    // Nobody resizes the table but a test, also when chains grow.
    Object.defineProperty(table, 'crowded', { get: () => false, set: () => {} });
    return client;
  });
}

const clearWith = ({ pool, index }: Client): Cleared => pool.run(clearOverflow(index.table));

function assertWhole({ pool, index }: Client): void {
  const problems: string[] = [];
  const problem = (text: string) => problems.push(text);
  pool.run(index.check({ problem, reachable: () => {}, progress: () => {} }));
  assert.deepEqual(problems, []);
}

function overflowed({ pool, index }: Client): number {
  let count = 0;
  const visit = ({
    words,
    at,
    level,
  }: {
    words: { i32: Int32Array };
    at: number;
    level: number;
  }) => {
    if (level === 0 && (words.i32[(at >> 2) + 1] & OVERFLOW_MASK) !== 0) count++;
  };
  pool.run(eachBucket(index.table, visit));
  return count;
}

test('a bucket that has nothing below any more loses its overflow bit, the others keep theirs', (t) => {
  const [client, other] = clients(t, 2);
  for (const key of KEYS) put(client, key);
  assert.equal(overflowed(client), 2);
  assert.deepEqual(clearWith(client), { cleared: 0, nodes: 0 });
  assert.equal(overflowed(client), 2);
  for (const key of KEYS.slice(4)) assert.ok(remove(other, key));
  const { cleared, nodes } = clearWith(client);
  assert.ok(nodes > 0);
  // The first four may be below as well, by their hashes: exactly those buckets are kept.
  assert.equal(overflowed(client), 2 - cleared);
  for (const key of KEYS.slice(0, 4)) assert.ok(remove(other, key));
  assert.equal(cleared + clearWith(client).cleared, 2);
  assert.equal(overflowed(client), 0);
  for (const each of [client, other])
    for (const key of KEYS) assert.equal(get(each, key), undefined);
  for (const key of KEYS) assert.equal(put(other, key, 'again'), INSERTED);
  for (const key of KEYS) assert.equal(get(client, key), 'again');
  assertWhole(client);
});

test('an empty chain that several buckets share is given back once', (t) => {
  const [client, other] = clients(t, 2);
  for (const key of KEYS) put(client, key);
  for (let i = 0; i < 2; i++) {
    assert.ok(client.pool.run(resize(client.index.table)));
    for (const key of KEYS) assert.equal(get(client, key), key);
  }
  for (const key of KEYS) assert.ok(remove(other, key));
  const before = client.pool.reclamation.waiting().length;
  const { nodes } = clearWith(client);
  assert.ok(nodes >= 2, `${nodes} nodes`);
  assert.equal(client.pool.reclamation.waiting().length, before + nodes);
  assert.equal(new Set(client.pool.reclamation.waiting()).size, before + nodes);
  assert.equal(clearWith(other).nodes, 0);
  for (const key of KEYS) put(other, key, 'again');
  for (const key of KEYS) assert.equal(get(client, key), 'again');
  assertWhole(other);
});

/** The others get so far between any two steps of the clearing. */
test('who inserts below while another clears bits is found, wherever both are', (t) => {
  for (let stop = 0; ; stop++) {
    const [client, other] = clients(t, 2);
    for (const key of KEYS) put(client, key);
    for (const key of KEYS) remove(client, key);
    const clearing = new Stepped(client.pool.fabric, clearOverflow(client.index.table));
    while (!clearing.done && clearing.steps < stop) clearing.step();
    const wasDone = clearing.done;
    for (const key of KEYS) assert.equal(put(other, key, 'new'), INSERTED);
    clearing.finish();
    for (const each of [client, other]) for (const key of KEYS) assert.equal(get(each, key), 'new');
    assertWhole(other);
    if (wasDone) break;
  }
});

test('an insertion that stops between any two steps, while another clears bits, is right in the end', (t) => {
  for (let first = 0; first < 3; first++) {
    for (let stop = 0; ; stop++) {
      const [client, other] = clients(t, 2);
      for (const key of KEYS) put(client, key);
      for (const key of KEYS.slice(first === 0 ? 0 : 12 * first)) remove(client, key);
      const request = requestFor(other, 'one more', 'v');
      const slow = new Stepped(other.pool.fabric, other.index.write(request, IF_ABSENT));
      while (!slow.done && slow.steps < stop) slow.step();
      const wasDone = slow.done;
      clearWith(client);
      assert.equal(slow.finish(), INSERTED);
      assert.equal(get(client, 'one more'), 'v');
      clearWith(other);
      assert.equal(get(client, 'one more'), 'v');
      assertWhole(client);
      if (wasDone) break;
    }
  }
});

test('one who dies while it clears bits leaves a table that serves all and can be cleared again', (t) => {
  for (let stop = 0; ; stop++) {
    const [dying, other] = clients(t, 2);
    for (const key of KEYS) put(dying, key);
    for (const key of KEYS) remove(dying, key);
    const last = new Stepped(dying.pool.fabric, clearOverflow(dying.index.table));
    while (!last.done && last.steps < stop) last.step();
    if (last.done) break;
    last.dieAfter(stop % 3);
    for (const key of KEYS) assert.equal(put(other, key, 'new'), INSERTED);
    assertWhole(other);
    clearWith(other);
    for (const key of KEYS) assert.equal(get(other, key), 'new');
    for (let i = 0; i < 2; i++) assert.ok(other.pool.run(resize(other.index.table)));
    for (const key of KEYS) assert.ok(remove(other, key));
    clearWith(other);
    assert.equal(overflowed(other), 0);
    for (const key of KEYS) put(other, key, 'newer');
    for (const key of KEYS) assert.equal(get(other, key), 'newer');
    assertWhole(other);
  }
});

test('a table that grows is cleared of stale bits by the client that has resized it', (t) => {
  const client = shardByHand(t, { shard: { buckets: 4, level1: 8, level2: 2 } });
  for (const key of numbered('k', 3000)) put(client, key);
  assert.ok(client.index.table.resizes > 3);
  assert.ok(client.index.table.reclaimed.cleared > 0);
  assertWhole(client);
});
