import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StepwellError } from '../../../errors.ts';
import type { SharedFabric } from '../../../fabrics/shared/shared-fabric.ts';
import { CHUNK_SPAN, unpackChunk } from '../../../pool/memory/chunk-word.ts';
import {
  type ByHand,
  type ByHandOptions,
  requestFor,
  shardByHand,
} from '../../../store/tests/support/by-hand.ts';
import { throwsCode } from '../../../store/tests/support/codes.ts';
import { numbered, type Scope } from '../../../store/tests/support/pools.ts';
import { IF_ABSENT, INSERTED, REFUSED } from '../../contract.ts';
import { resize } from '../resizing/resize.ts';
import type { ShardIndex } from '../shard.ts';

type Client = ByHand<ShardIndex>;

const MIB = 2 ** 20;

/** A client that synchronises only when a test does. */
function quiet(scope: Scope, options: ByHandOptions): Client {
  const client = shardByHand(scope, options);
  client.pool.enter();
  scope.after(() => client.pool.exit());
  client.index.table.syncEvery = Number.POSITIVE_INFINITY;
  return client;
}

const insert = (client: Client, key: string) =>
  client.pool.run(client.index.write(requestFor(client, key, key), IF_ABSENT));

const has = (client: Client, key: string) =>
  client.pool.run(client.index.search(requestFor(client, key)));

function assertWhole({ pool, index }: Client): void {
  const problems: string[] = [];
  const problem = (text: string) => problems.push(text);
  pool.run(index.check({ problem, reachable: () => {}, progress: () => {} }));
  assert.deepEqual(problems, []);
}

test('a table whose next segment the pool cannot hold stays as it is, and serves all', (t) => {
  const shard = { buckets: 512, level1: 64, level2: 8 };
  const client = quiet(t, { size: 6 * MIB, regionSize: MIB, shard });
  const { table } = client.index;
  // The third segment is larger than a region: it stands in pieces.
  for (let i = 0; i < 3; i++) assert.ok(client.pool.run(resize(table)));
  for (let i = 0; i < 10; i++) assert.equal(client.pool.run(resize(table)), false);
  assert.equal(table.segments.version, 3);
  assert.ok(client.index.counters.postponed > 0);
  const keys = numbered('key ', 3000);
  for (const key of keys) assert.equal(insert(client, key), INSERTED);
  for (const key of keys) assert.ok(has(client, key), key);
  assertWhole(client);
});

test('without room for the next segment few writes of many look for it, and none fails', (t) => {
  const shard = { buckets: 512, level1: 64, level2: 8, threshold: 1 };
  const client = quiet(t, { size: 6 * MIB, regionSize: MIB, shard });
  const { table } = client.index;
  while (client.pool.run(resize(table)));
  // From the first attempt that the pool had no room for.
  assert.equal(client.index.counters.postponed, 1);
  table.techniques.adaptive = false;
  table.syncEvery = 1;
  const keys = numbered('key ', 4000);
  for (const key of keys) assert.equal(insert(client, key), INSERTED);
  assert.ok(table.reported >= 0.01 * table.geometry.capacityAt(table.segments.version));
  // One of 16, 32, 64 synchronisations, and of 128 each from then on.
  const { postponed } = client.index.counters;
  assert.ok(postponed > 2 && postponed < keys.length / 100, `${postponed} attempts`);
  for (const key of keys) assert.ok(has(client, key), key);
});

test('a new table that no region can hold is refused', (t) => {
  const shard = { buckets: 4096 };
  throwsCode('SW_POOL_FULL', () => shardByHand(t, { size: 16 * MIB, regionSize: MIB, shard }));
});

test('a segment that the system has no memory for takes no part of the pool with it', (t) => {
  const client = quiet(t, { size: 16 * MIB, shard: { buckets: 1024 } });
  const { pool } = client;
  const spans = () =>
    pool.run(pool.chunks.words()).filter(([, word]) => unpackChunk(word).state === CHUNK_SPAN);
  const before = spans().length;
  const { source } = pool.fabric as SharedFabric;
  const { reserve } = source;
  source.reserve = () => {
    throw new StepwellError('SW_POOL_FULL', 'no space left in the file system');
  };
  for (let i = 0; i < 30; i++) assert.equal(pool.run(resize(client.index.table)), false);
  assert.equal(spans().length, before);
  source.reserve = reserve;
  client.index.table.claimsSeen = Number.POSITIVE_INFINITY;
  assert.ok(pool.run(resize(client.index.table)));
});

test('keys of one fingerprint, more than a request has room for: none is lost or doubled', (t) => {
  const shard = { buckets: 1, level1: 1, level2: 1, resizes: 0 };
  const client = quiet(t, { shard });
  const keys: string[] = [];
  for (let i = 0; keys.length < 530; i++) {
    const { hash } = requestFor(client, `k${i}`);
    if (hash.h4 >>> 24 === 7) keys.push(`k${i}`);
  }
  for (const key of keys) assert.equal(insert(client, key), INSERTED);
  for (const key of keys.slice(-20)) {
    assert.ok(has(client, key), key);
    assert.equal(insert(client, key), REFUSED);
  }
});
