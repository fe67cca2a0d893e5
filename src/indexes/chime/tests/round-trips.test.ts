import assert from 'node:assert/strict';
import { test } from 'node:test';
import { traced } from '../../../store/tests/support/by-hand.ts';
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
} from '../../contract.ts';
import { fingerprintOf } from '../geometry.ts';
import { type Client, clientOf, foundText, requestFor } from './support/client.ts';

/**
 * Round trips of single operations (CHIME, Table 1, with the record behind a pointer as in section
 * 4.5): search 2, insert, update and delete 3. The operations are driven by hand, so nothing of
 * what a client does between two operations is counted; blocks are claimed before the first one.
 * The keys
 * are chosen so that no two share a fingerprint and no neighbourhood goes over the leaf's end.
 */
function quietClient(scope: Scope, count: number): Client & { keys: string[] } {
  const client = clientOf(scope, {});
  const { allocator } = client.pool;
  const { catalog, tree } = client.index;
  client.pool.run(allocator.refill(allocator.sizeClass(catalog, 1)));
  const seen = new Set<number>();
  const keys: string[] = [];
  for (let i = 0; keys.length < count; i++) {
    const { hash } = requestFor(client, `key ${i}`);
    const print = fingerprintOf(hash.h1);
    if (seen.has(print) || tree.geometry.homeOf(hash.h2) > 64 - 16) continue;
    seen.add(print);
    keys.push(`key ${i}`);
  }
  // The first operation reads the root link.
  client.pool.run(client.index.search(requestFor(client, 'nothing')));
  return { ...client, keys };
}

function put(client: Client, key: string, value: string, condition: 0 | 1 | 2 = ALWAYS) {
  return traced(client.pool.fabric, client.index.write(requestFor(client, key, value), condition));
}

test('search 2, insert 3, update 3, delete 3 round trips', (t) => {
  const client = quietClient(t, 20);
  const { pool, index, keys } = client;
  for (const key of keys) {
    const { value, trips } = put(client, key, 'one');
    assert.equal(value, INSERTED);
    assert.deepEqual(trips, ['READ WRITE', 'CAS READ', 'CAS']);
  }
  for (const key of keys) {
    const request = requestFor(client, key);
    const { value, trips } = traced(pool.fabric, index.search(request));
    assert.equal(value, true);
    assert.deepEqual(trips, ['READ', 'READ']);
    assert.equal(foundText(request), 'one');
  }
  for (const key of keys) {
    const { value, trips } = put(client, key, 'two', IF_PRESENT);
    assert.equal(value, REPLACED);
    assert.deepEqual(trips, ['READ WRITE', 'READ', 'WRITE CAS']);
  }
  for (const key of keys) {
    const { value, trips } = traced(pool.fabric, index.remove(requestFor(client, key)));
    assert.equal(value, true);
    assert.deepEqual(trips, ['READ', 'READ', 'CAS']);
  }
  assert.ok(Object.values(index.retries).every((count) => count === 0));
});

test('a neighbourhood that goes over the end is one more READ in the same doorbell', (t) => {
  const client = quietClient(t, 1);
  const { pool, index } = client;
  let key = '';
  for (let i = 0; key === ''; i++) {
    const { hash } = requestFor(client, `end ${i}`);
    if (index.tree.geometry.homeOf(hash.h2) > 64 - 16) key = `end ${i}`;
  }
  assert.deepEqual(put(client, key, 'v').trips, ['READ READ WRITE', 'CAS READ READ', 'CAS']);
  const { trips } = traced(pool.fabric, index.search(requestFor(client, key)));
  assert.deepEqual(trips, ['READ READ', 'READ']);
});

