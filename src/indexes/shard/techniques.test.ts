import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type ByHand,
  foundText,
  requestFor,
  Stepped,
  shardByHand,
} from '../../store/test-support/by-hand.ts';
import { attachTo, freshStore, numbered } from '../../store/test-support/pools.ts';
import { runInterleaved } from '../../verbs/index.ts';
import { ALWAYS, type Outcome } from '../contract.ts';
import type { ShardIndex } from './shard.ts';
import type { Techniques } from './table.ts';

const KEYS = numbered('key ', 400);
const SMALL = { buckets: 2, level1: 8, level2: 2 };

function check({ pool, index }: ByHand<ShardIndex>): string[] {
  const problems: string[] = [];
  const problem = (text: string) => problems.push(text);
  pool.run(index.check({ problem, reachable: () => {}, progress: () => {} }));
  return problems;
}

const VARIANTS: Record<string, Partial<Techniques>> = {
  'without lazy resizing': { lazy: false },
  'without RDMA-combining': { combining: false },
  'with a fixed frequency of synchronisation': { synchronisation: 50 },
  'with delegation': { delegation: true },
};

for (const [name, techniques] of Object.entries(VARIANTS)) {
  test(`${name} the table is the same`, (t) => {
    const client = shardByHand(t, { shard: SMALL });
    const other = shardByHand(t, { shard: SMALL, handle: client.handle });
    Object.assign(client.index.table.techniques, techniques);
    const { pool, index } = client;
    for (const key of KEYS) pool.run(index.write(requestFor(client, key, key), ALWAYS));
    assert.ok(index.table.resizes > 2);
    for (const key of KEYS) {
      const request = requestFor(other, key);
      assert.ok(other.pool.run(other.index.search(request)));
      assert.equal(foundText(request), key);
    }
    assert.deepEqual(check(other), []);
  });
}

test('without lazy resizing nothing is left for others to move', (t) => {
  const client = shardByHand(t, { shard: SMALL });
  const other = shardByHand(t, { shard: SMALL, handle: client.handle });
  client.index.table.techniques.lazy = false;
  for (const key of KEYS) {
    client.pool.run(client.index.write(requestFor(client, key, key), ALWAYS));
  }
  for (const key of KEYS) assert.ok(other.pool.run(other.index.search(requestFor(other, key))));
  assert.equal(other.index.table.bucketsMoved, 0);
});

test('synchronisations become rare in an empty table and frequent in a full one', (t) => {
  const client = shardByHand(t, { shard: { buckets: 16, resizes: 0 } });
  const { pool, index } = client;
  const { table } = index;
  const frequencies: number[] = [];
  for (const key of numbered('k', 900)) {
    pool.run(index.write(requestFor(client, key, 'v'), ALWAYS));
    if (table.writes === 0) frequencies.push(table.syncEvery);
  }
  const most = frequencies.indexOf(Math.max(...frequencies));
  assert.deepEqual(frequencies.slice(0, 4), [2, 4, 8, 16]);
  // F = alpha * T * (R - L), as soon as the doubling has reached it.
  const falling = frequencies.slice(most, frequencies.indexOf(1, most));
  assert.ok(falling.every((each, i) => i === 0 || each <= falling[i - 1]));
  assert.equal(falling[0], Math.floor(0.1 * (16 * 72 * 0.8 - reportedAt(frequencies, most))));
});

/** Records at the synchronisation of this number: each follows so many writes after the last. */
function reportedAt(frequencies: readonly number[], number: number): number {
  return 1 + frequencies.slice(0, number).reduce((sum, each) => sum + each, 0);
}

test('reports of clients that come for a few writes add up to half at least', (t) => {
  const first = shardByHand(t, { shard: SMALL });
  for (let visit = 0; visit < 10; visit++) {
    const client = shardByHand(t, { shard: SMALL, handle: first.handle });
    for (const key of numbered(`${visit}/`, 5)) {
      client.pool.run(client.index.write(requestFor(client, key, 'v'), ALWAYS));
    }
    client.pool.close();
  }
  const reported = first.pool.run(first.index.table.segments.load());
  assert.ok(reported >= 25 && reported <= 50, `${reported}`);
});

test('a search is served only by a READ that was posted after it had queued', (t) => {
  const client = shardByHand(t, {});
  const other = shardByHand(t, { handle: client.handle });
  const { pool, index } = client;
  index.table.techniques.delegation = true;
  pool.run(index.write(requestFor(client, 'k', 'old'), ALWAYS));
  const requests = [0, 1, 2].map(() => requestFor(client, 'k'));
  const [first, second, third] = requests.map(
    (request) => new Stepped(pool.fabric, index.search(request)),
  );
  // The first has read the bucket when another client updates; the others have queued behind it.
  first.step();
  other.pool.run(other.index.write(requestFor(other, 'k', 'new'), ALWAYS));
  assert.ok(first.finish());
  const { reads } = pool.fabric.traffic.snapshot();
  assert.ok(!second.done && !third.done);
  second.step();
  assert.ok(second.finish());
  assert.ok(third.finish());
  assert.equal(pool.fabric.traffic.snapshot().reads - reads, 2);
  assert.deepEqual(requests.map(foundText), ['old', 'new', 'new']);
});

test('writes and searches of one key in flight share verbs and take turns', (t) => {
  const client = shardByHand(t, {});
  const { pool, index } = client;
  index.table.techniques.delegation = true;
  const writes = numbered('v', 20).map((value) => requestFor(client, 'k', value));
  const outcomes: Outcome[] = [];
  const failed = runInterleaved(
    pool.fabric,
    writes.map((request) => index.write(request, ALWAYS)),
    outcomes,
  );
  assert.equal(failed, undefined);
  assert.equal(outcomes.filter((outcome) => outcome === 1).length, 1);
  assert.equal(index.table.retries.slotChanged, 0);
  const searches = Array.from({ length: 20 }, () => requestFor(client, 'k'));
  const before = pool.fabric.traffic.snapshot().reads;
  const found: boolean[] = [];
  runInterleaved(
    pool.fabric,
    searches.map((request) => index.search(request)),
    found,
  );
  assert.ok(found.every(Boolean));
  assert.ok(pool.fabric.traffic.snapshot().reads - before <= 4);
  for (const request of searches) assert.equal(foundText(request), 'v19');
  const absent = Array.from({ length: 5 }, () => requestFor(client, 'absent'));
  runInterleaved(
    pool.fabric,
    absent.map((request) => index.search(request)),
    found,
  );
  assert.deepEqual(found.slice(0, 5), [false, false, false, false, false]);
});

test('stores of several kinds live in one pool', (t) => {
  const race = freshStore(t, 'memory', { index: 'race', race: { groups: 4 } });
  const shard = attachTo(t, race, { store: 'second', index: 'shard', shard: SMALL });
  for (const key of KEYS) {
    race.put(key, `${key} in race`);
    shard.put(key, `${key} in shard`);
  }
  for (const key of KEYS) assert.equal(shard.delete(key), true);
  for (const key of KEYS) assert.equal(race.get(key), `${key} in race`);
  assert.equal(attachTo(t, race, { store: 'second' }).size, 0);
  assert.equal(race.size, KEYS.length);
});
