import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type ByHand,
  claimAhead,
  foundText,
  requestFor,
  sepHashByHand,
  traced,
} from '../../../store/tests/support/by-hand.ts';
import type { Scope } from '../../../store/tests/support/pools.ts';
import { Batch } from '../../../verbs/index.ts';
import {
  ALWAYS,
  EXCHANGE,
  IF_ABSENT,
  IF_PRESENT,
  IF_VERSION,
  INSERTED,
  REFUSED,
  REPLACED,
  STORED,
} from '../../contract.ts';
import { without } from '../../substrates/parameters.ts';
import { SEPHASH_TECHNIQUES, type SepHashTechnique } from '../geometry.ts';
import type { SepHashIndex } from '../sephash.ts';

type Client = ByHand<SepHashIndex> & { keys: string[] };

const but = (...left: SepHashTechnique[]) => without(SEPHASH_TECHNIQUES, ...left);

/**
 * Round trips of single operations (SepHash, Figure 9 and section 4.4): search 2, or 3 when the
 * filter is hit; insert, update and delete 2. Driven by hand, so that nothing of what a client does
 * between two operations is counted, with blocks claimed ahead, by a client that knows the segment.
 * The keys have different fingerprints.
 */
function quietClient(scope: Scope, sephash: Readonly<Record<string, number>> = {}): Client {
  const client = sepHashByHand(scope, { sephash: { initialDepth: 0, ...sephash } });
  const { pool, index } = client;
  pool.enter();
  scope.after(() => pool.exit());
  // One block of each size stays in use, so that its chunk is not given up for another size.
  for (const units of [1, index.table.geometry.slotsUnits, ...index.records.tableUnits()]) {
    claimAhead(client, units);
    pool.run(pool.allocator.allocate(index.records.catalog, units));
  }
  const seen = new Set<number>();
  const keys: string[] = [];
  for (let i = 0; keys.length < 40; i++) {
    const print = requestFor(client, `key ${i}`).hash.h2 & 0xff00;
    if (seen.has(print)) continue;
    seen.add(print);
    keys.push(`key ${i}`);
  }
  pool.run(index.search(requestFor(client, 'first use')));
  return { ...client, keys };
}

const put = (client: Client, key: string, value: string) =>
  traced(client.pool.fabric, client.index.write(requestFor(client, key, value), ALWAYS));
const find = (client: Client, key: string) => {
  const request = requestFor(client, key);
  return { ...traced(client.pool.fabric, client.index.search(request)), request };
};

/** Fills the CurSegment with other keys until it has been merged. */
function merge(client: Client): void {
  const before = client.index.table.merges;
  for (let i = 0; client.index.table.merges === before; i++) put(client, `other ${i}`, '');
}

test('insert, update and delete take 2 round trips', (t) => {
  const client = quietClient(t);
  const { pool, index, keys } = client;
  for (const [key, expected] of [
    [keys[0], ['WRITE READ READ', 'WRITE CAS']],
    [keys[0], ['WRITE READ READ', 'WRITE CAS']],
    [keys[1], ['WRITE READ READ', 'WRITE CAS']],
  ] as const) {
    const { trips, value } = put(client, key, 'one');
    assert.equal(value, STORED);
    assert.deepEqual(trips, expected);
  }
  const erasing = traced(pool.fabric, index.erase(requestFor(client, keys[0], '')));
  assert.deepEqual(erasing.trips, ['WRITE READ READ', 'WRITE CAS']);
  assert.equal(find(client, keys[0]).value, false);
  assert.equal(find(client, keys[1]).value, true);
});

test('a write without a technique costs what the technique saves', (t) => {
  for (const [options, expected] of [
    [but('append'), ['WRITE READ READ', 'WRITE CAS', 'READ READ']],
    [but('zeroWait'), ['WRITE READ READ', 'WRITE', 'CAS']],
    [{ window: 0 }, ['WRITE READ READ', 'WRITE CAS']],
  ] as const) {
    const client = quietClient(t, options);
    assert.deepEqual(put(client, client.keys[0], 'one').trips, expected);
  }
  const bytesRead = (window: number) => {
    const client = quietClient(t, { window });
    put(client, client.keys[0], 'one');
    const before = client.pool.fabric.traffic.snapshot().bytesRead;
    put(client, client.keys[1], 'one');
    return client.pool.fabric.traffic.snapshot().bytesRead - before;
  };
  // The entry before the window is read too.
  assert.deepEqual([bytesRead(8), bytesRead(0)], [9 * 8 + 8, 1024 + 8]);
});