test('what is refused or absent costs no more than finding that out', (t) => {
  const client = quietClient(t, 2);
  const { pool, index } = client;
  const [present, absent] = client.keys;
  pool.run(index.write(requestFor(client, present, 'v', 7), ALWAYS));
  const write = (key: string, condition: 0 | 1 | 2 | 3, expected?: number) =>
    traced(pool.fabric, index.write(requestFor(client, key, 'w'), condition, expected));
  assert.deepEqual(traced(pool.fabric, index.search(requestFor(client, absent))).trips, ['READ']);
  assert.deepEqual(traced(pool.fabric, index.remove(requestFor(client, absent))).trips, ['READ']);
  const refused = [
    write(present, IF_ABSENT),
    write(absent, IF_PRESENT),
    write(present, IF_VERSION, 8),
    write(absent, IF_VERSION, 7),
  ];
  for (const { value } of refused) assert.equal(value, REFUSED);
  assert.deepEqual(
    refused.map(({ trips }) => trips.length),
    [2, 1, 2, 1],
  );
  assert.equal(write(present, IF_VERSION, 7).trips.length, 3);
});

test('a batch of searches rings twice, whatever its size', (t) => {
  const client = quietClient(t, 20);
  const { pool, index, keys } = client;
  for (const key of keys) put(client, key, key);
  const requests = keys.map((key) => requestFor(client, key));
  const found: boolean[] = [];
  const searching = index.searchMany(requests, requests.length, new Batch(), found);
  assert.equal(traced(pool.fabric, searching).trips.length, 2);
  assert.deepEqual(requests.map(foundText), keys);
  assert.ok(found.every(Boolean));
});

/** A tree of several levels, and another client that knows nothing of it yet. */
function deepTree(scope: Scope): { writer: Client; reader: Client } {
  const shape = { span: 8, neighbourhood: 4, fanout: 4 };
  const writer = clientOf(scope, shape);
  for (let i = 0; i < 300; i++) put(writer, `key ${i}`, `value ${i}`);
  return { writer, reader: clientOf(scope, shape, writer.handle) };
}

test('without a memory of the tree h + 3 round trips: root link, h internal nodes, leaf, record', (t) => {
  const { reader } = deepTree(t);
  const { pool, index } = reader;
  const { globalDepth: height } = pool.run(index.shape());
  assert.ok(height >= 3, `height ${height}`);
  index.tree.cache.forget();
  const { trips } = traced(pool.fabric, index.search(requestFor(reader, 'key 7')));
  assert.equal(trips.length, height + 3);
  // Now the way is remembered.
  const again = traced(pool.fabric, index.search(requestFor(reader, 'key 7')));
  assert.equal(again.trips.length, 2);
});

test('after epochs have passed the leaf says in the same round trip whether it still is one', (t) => {
  const { writer, reader } = deepTree(t);
  const { pool, index } = reader;
  pool.run(index.search(requestFor(reader, 'key 7')));
  writer.pool.run(writer.pool.reclamation.goOffline());
  for (let i = 0; i < 3; i++) pool.run(pool.reclamation.advanceBeyond(pool.reclamation.announced));
  pool.run(pool.reclamation.quiesce());
  const first = traced(pool.fabric, index.search(requestFor(reader, 'key 7')));
  assert.deepEqual(first.trips, ['READ READ', 'READ']);
  const second = traced(pool.fabric, index.search(requestFor(reader, 'key 7')));
  assert.deepEqual(second.trips, ['READ', 'READ']);
});

for (const reverse of [false, true]) {
  test(`a scan takes two round trips for ${reverse ? 'four leaves in reverse' : 'four leaves'}`, (t) => {
    const { reader } = deepTree(t);
    const { pool, index } = reader;
    const { subtables } = pool.run(index.shape());
    const scan = index.scan({ reverse, width: 4 });
    let steps = 0;
    for (; !scan.done; steps++) {
      const { trips } = traced(
        pool.fabric,
        scan.next(() => {}),
      );
      assert.equal(trips.length, 2);
    }
    assert.equal(steps, Math.ceil(subtables / 4));
  });
}

test('a limited scan reads no more leaves than it needs', (t) => {
  const { reader } = deepTree(t);
  const { pool, index } = reader;
  pool.run(index.shape());
  const scan = index.scan({ limit: 3, width: 8 });
  const found: number[] = [];
  const { trips } = traced(
    pool.fabric,
    scan.next((_, keyBytes) => found.push(keyBytes)),
  );
  assert.equal(found.length, 3);
  assert.ok(scan.done);
  assert.equal(trips[0], 'READ READ');
});
