import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type ByHand,
  foundText,
  requestFor,
  shardByHand,
} from '../../../store/tests/support/by-hand.ts';
import { attachTo, freshStore, numbered } from '../../../store/tests/support/pools.ts';
import { ALWAYS } from '../../contract.ts';
import type { ShardIndex } from '../shard.ts';
import type { Techniques } from '../table/table.ts';

const KEYS = numbered('key ', 400);
const SMALL = { buckets: 2, level1: 8, level2: 2 };

function check({ pool, index }: ByHand<ShardIndex>): string[] {
  const problems: string[] = [];
  const problem = (text: string) => problems.push(text);
  pool.run(index.check({ problem, reachable: () => {}, progress: () => {} }));
  return problems;
}

const VARIANTS: Record<string, Partial<Techniques> & { delegation?: true }> = {
  'without lazy resizing': { lazy: false },
  'without RDMA-combining': { combining: false },
  'with a fixed frequency of synchronisation': { synchronisation: 50 },
  'with delegation': { delegation: true },
};

for (const [name, { delegation, ...techniques }] of Object.entries(VARIANTS)) {
  test(`${name} the table is the same`, (t) => {
    const client = shardByHand(t, { shard: SMALL });
    const other = shardByHand(t, { shard: SMALL, handle: client.handle });
    Object.assign(client.index.table.techniques, techniques);
    client.index.configure({ delegation });
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

test('stores of several kinds live in one pool', (t) => {
  const race = freshStore(t, 'memory', { index: { kind: 'race', groups: 4 } });
  const shard = attachTo(t, race, { store: 'second', index: { kind: 'shard', ...SMALL } });
  for (const key of KEYS) {
    race.set(key, `${key} in race`);
    shard.set(key, `${key} in shard`);
  }
  for (const key of KEYS) assert.equal(shard.delete(key), true);
  for (const key of KEYS) assert.equal(race.get(key), `${key} in race`);
  assert.equal(attachTo(t, race, { store: 'second' }).size, 0);
  assert.equal(race.size, KEYS.length);
});
