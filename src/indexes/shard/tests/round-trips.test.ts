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
import type { Scope } from '../../../store/tests/support/pools.ts';
import { Batch } from '../../../verbs/index.ts';
import {
  ALWAYS,
  IF_ABSENT,
  IF_PRESENT,
  IF_VERSION,
  INSERTED,
  REFUSED,
  REPLACED,
  retriesOf,
} from '../../contract.ts';
import { resize } from '../resizing/resize.ts';
import type { ShardIndex } from '../shard.ts';
import { hashOfPlace } from '../table/geometry.ts';

type Client = ByHand<ShardIndex>;

/**
 * Round trips of single operations (SHARD, Tables 1 and 3): search 1, insert 2, update 2, delete 2
 * in the index, and one more where a record is read. The operations are driven by hand, so nothing
 * of what a client does between two operations is counted, and synchronisation is far away.
 */
function quietClient(scope: Scope, shard = {}): Client {
  const client = shardByHand(scope, { shard });
  client.pool.enter();
  scope.after(() => client.pool.exit());
  claimAhead(client, 1);
  client.index.table.syncEvery = Number.POSITIVE_INFINITY;
  return client;
}

const KEYS = Array.from({ length: 60 }, (_, i) => `key ${i}`);
const write = (client: Client, key: string, value: string, condition: 0 | 1 | 2 | 3 = ALWAYS) =>
  traced(client.pool.fabric, client.index.write(requestFor(client, key, value), condition));

test('search 1 + 1, insert 2, update 2 + 1, delete 2 + 1 round trips', (t) => {
  const client = quietClient(t);
  const { pool, index } = client;
  for (const key of KEYS) {
    const { value, trips } = write(client, key, 'one');
    assert.equal(value, INSERTED);
    assert.deepEqual(trips, ['READ WRITE', 'CAS']);
  }
  for (const key of KEYS) {
    const request = requestFor(client, key);
    const searching = traced(pool.fabric, index.search(request));
    assert.equal(searching.value, true);
    assert.deepEqual(searching.trips, ['READ', 'READ']);
    assert.equal(foundText(request), 'one');
  }
  for (const key of KEYS) {
    const { value, trips } = write(client, key, 'two', IF_PRESENT);
    assert.equal(value, REPLACED);
    assert.deepEqual(trips, ['READ WRITE', 'READ', 'WRITE CAS']);
  }
  for (const key of KEYS) {
    const removing = traced(pool.fabric, index.remove(requestFor(client, key)));
    assert.equal(removing.value, true);
    assert.deepEqual(removing.trips, ['READ', 'READ', 'CAS']);
  }
  assert.ok(Object.values(retriesOf(index)).every((count) => count === 0));
});

test('what is refused or absent costs no more than finding that out', (t) => {
  const client = quietClient(t);
  const { pool, index } = client;
  const [present, absent] = KEYS;
  pool.run(index.write(requestFor(client, present, 'v', 7), ALWAYS));
  const conditional = (key: string, condition: 0 | 1 | 2 | 3, expected?: number) =>
    traced(pool.fabric, index.write(requestFor(client, key, 'w'), condition, expected));
  assert.deepEqual(traced(pool.fabric, index.search(requestFor(client, absent))).trips, ['READ']);
  assert.deepEqual(traced(pool.fabric, index.remove(requestFor(client, absent))).trips, ['READ']);
  const refused = [
    conditional(present, IF_ABSENT),
    conditional(absent, IF_PRESENT),
    conditional(present, IF_VERSION, 8),
    conditional(absent, IF_VERSION, 7),
  ];
  for (const { value } of refused) assert.equal(value, REFUSED);
  assert.deepEqual(
    refused.map(({ trips }) => trips.length),
    [2, 1, 2, 1],
  );
  assert.equal(conditional(present, IF_VERSION, 7).trips.length, 3);
});

test('searchMany rings twice', (t) => {
  const client = quietClient(t);
  const { pool, index } = client;
  for (const key of KEYS.slice(0, 40)) write(client, key, key);
  const requests = KEYS.map((key) => requestFor(client, key));
  const found: boolean[] = [];
  const many = index.searchMany(requests, KEYS.length, new Batch(), found);
  assert.deepEqual(
    traced(pool.fabric, many).trips.map((trip) => trip.split(' ').length),
    [60, 40],
  );
  for (const [i, key] of KEYS.entries()) {
    assert.equal(found[i], i < 40);
    if (i < 40) assert.equal(foundText(requests[i]), key);
  }
});

test('a synchronisation is one round trip behind the write that is due for it', (t) => {
  const client = quietClient(t);
  client.index.table.syncEvery = 1;
  assert.deepEqual(write(client, 'k', 'v').trips, ['READ WRITE', 'CAS', 'FAA READ']);
});

/** CAS verbs in a row are one item. */
function squeezed(trips: readonly string[]): string[] {
  return trips.map((trip) => trip.replace(/CAS( CAS)+/g, 'CASes'));
}

test('the first visitor moves a bucket in 2 round trips, a new one in 3', (t) => {
  const client = quietClient(t, { buckets: 4, level1: 8 });
  const { pool, index } = client;
  const { geometry } = index.table;
  const bucket = (key: string, version: number) =>
    geometry.bucketOf(hashOfPlace(requestFor(client, key).hash, 0), version);
  const present = KEYS.slice(0, 6);
  for (const key of present) write(client, key, 'v');
  assert.equal(pool.run(resize(index.table)), true);
  const seen = new Set<number>();
  const costs = { kept: 0, fresh: 0 };
  for (const key of KEYS.slice(6, 30)) {
    const [old, now] = [bucket(key, 0), bucket(key, 1)];
    if (seen.has(old)) continue;
    seen.add(old);
    const trips = squeezed(traced(pool.fabric, index.search(requestFor(client, key))).trips);
    if (old === now) {
      assert.deepEqual(trips, ['READ', 'CASes READ', 'WRITE CASes READ']);
      costs.kept++;
    } else {
      assert.deepEqual(trips, ['READ', 'READ READ READ', 'CASes READ', 'WRITE CASes READ']);
      costs.fresh++;
    }
    assert.deepEqual(traced(pool.fabric, index.search(requestFor(client, key))).trips, ['READ']);
  }
  assert.ok(costs.kept > 0 && costs.fresh > 0);
  for (const key of present) assert.ok(pool.run(index.search(requestFor(client, key))));
});
