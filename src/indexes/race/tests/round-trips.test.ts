import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ByHand } from '../../../store/tests/support/by-hand.ts';
import {
  advance,
  clientByHand,
  foundText,
  requestFor,
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
} from '../../contract.ts';
import { fingerprintOf } from '../geometry.ts';

/** As many as a test writes records at most, none of which is freed meanwhile. */
const BLOCKS = 120;

/**
 * Round trips of single operations (RACE, Figure 7): search 2, insert 3, update 3, delete 3. The
 * operations are driven by hand, so nothing of what a client does between two operations
 * (announcing epochs, claiming blocks ahead) is counted: blocks are claimed before the first one.
 * The keys are chosen so that no two share a fingerprint, and nobody else is at work.
 */
function quietClient(scope: Scope): ByHand & { keys: string[] } {
  const client = clientByHand(scope, { race: { groups: 64, initialDepth: 1 } });
  client.pool.enter();
  scope.after(() => client.pool.exit());
  const { allocator } = client.pool;
  const records = allocator.sizeClass(client.index.table.catalog, 1);
  while (records.cache.length < BLOCKS) client.pool.run(allocator.refill(records));
  const seen = new Set<number>();
  const keys: string[] = [];
  for (let i = 0; keys.length < 60; i++) {
    const print = fingerprintOf(requestFor(client, `key ${i}`).hash.h1);
    if (seen.has(print)) continue;
    seen.add(print);
    keys.push(`key ${i}`);
  }
  return { ...client, keys };
}

const SEARCH = ['READ READ', 'READ'];
const MISS = ['READ READ'];
const INSERT = ['READ READ WRITE', 'CAS READ READ', 'CAS'];

test('search 2, insert 3, update 3, delete 3 round trips', (t) => {
  const client = quietClient(t);
  const { pool, index, keys } = client;
  for (const key of keys) {
    const inserting = traced(pool.fabric, index.write(requestFor(client, key, 'one'), ALWAYS));
    assert.equal(inserting.value, INSERTED);
    assert.deepEqual(inserting.trips, INSERT);
  }
  for (const key of keys) {
    const request = requestFor(client, key);
    const searching = traced(pool.fabric, index.search(request));
    assert.equal(searching.value, true);
    assert.deepEqual(searching.trips, SEARCH);
    assert.equal(foundText(request), 'one');
  }
  for (const key of keys) {
    const updating = traced(pool.fabric, index.write(requestFor(client, key, 'two'), IF_PRESENT));
    assert.equal(updating.value, REPLACED);
    assert.deepEqual(updating.trips, ['READ READ WRITE', 'READ', 'WRITE CAS']);
  }
  for (const key of keys) {
    const removing = traced(pool.fabric, index.remove(requestFor(client, key)));
    assert.equal(removing.value, true);
    assert.deepEqual(removing.trips, ['READ READ', 'READ', 'CAS']);
  }
  assert.deepEqual(
    { ...index.table.retries },
    {
      staleDirectory: 0,
      movingBucket: 0,
      slotChanged: 0,
      pendingKey: 0,
      withdrawn: 0,
      subtableFull: 0,
    },
  );
});

test('what is refused or absent costs no more than finding that out', (t) => {
  const client = quietClient(t);
  const { pool, index, keys } = client;
  const [present, absent] = keys;
  pool.run(index.write(requestFor(client, present, 'v', 7), ALWAYS));
  const write = (key: string, condition: 0 | 1 | 2 | 3, expected?: number) =>
    traced(pool.fabric, index.write(requestFor(client, key, 'w'), condition, expected));
  assert.deepEqual(traced(pool.fabric, index.search(requestFor(client, absent))).trips, MISS);
  assert.deepEqual(traced(pool.fabric, index.remove(requestFor(client, absent))).trips, MISS);
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

test('increment takes 3 round trips, present or not', (t) => {
  const client = quietClient(t);
  const { pool, index, keys } = client;
  for (const expected of [INSERTED, REPLACED]) {
    const request = requestFor(client, keys[0]);
    request.outgoing.ensure(256);
    request.setKey(keys[0], index.records.seed, 32);
    const compute = () => index.table.records.encodeValue(request, '1', 5);
    const { trips, value } = traced(pool.fabric, index.modify(request, compute));
    assert.equal(value, expected);
    assert.equal(trips.length, 3, trips.join(', '));
  }
});

test('searchMany rings twice, whatever its size and whatever is absent', (t) => {
  const client = quietClient(t);
  const { pool, index, keys } = client;
  for (const key of keys.slice(0, 40)) pool.run(index.write(requestFor(client, key, key), ALWAYS));
  const requests = keys.map((key) => requestFor(client, key));
  const found: boolean[] = [];
  const searching = index.searchMany(requests, keys.length, new Batch(), found);
  const { trips } = traced(pool.fabric, searching);
  assert.deepEqual(
    trips.map((trip) => trip.split(' ')),
    [new Array(120).fill('READ'), new Array(40).fill('READ')],
  );
  keys.forEach((key, i) => {
    assert.equal(found[i], i < 40);
    if (found[i]) assert.equal(foundText(requests[i]), key);
  });
});

test('searchMany finds what is there at every step of splits', (t) => {
  const writer = clientByHand(t, { race: { groups: 2, initialDepth: 0 } });
  const reader = clientByHand(t, { race: { groups: 2, initialDepth: 0 }, handle: writer.handle });
  const keys = Array.from({ length: 120 }, (_, i) => `key ${i}`);
  const found: boolean[] = [];
  const batch = new Batch();
  for (let present = 0; present < keys.length; present++) {
    const key = keys[present];
    const writing = writer.index.write(requestFor(writer, key, key), ALWAYS);
    for (let step = writing.next(); !step.done; step = writing.next()) {
      writer.pool.fabric.execute(step.value);
      const requests = keys.map((each) => requestFor(reader, each));
      reader.pool.run(reader.index.searchMany(requests, keys.length, batch, found));
      for (let i = 0; i < keys.length; i++) {
        if (i !== present) assert.equal(found[i], i < present, `${keys[i]} of ${present}`);
        if (found[i]) assert.equal(foundText(requests[i]), keys[i]);
      }
    }
  }
  assert.ok(writer.index.table.splits > 2);
  const { staleDirectory, movingBucket } = reader.index.table.retries;
  assert.ok(staleDirectory > 0 && movingBucket > 0, 'the reader has met splits under way');
});

test('a version is not given again to a key that was deleted meanwhile', (t) => {
  const client = quietClient(t);
  const { pool, index, keys } = client;
  const key = keys[0];
  const write = (value: string, version: number) => requestFor(client, key, value, version);
  pool.run(index.write(write('first', 100), ALWAYS));
  // Seen: version 100. The batch that would make it 101 waits.
  const slow = write('slow', 555);
  const putting = index.write(slow, ALWAYS);
  const last = advance(pool.fabric, putting, 2);
  // Another put makes 101 first; somebody remembers that version; then the key is deleted.
  pool.run(index.write(write('second', 200), ALWAYS));
  const seen = requestFor(client, key);
  assert.ok(pool.run(index.search(seen)));
  pool.run(index.remove(requestFor(client, key)));
  pool.fabric.execute(last);
  assert.equal(pool.run(putting), INSERTED);
  const now = requestFor(client, key);
  assert.ok(pool.run(index.search(now)));
  assert.equal(foundText(now), 'slow');
  assert.notEqual(
    now.found.version,
    seen.found.version,
    'compareAndSet would take it for the same',
  );
});