test('without signs a merge writes a new CurSegment, which others have to learn of', (t) => {
  const client = quietClient(t, { segmentBytes: 128, ratio: 8, ...but('signs') });
  const { index, keys } = client;
  const slots = () => index.table.viewAt(index.table.directory.lookup(0)).slots;
  for (let round = 0; round < 4; round++) {
    const [before, { merges }] = [slots(), index.table];
    for (let i = 0; i < 15; i++) put(client, `${round} ${i}`, '');
    const { trips } = put(client, keys[round], 'last');
    assert.equal(index.table.merges, merges + 1);
    assert.ok(trips.includes('WRITE WRITE CAS'), `${trips}`);
    assert.notEqual(slots(), before);
  }
  for (const key of keys.slice(0, 4)) assert.equal(foundText(find(client, key).request), 'last');
});

test('a search takes 2 round trips, and 3 when the filter is hit', (t) => {
  const client = quietClient(t);
  const { keys } = client;
  for (const key of keys) put(client, key, key);
  for (const key of keys) {
    const { trips, value, request } = find(client, key);
    assert.equal(value, true);
    assert.deepEqual(trips, ['READ READ', 'READ READ', 'READ']);
    assert.equal(foundText(request), key);
  }
  merge(client);
  for (const key of keys) {
    const { trips, value, request } = find(client, key);
    assert.equal(value, true);
    assert.deepEqual(trips, ['READ READ', 'READ']);
    assert.equal(foundText(request), key);
  }
  // A miss ends with the first round trip unless a fingerprint is shared.
  const fresh = quietClient(t);
  assert.deepEqual(find(fresh, 'absent').trips, ['READ READ']);
});

test('without a filter the CurSegment is read in the first round trip', (t) => {
  const client = quietClient(t, but('filter'));
  const { trips } = put(client, client.keys[0], 'one');
  assert.deepEqual(trips, ['WRITE READ READ', 'CAS']);
  assert.deepEqual(find(client, client.keys[0]).trips, ['READ READ', 'READ']);
  merge(client);
  assert.deepEqual(find(client, client.keys[0]).trips, ['READ READ READ', 'READ']);
});

test('without zero-wait writes the filter costs a round trip of its own', (t) => {
  const client = quietClient(t, but('zeroWait'));
  assert.deepEqual(put(client, client.keys[0], 'one').trips, ['WRITE READ READ', 'WRITE', 'CAS']);
});

test('whatever the cache, a search takes 2 round trips', (t) => {
  for (const left of [but(), but('cache'), but('fpTable')]) {
    const client = quietClient(t, left);
    for (const key of client.keys) put(client, key, key);
    merge(client);
    for (const key of client.keys) {
      const { trips, value, request } = find(client, key);
      assert.equal(value, true);
      assert.deepEqual(trips, ['READ READ', 'READ']);
      assert.equal(foundText(request), key);
    }
  }
});

test('what depends on the old record searches first', (t) => {
  const client = quietClient(t);
  const { pool, index, keys } = client;
  const write = (key: string, condition: 1 | 2 | 3 | 4, expected?: number) =>
    traced(pool.fabric, index.write(requestFor(client, key, 'w'), condition, expected));
  const absent = ['WRITE READ READ READ', 'WRITE CAS'];
  const present = ['WRITE READ READ READ', 'READ', 'CAS'];
  assert.deepEqual(write(keys[0], IF_ABSENT), { trips: absent, value: INSERTED });
  assert.deepEqual(write(keys[0], IF_PRESENT), { trips: present, value: REPLACED });
  assert.deepEqual(write(keys[0], EXCHANGE), { trips: present, value: REPLACED });
  const refused = present.slice(0, 2);
  assert.deepEqual(write(keys[0], IF_ABSENT), { trips: refused, value: REFUSED });
  assert.deepEqual(write(keys[0], IF_VERSION, 1), { trips: refused, value: REFUSED });
  const miss = ['WRITE READ READ READ'];
  assert.deepEqual(write(keys[1], IF_PRESENT), { trips: miss, value: REFUSED });
  assert.deepEqual(write(keys[1], IF_VERSION, 1), { trips: miss, value: REFUSED });
  const { request } = find(client, keys[0]);
  const { trips, value } = write(keys[0], IF_VERSION, request.found.version);
  assert.deepEqual([trips.length, value], [3, REPLACED]);
});

