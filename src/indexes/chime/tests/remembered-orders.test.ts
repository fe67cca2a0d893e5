import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Batch, Scratch } from '../../../verbs/index.ts';
import { ALWAYS, type RecordBlock } from '../../contract.ts';
import { ChimeRequest } from '../request.ts';
import { LeafOrders } from '../scan/leaf-orders.ts';
import { type Client, clientOf, foundText, requestFor, scanned } from './support/client.ts';

const KEYS = Array.from({ length: 90 }, (_, i) => `key ${100 + i}`);

function put(client: Client, key: string, value: string): void {
  client.pool.run(client.index.write(requestFor(client, key, value), ALWAYS));
}

function pairs(client: Client, range = {}): [string, string][] {
  return scanned(client, client.index.scan(range)).map(([key, value]) => [
    Buffer.from(key, 'hex').toString(),
    value,
  ]);
}

test('what is remembered of a leaf holds until a key comes, goes or moves there', (t) => {
  const writer = clientOf(t, {});
  const reader = clientOf(t, {}, writer.handle);
  const model = new Map<string, string>();
  const set = (key: string, value: string) => {
    put(writer, key, value);
    model.set(key, value);
  };
  const agree = () => {
    const all = [...model].sort(([a], [b]) => (a < b ? -1 : 1));
    assert.deepEqual(pairs(reader), all);
    assert.deepEqual(pairs(reader, { reverse: true }), all.toReversed());
    for (const limit of [1, 7, 60]) {
      const lower = { key: Buffer.from('key 120'), inclusive: false };
      const above = all.filter(([key]) => key > 'key 120');
      assert.deepEqual(pairs(reader, { lower, limit }), above.slice(0, limit));
      const below = all.filter(([key]) => key < 'key 120').toReversed();
      const range = { upper: lower, reverse: true, limit };
      assert.deepEqual(pairs(reader, range), below.slice(0, limit));
    }
  };
  for (const key of KEYS) set(key, 'one');
  agree();
  for (const key of KEYS.slice(3, 40)) set(key, 'two');
  agree();
  set('key 150 and more', 'three');
  agree();
  // In a record from now on, and then in the leaf again.
  set('key 130', 'long'.repeat(50));
  agree();
  set('key 130', 'short');
  agree();
  for (const key of KEYS.filter((_, i) => i % 9 !== 0)) {
    writer.pool.run(writer.index.remove(requestFor(writer, key)));
    model.delete(key);
  }
  agree();
});

test('an item that is being written is not handed out because its order is known', (t) => {
  const client = clientOf(t, {});
  for (const key of KEYS) put(client, key, `value of ${key}`);
  const { index, pool } = client;
  const expected = pairs(client);
  const request = requestFor(client, KEYS[20]);
  assert.ok(pool.run(index.search(request)));
  const address = request.leaf + request.found.valueAt - 64;
  const value = new Scratch(16);
  pool.fabric.execute(new Batch().read(address, 8, value, 0));
  pool.fabric.execute(new Batch().write(address, 8, value, 8));
  const met: string[] = [];
  const block = ({ words, count, valueAt, valueBytes }: RecordBlock) => {
    for (let i = 0; i < count; i++) {
      met.push(Buffer.from(words.u8.subarray(valueAt[i], valueAt[i] + valueBytes[i])).toString());
    }
  };
  const scan = index.scan();
  for (let rounds = 0; !scan.done; ) {
    const step = scan.next((one) => met.push(foundText(one)), false, block);
    for (let next = step.next(); !next.done; next = step.next()) {
      pool.fabric.execute(next.value);
      // The writer is done.
      if (++rounds === 3) pool.fabric.execute(new Batch().write(address, 8, value, 0));
    }
  }
  assert.deepEqual(
    met,
    expected.map(([, one]) => one),
  );
  assert.ok(index.tree.retries.changing > 0);
});

test('what is remembered of a leaf is forgotten before its identity can come again', (t) => {
  const { geometry } = clientOf(t, {}).index.tree;
  const cache = { epoch: 7 };
  const orders = new LeafOrders(geometry, cache);
  const request = new ChimeRequest(geometry);
  Object.assign(request, { idLow: 3, idHigh: 5 });
  orders.note(request);
  const epochs = [7, 7 + 2 ** 14, 8 + 2 ** 14, 7 + 2 ** 16, -1];
  const recalled = epochs.filter((epoch) => {
    cache.epoch = epoch;
    return orders.recall(request);
  });
  assert.deepEqual(recalled, epochs.slice(0, 2));
});
