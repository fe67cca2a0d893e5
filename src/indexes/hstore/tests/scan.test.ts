import assert from 'node:assert/strict';
import { test } from 'node:test';
import { metImpatiently } from '../../../store/tests/support/by-hand.ts';
import { STEP_RECORDS } from '../client/scan.ts';
import { newClient, put } from './support/clients.ts';

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
