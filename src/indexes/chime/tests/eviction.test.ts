import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NEVER } from '../../../records/times.ts';
import { ALWAYS, type Condition, INSERTED, REPLACED } from '../../contract.ts';
import { checked, clientOf, requestFor } from './support/client.ts';

const START = 1_700_000_000_000;
const SHAPE = { span: 4, neighbourhood: 4, inlineBytes: 64, accessWords: 1 };

type Scope = Parameters<typeof clientOf>[0];

/** A client of a bounded store's tree: what its calls are made of, step by step. */
function bounded(t: Scope, shape: Parameters<typeof clientOf>[1] = SHAPE) {
  const client = clientOf(t, shape);
  const { pool, index } = client;
  const time = { now: START };
  Object.assign(pool.clock, { now: () => time.now });
  return {
    client,
    time,
    index,
    run: pool.run.bind(pool),
    put(key: string, value = 'v', condition: Condition = ALWAYS) {
      const request = index.newRequest();
      index.records.encode(request, key, value, 1, NEVER);
      return { request, outcome: pool.run(index.write(request, condition)) };
    },
    found(key: string) {
      const request = requestFor(client, key);
      assert.ok(pool.run(index.search(request)), `${key} is there`);
      return request;
    },
    uses: (key: string) => {
      const request = requestFor(client, key);
      assert.ok(pool.run(index.search(request)));
      const access = { ticks: 0, uses: 0 };
      request.readAccess(access);
      return access;
    },
    keysMet(places: readonly number[]) {
      const keys: string[] = [];
      const visit = ({ outgoing }: { outgoing: { u8: Uint8Array } }, bytes: number) => {
        keys.push(Buffer.from(outgoing.u8.subarray(16, 16 + bytes)).toString());
      };
      pool.run(index.sample(index.newRequest(), places, 1000, visit));
      return keys;
    },
  };
}

test('an access that is noted late leaves whatever item has its place whole', (t) => {
  const { client, put, found, run, index, uses, time } = bounded(t);
  put('a', '1');
  const read = found('a');
  assert.ok(read.found.isInline);
  // Other items come and go until another one stands where the item was.
  run(index.remove(requestFor(client, 'a')));
  let other = '';
  for (let i = 0; other === ''; i++) {
    put(`${i}`);
    if (found(`${i}`).entry === read.entry) other = `${i}`;
    else run(index.remove(requestFor(client, `${i}`)));
  }
  time.now += 1000;
  run(index.records.touch(read));
  assert.equal(uses(other).uses, 2, 'it counts for the other one');
  assert.deepEqual(checked(client), { problems: [], records: 1 });
});

test('accesses go with their items: by updates, hops, splits and merges', (t) => {
  const { client, put, found, run, index, uses, time } = bounded(t, { ...SHAPE, fanout: 4 });
  const keys = Array.from({ length: 12 }, (_, i) => `key ${String(i).padStart(2, '0')}`);
  for (const [i, key] of keys.entries()) {
    time.now += 10;
    put(key);
    for (let read = 0; read < i; read++) run(index.records.touch(found(key)));
  }
  const before = keys.map(uses);
  assert.deepEqual(
    before.map((each) => each.uses),
    keys.map((_, i) => i + 1),
  );
  for (let i = 0; i < 100; i++) put(`key ${i % 12} and ${i}`);
  assert.ok(index.counters.splits > 4);
  assert.deepEqual(keys.map(uses), before);
  for (let i = 0; i < 100; i++) run(index.remove(requestFor(client, `key ${i % 12} and ${i}`)));
  assert.ok(index.counters.merges > 0);
  assert.deepEqual(keys.map(uses), before);
  // In the leaf and out of it again.
  for (const [i, value] of ['w', 'long'.repeat(50), 'longer'.repeat(50), 'v'].entries()) {
    const { request, outcome } = put(keys[5], value);
    assert.equal(outcome, REPLACED);
    run(index.records.inheritUses(request));
    assert.equal(uses(keys[5]).uses, 7 + i);
  }
  assert.deepEqual(checked(client).problems, []);
});

test('a new item begins with one use, whatever stood in its entry', (t) => {
  const { client, put, found, run, index, uses, time } = bounded(t);
  for (let i = 0; i < 20; i++) {
    put('a');
    run(index.records.touch(found('a')));
    time.now += 10;
    assert.equal(put('a').request.displaced, true);
    assert.equal(uses('a').uses, 1, 'a caller says when uses go on');
    run(index.records.touch(found('a')));
    assert.ok(run(index.remove(requestFor(client, 'a'))));
    time.now += 10;
    const { outcome, request } = put('a');
    assert.deepEqual([outcome, request.displaced], [INSERTED, false]);
    assert.ok(uses('a').ticks >= time.now * 1024);
    run(index.remove(requestFor(client, 'a')));
  }
});

test('a removal spares what was used or written since', (t) => {
  const { client, put, found, run, index, time } = bounded(t);
  put('a');
  const sampled = found('a');
  const ticks = sampled.foundTicks;
  time.now += 10;
  run(index.records.touch(found('a')));
  const evict = () => {
    const request = requestFor(client, 'a');
    request.sparedIfUsedAfter = ticks;
    run(index.remove(request, sampled.found.version));
    return request.displaced;
  };
  assert.equal(evict(), false);
  run(index.remove(requestFor(client, 'a')));
  assert.equal(evict(), false, 'nothing is there');
  put('a');
  put('a');
  assert.equal(evict(), false, 'another version');
});

test('samples reach every leaf, those too that another client has made since', (t) => {
  const a = bounded(t, { ...SHAPE, fanout: 4 });
  const handle = a.client.handle;
  const b = clientOf(t, { ...SHAPE, fanout: 4 }, handle);
  const keys = Array.from({ length: 300 }, (_, i) => `${i}`.padStart(4, '0'));
  for (const key of keys.slice(0, 20)) a.put(key);
  a.keysMet([0]);
  for (const key of keys.slice(20)) {
    const request = b.index.newRequest();
    b.index.records.encode(request, key, 'v', 1, NEVER);
    b.pool.run(b.index.write(request, ALWAYS));
  }
  const met = new Set<string>();
  for (let i = 0; i < 400; i++) for (const key of a.keysMet([i / 400])) met.add(key);
  assert.deepEqual([...met].sort(), keys);
});
