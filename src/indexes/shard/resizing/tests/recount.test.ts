/** Clients that die take what they have not reported with them; the table does not grow for it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { numbered } from '../../../../store/tests/support/pools.ts';
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
    client.pool.run(client.pool.catalog.addUnswept(client.index.catalog, 1));
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
