import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KEY_BYTES_MAX } from '../../../records/layout.ts';
import { metImpatiently, Stepped } from '../../../store/tests/support/by-hand.ts';
import { STEP_RECORDS } from '../client/scan.ts';
import { newClient, put, scanned } from './support/clients.ts';

test('a step that fails is taken again by the next one', (t) => {
  const client = newClient(t, {}, { shape: { buckets: 64, rows: 16, log: 16 } });
  const { pool, index } = client;
  const keys = Array.from({ length: STEP_RECORDS + 40 }, (_, i) => `key ${1000 + i}`);
  for (const key of keys) put(client, key, key);
  for (const reverse of [false, true]) {
    const scan = index.scan({ reverse, limit: STEP_RECORDS + 20 });
    const ordered = reverse ? keys.toReversed() : keys;
    assert.deepEqual(metImpatiently(pool, scan), ordered.slice(0, STEP_RECORDS + 20));
  }
});

test('a scan for keys alone reads no values', (t) => {
  const client = newClient(t);
  const { pool, index } = client;
  const value = 'v'.repeat(8000);
  put(client, 'key', value);
  const longestRead = (keysOnly: boolean): number => {
    let longest = 0;
    const met: number[] = [];
    const step = index.scan().next((_, keyBytes) => met.push(keyBytes), keysOnly);
    for (const batch of step) {
      for (let row = 0; row < batch.length; row++) longest = Math.max(longest, batch.bytes[row]);
      pool.fabric.execute(batch);
    }
    assert.deepEqual(met, ['key'.length]);
    return longest;
  };
  assert.ok(longestRead(false) >= value.length);
  assert.ok(longestRead(true) < value.length);
});

test('the skiplist server goes on behind a key that is as long as keys can be', (t) => {
  const client = newClient(t);
  const server = newClient(t, { handle: client.handle });
  const short = Array.from({ length: STEP_RECORDS - 1 }, (_, i) => `a ${1000 + i}`);
  // The second step begins behind it.
  const keys = [...short, 'b'.repeat(KEY_BYTES_MAX), 'c'];
  for (const key of keys) put(client, key, 'v');
  const servers = server.index.server({ role: 'skiplist' });
  server.pool.run(servers.round());
  for (const reverse of [false, true]) {
    const scan = new Stepped(client.pool.fabric, scanned(client, { reverse }));
    while (!scan.done) {
      scan.step();
      server.pool.run(servers.round());
    }
    assert.deepEqual(scan.result, reverse ? keys.toReversed() : keys);
  }
  assert.equal(client.index.table.pairs[0].skiplist.rebuilds, 0, 'the server was asked');
});
