import assert from 'node:assert/strict';
import { test } from 'node:test';
import { UNIT_BYTES, WRITE } from '../../../verbs/index.ts';
import { ALWAYS } from '../../contract.ts';
import { checked, clientOf, foundText, requestFor } from './support/client.ts';

const SPAN = 18;

test('the longest intent of a split fits its block, in neighbourhoods of 2', (t) => {
  const client = clientOf(t, { span: SPAN, neighbourhood: 2, inlineBytes: 16 });
  const { pool, index } = client;
  const { geometry } = index.tree;
  let number = 0;
  const named = (half: string, home: number) => {
    for (;;) {
      const key = `${half}${1000 + number++}`;
      if (geometry.homeOf(requestFor(client, key).hash.h2) === home) return key;
    }
  };
  const keys: string[] = [];
  // Every second entry is the home of both items of a pair, of which the split moves the other one.
  for (let home = 0; home < SPAN; home += 2) keys.push(named('low', home), named('up', home));
  keys.push(named('low', 0));
  for (const key of keys) {
    for (const batch of index.write(requestFor(client, key, 'value'), ALWAYS)) {
      for (let i = 0; i < batch.length; i++) {
        if (batch.kind[i] === WRITE) assert.ok(batch.bytes[i] <= geometry.leafUnits * UNIT_BYTES);
      }
      pool.fabric.execute(batch);
    }
  }
  assert.equal(index.counters.splits, 1);
  for (const key of keys) {
    const request = requestFor(client, key);
    assert.ok(pool.run(index.search(request)), key);
    assert.equal(foundText(request), 'value');
  }
  assert.deepEqual(checked(client), { problems: [], records: keys.length });
});