test('remove takes 3 round trips, or 1 when the key is absent', (t) => {
  const client = quietClient(t);
  const { pool, index, keys } = client;
  put(client, keys[0], 'one');
  const remove = (key: string) => traced(pool.fabric, index.remove(requestFor(client, key)));
  assert.deepEqual(remove(keys[1]), { trips: ['READ READ READ'], value: false });
  assert.deepEqual(remove(keys[0]), { trips: ['READ READ READ', 'READ', 'CAS'], value: true });
  // The tombstone has to be looked at: its fingerprints are those of the key.
  assert.deepEqual(remove(keys[0]), { trips: ['READ READ READ', 'READ'], value: false });
});

test('increment takes 3 round trips, and 2 when the key is absent', (t) => {
  const client = quietClient(t);
  const { pool, index, keys } = client;
  for (const expected of [
    { value: INSERTED, trips: ['READ READ READ', 'WRITE WRITE CAS'] },
    { value: REPLACED, trips: ['READ READ READ', 'READ', 'WRITE CAS'] },
  ]) {
    const request = requestFor(client, keys[0]);
    request.outgoing.ensure(256);
    request.setKey(keys[0], index.records.seed, 32);
    const compute = () => index.records.encodeValue(request, '1', 5);
    assert.deepEqual(traced(pool.fabric, index.modify(request, compute)), expected);
  }
});

// The record was written for another entry and is given the version of the one that it gets.
test('a merge that this client has not seen costs a write 1 round trip, a search 2', (t) => {
  const client = quietClient(t);
  const other = sepHashByHand(t, { handle: client.handle });
  const { keys } = client;
  put(client, keys[0], 'one');
  merge({ ...other, keys });
  assert.deepEqual(put(client, keys[0], 'two').trips, [
    'WRITE READ READ',
    'READ READ READ',
    'WRITE WRITE CAS',
  ]);
  merge({ ...other, keys });
  const { trips, value, request } = find(client, keys[0]);
  assert.deepEqual(trips, ['READ', 'READ', 'READ READ', 'READ']);
  assert.equal(value, true);
  assert.equal(foundText(request), 'two');
});

test('a merge is 3 round trips, a split 3 and the telling of the directory', (t) => {
  const client = quietClient(t, { segmentBytes: 128, ratio: 1, maxDepth: 4 });
  const { index } = client;
  const growths: string[][] = [];
  for (let i = 0; index.table.splits === 0; i++) {
    const { merges } = index.table;
    const { trips } = put(client, `k${i}`, '');
    if (index.table.merges > merges) growths.push(trips.slice(2));
  }
  assert.deepEqual(growths, [
    ['READ READ READ', 'WRITE CAS'],
    ['READ READ READ', 'READ', 'READ', 'CAS', 'WRITE WRITE WRITE WRITE WRITE CAS', 'CAS'],
  ]);
});

test('searchMany rings as often as a search, whatever its size and whatever is absent', (t) => {
  const client = quietClient(t);
  const { pool, index, keys } = client;
  for (const key of keys.slice(0, 20)) put(client, key, key);
  merge(client);
  for (const key of keys.slice(20, 30)) put(client, key, key);
  const requests = keys.map((key) => requestFor(client, key));
  const found: boolean[] = [];
  const searching = index.searchMany(requests, keys.length, new Batch(), found);
  const { trips } = traced(pool.fabric, searching);
  assert.equal(trips.length, 3);
  keys.forEach((key, i) => {
    assert.equal(found[i], i < 30);
    if (found[i]) assert.equal(foundText(requests[i]), key);
  });
});
