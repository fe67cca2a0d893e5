import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type ByHand,
  claimAhead,
  foundText,
  requestFor,
  shardByHand,
  traced,
} from '../../../store/tests/support/by-hand.ts';
import { numbered, type Scope } from '../../../store/tests/support/pools.ts';
import { ALWAYS, INSERTED, retriesOf } from '../../contract.ts';
import { resize } from '../resizing/resize.ts';
import type { ShardIndex } from '../shard.ts';
import { hashOfPlace } from '../table/geometry.ts';

/** What the README says of the paths that few operations take. */

type Client = ByHand<ShardIndex>;

const FULL = { buckets: 4, level1: 4, level2: 2 };

function quietClient(scope: Scope, shard = FULL): Client {
  const client = shardByHand(scope, { shard });
  client.pool.enter();
  scope.after(() => client.pool.exit());
  claimAhead(client, 1);
  client.index.table.syncEvery = Number.POSITIVE_INFINITY;
  return client;
}

/** So many keys of bucket 0 of level 1; their other buckets differ. */
function keysOfOneBucket({ index }: Client, count: number): string[] {
  const { geometry } = index.table;
  const isOf = (key: string) =>
    geometry.bucketOf(hashOfPlace(requestFor({ index }, key).hash, 0), 0) === 0;
  return numbered('key ', 1000).filter(isOf).slice(0, count);
}

/** Verbs of each round trip; verbs of a kind in a row are one item. */
function tripsOf(client: Client, operation: Parameters<typeof traced>[1]): string[] {
  const { trips } = traced(client.pool.fabric, operation);
  return trips.map((trip) =>
    trip.replace(/\bCAS( CAS)+/g, 'CASes').replace(/\bREAD( READ)+/g, 'READs'),
  );
}

const inserting = (client: Client, key: string) =>
  tripsOf(client, client.index.write(requestFor(client, key, key), ALWAYS));
const searching = (client: Client, key: string) =>
  tripsOf(client, client.index.search(requestFor(client, key)));
const removing = (client: Client, key: string) =>
  tripsOf(client, client.index.remove(requestFor(client, key)));

const LOWER = 'READs';
const CLAIM = 'CAS READs';

test('overflow: 4 round trips, and one more for what is not in level 1', (t) => {
  const client = quietClient(t);
  const [first, second, third, fourth, fifth, sixth, absent] = keysOfOneBucket(client, 7);
  for (const key of [first, second, third, fourth]) {
    assert.deepEqual(inserting(client, key), ['READ WRITE', 'CAS']);
  }
  // The first sets the overflow bit as it looks below, the second finds it set.
  assert.deepEqual(inserting(client, fifth), ['READ WRITE', CLAIM, CLAIM, 'CAS']);
  assert.deepEqual(inserting(client, sixth), ['READ WRITE', LOWER, CLAIM, 'CAS']);
  assert.deepEqual(searching(client, first), ['READ', 'READ']);
  assert.deepEqual(searching(client, fifth), ['READ', LOWER, 'READ']);
  assert.deepEqual(searching(client, absent), ['READ', LOWER]);
  assert.deepEqual(removing(client, sixth), ['READ', LOWER, 'READ', 'CAS']);
  assert.ok(Object.values(retriesOf(client.index)).every((count) => count === 0));
});

test('an emptied slot of level 1 is claimed: 3 round trips', (t) => {
  const client = quietClient(t);
  const [first, second, third, fourth, fifth] = keysOfOneBucket(client, 5);
  for (const key of [first, second, third, fourth]) inserting(client, key);
  assert.deepEqual(removing(client, second), ['READ', 'READ', 'CAS']);
  assert.deepEqual(inserting(client, fifth), ['READ WRITE', CLAIM, 'CAS']);
  assert.deepEqual(searching(client, fifth), ['READ', 'READ']);
});

test('a fresh slot in a bucket that has overflowed: 3 round trips', (t) => {
  const client = quietClient(t);
  const keys = keysOfOneBucket(client, 40);
  for (const key of keys.slice(0, 5)) inserting(client, key);
  client.index.table.techniques.lazy = false;
  assert.ok(client.pool.run(resize(client.index.table)));
  assert.deepEqual(inserting(client, keys[5]), ['READ WRITE', LOWER, 'CAS']);
});

test('without Ordered-CAS every insertion claims: 3 round trips', (t) => {
  const client = quietClient(t);
  client.index.table.techniques.ordered = false;
  const [first] = keysOfOneBucket(client, 1);
  assert.deepEqual(inserting(client, first), ['READ WRITE', CLAIM, 'CAS']);
});

test('a key for which level 2 and 3 are full is put into a chain, with one walk more', (t) => {
  const client = quietClient(t, { ...FULL, buckets: 1, level1: 1, level2: 1, resizes: 0 } as never);
  const keys = numbered('key ', 12);
  for (const key of keys) {
    const request = requestFor(client, key, key);
    assert.equal(client.pool.run(client.index.write(request, ALWAYS)), INSERTED);
  }
  // Four are in the levels, seven in the first node, one in the second.
  const walks = keys.map((key) => searching(client, key).filter((trip) => trip === 'READ').length);
  assert.deepEqual(walks, [2, 4, 4, 4, ...Array(8).fill(4)]);
  const request = requestFor(client, keys[11]);
  assert.ok(client.pool.run(client.index.search(request)));
  assert.equal(foundText(request), keys[11]);
});

test('every fourth resize a move reads the records: one round trip more', (t) => {
  const client = quietClient(t, { buckets: 1, level1: 16, level2: 2 });
  const { pool, index } = client;
  const keys = numbered('key ', 6);
  for (const key of keys) inserting(client, key);
  const costs: string[][] = [];
  for (let version = 1; version <= 5; version++) {
    assert.ok(pool.run(resize(index.table)));
    const stays = keys.find((key) => {
      const { h1 } = requestFor(client, key).hash;
      return (
        index.table.geometry.bucketOf(h1, version) ===
        index.table.geometry.bucketOf(h1, version - 1)
      );
    });
    assert.ok(stays !== undefined);
    costs.push(searching(client, stays));
    for (const key of keys) searching(client, key);
  }
  const move = ['READ', 'READ', 'CASes READ', 'WRITE CASes READ'];
  const withRecords = ['READ', 'READ', 'CASes READ', 'READ', 'WRITE CASes READ'];
  assert.deepEqual(costs, [move, move, move, withRecords, move]);
});

test('a key that is not there and agrees with an entry: its record is read, once', (t) => {
  const client = quietClient(t, { buckets: 1, level1: 8, level2: 2 });
  const [first, ...others] = numbered('key ', 20_000);
  inserting(client, first);
  const isAlike = (key: string) => searching(client, key).length > 1;
  const alike = others.find(isAlike);
  assert.ok(alike, 'some key has the same fingerprint');
  assert.deepEqual(searching(client, alike), ['READ', 'READ']);
  assert.deepEqual(removing(client, alike), ['READ', 'READ']);
  assert.deepEqual(inserting(client, alike), ['READ WRITE', 'READ', 'CAS']);
});
