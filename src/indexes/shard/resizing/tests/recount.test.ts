/** Clients that die take what they have not reported with them; the table does not grow for it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { numbered } from '../../../../store/tests/support/pools.ts';
import { ALWAYS, IF_ABSENT } from '../../../contract.ts';
import { type Client, clients, put, remove } from '../../tests/support/clients.ts';

const KEYS = numbered('key ', 24);
const ROUNDS = 6;

/** The other client removes all records and reports none of that, as when it is killed. */
function removeUnreported(other: Client): void {
  for (const key of KEYS) assert.ok(remove(other, key));
  other.index.table.unreported = 0;
}

// biome-ignore lint/correctness/useYield: no waiting
function* passed() {
  return true;
}

function sizes({ pool, index }: Client): { subtables: number; reported: number } {
  pool.run(index.table.load());
  const { segments, reported } = index.table;
  return { subtables: segments.version + 1, reported };
}

test('a table does not grow because clients died that had removed records', (t) => {
  const [client, other] = clients(t, 2, { buckets: 2, level1: 8, level2: 4, resizes: 6 });
  client.index.table.syncEvery = 1;
  for (const key of KEYS) put(client, key);
  const { subtables } = sizes(client);
  for (let round = 0; round < ROUNDS; round++) {
    removeUnreported(other);
    client.pool.run(client.pool.catalog.addUnswept(client.index.records.catalog, 1));
    for (const key of KEYS) put(client, key);
  }
  assert.equal(sizes(client).subtables, subtables);
  assert.equal(client.pool.run(client.index.shape()).records, KEYS.length);
});

test('a compaction corrects what dead clients have not reported', (t) => {
  const [client, other] = clients(t, 2, { buckets: 2, level1: 8, level2: 4, resizes: 6 });
  client.index.table.syncEvery = 1;
  for (const key of KEYS) put(client, key);
  removeUnreported(other);
  assert.equal(sizes(client).reported, KEYS.length);
  client.pool.run(client.index.compact(passed));
  assert.equal(sizes(client).reported, 0);
});

test('a record that has expired is counted as one, until it is replaced or removed', (t) => {
  const [client] = clients(t, 1, { buckets: 2, level1: 8, level2: 4, resizes: 6 });
  const { pool, index } = client;
  const time = { now: 1000 };
  pool.clock.now = () => time.now;
  index.table.syncEvery = Number.POSITIVE_INFINITY;
  const request = () => {
    const expiry = { deadline: time.now + 10, sliding: false };
    const one = index.newRequest();
    index.records.encode(one, 'key', 'value', 1, expiry);
    return one;
  };
  const changes = [
    () => pool.run(index.write(request(), IF_ABSENT)),
    () => pool.run(index.write(request(), ALWAYS)),
    () => {
      const one = request();
      pool.run(index.modify(one, () => {}));
    },
  ];
  for (const change of changes) {
    change();
    time.now += 10;
    assert.equal(index.table.unreported, 1);
  }
  assert.equal(remove(client, 'key'), false);
  assert.equal(index.table.unreported, 0);
});
