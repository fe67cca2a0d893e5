import assert from 'node:assert/strict';
import { test } from 'node:test';
import { traced } from '../../../store/tests/support/by-hand.ts';
import type { Scope } from '../../../store/tests/support/pools.ts';
import { Batch, type Operation } from '../../../verbs/index.ts';
import { ALWAYS, IF_ABSENT, IF_PRESENT, IF_VERSION, INSERTED, retriesOf } from '../../contract.ts';
import { type Client, clientOf, foundText, requestFor } from './support/client.ts';

/**
 * Round trips of single operations (CHIME, Table 1): search 1, insert, update and delete 2. The
 * operations are driven by hand, so what a client does between two operations is not counted;
 * blocks are claimed before the first one. The neighbourhoods of the keys do not go over the end.
 */
function quietClient(scope: Scope, count: number, wishes = {}): Client & { keys: string[] } {
  const client = clientOf(scope, wishes);
  const { allocator } = client.pool;
  const { records, tree } = client.index;
  client.pool.run(allocator.refill(allocator.sizeClass(records.catalog, 1)));
  const keys: string[] = [];
  for (let i = 0; keys.length < count; i++) {
    const { hash } = requestFor(client, `key ${i}`);
    if (tree.geometry.homeOf(hash.h2) <= 64 - 8) keys.push(`key ${i}`);
  }
  // The first operation reads the root link.
  client.pool.run(client.index.search(requestFor(client, 'nothing')));
  return { ...client, keys };
}

function trips<T>({ pool }: Client, operation: Operation<T>): string[] {
  return traced(pool.fabric, operation).trips;
}

const NEIGHBOURHOOD = 'READ';
/** The only leaf has no next one, so its bounds are read along. */
const SEARCH = 'READ READ READ READ';
const LOCK = 'WRITE CAS READ READ';
const UPDATE = 'WRITE WRITE WRITE';
const UNLOCK = 'WRITE';

test('search 1, insert 2, update 2, delete 2 round trips', (t) => {
  const client = quietClient(t, 20);
  const { index, keys } = client;
  for (const key of keys) {
    const insertion = index.write(requestFor(client, key, 'one'), ALWAYS);
    const [lock, change, ...rest] = trips(client, insertion);
    assert.deepEqual([lock, rest], [LOCK, []]);
    assert.match(change, /^WRITE( WRITE){5,}$/);
  }
  for (const key of keys) {
    const request = requestFor(client, key);
    assert.deepEqual(trips(client, index.search(request)), [NEIGHBOURHOOD]);
    assert.equal(foundText(request), 'one');
    const update = index.write(requestFor(client, key, 'two'), IF_PRESENT);
    assert.deepEqual(trips(client, update), [LOCK, UPDATE]);
    const refused = index.write(requestFor(client, key, 'no'), IF_ABSENT);
    assert.deepEqual(trips(client, refused), [LOCK, UNLOCK]);
    const stale = index.write(requestFor(client, key, 'no'), IF_VERSION, 99);
    assert.deepEqual(trips(client, stale), [LOCK, UNLOCK]);
  }
  for (const key of keys) {
    assert.equal(trips(client, index.remove(requestFor(client, key))).length, 2);
    assert.equal(trips(client, index.remove(requestFor(client, key))).length, 2);
  }
  assert.ok(Object.values(retriesOf(index)).every((count) => count === 0));
});

test('what proves a miss is read after the neighbourhood, or with it when misses are many', (t) => {
  const client = quietClient(t, 20);
  const { pool, index, keys } = client;
  const late = `${NEIGHBOURHOOD} -> ${SEARCH}`;
  const searched = (some: string[]) =>
    some.map((key) => trips(client, index.search(requestFor(client, key))).join(' -> '));
  const misses = searched(keys);
  const first = misses.indexOf(SEARCH);
  assert.ok(first > 0);
  assert.deepEqual(misses, [...Array(first).fill(late), ...Array(20 - first).fill(SEARCH)]);
  for (const key of keys) pool.run(index.write(requestFor(client, key, key), ALWAYS));
  const hits = searched(Array(10).fill(keys).flat());
  assert.equal(hits[0], SEARCH);
  assert.equal(hits.at(-1), NEIGHBOURHOOD);
  assert.deepEqual(new Set(hits), new Set([SEARCH, NEIGHBOURHOOD]));
});

test('a batch of searches is one round trip, whatever its size', (t) => {
  const client = quietClient(t, 20);
  const { pool, index, keys } = client;
  for (const key of keys) pool.run(index.write(requestFor(client, key, key), ALWAYS));
  const requests = keys.map((key) => requestFor(client, key));
  const found: boolean[] = [];
  const searching = index.searchMany(requests, requests.length, new Batch(), found);
  assert.equal(trips(client, searching).length, 1);
  assert.deepEqual(requests.map(foundText), keys);
});

test('in a tree of many leaves a replica tells whether a leaf is the key’s', (t) => {
  const client = quietClient(t, 600);
  const { pool, index, keys } = client;
  for (const key of keys) {
    assert.equal(pool.run(index.write(requestFor(client, key, key), ALWAYS)), INSERTED);
  }
  const verbs = new Map<string, number>();
  for (const key of keys) pool.run(index.search(requestFor(client, `${key} absent`)));
  for (const key of keys) {
    for (const wanted of [key, `${key} absent`]) {
      const all = trips(client, index.search(requestFor(client, wanted)));
      verbs.set(all.join(' -> '), (verbs.get(all.join(' -> ')) ?? 0) + 1);
    }
  }
  const three = verbs.get('READ READ READ') ?? 0;
  assert.ok(three > 900, JSON.stringify([...verbs]));
  assert.ok(
    [...verbs.keys()].every((each) => !each.includes('->')),
    JSON.stringify([...verbs]),
  );
});

test('a scan of four leaves is one round trip, two with longer items', (t) => {
  for (const value of ['short', 'long '.repeat(30)]) {
    const client = quietClient(t, 400);
    const { pool, index, keys } = client;
    for (const key of keys) pool.run(index.write(requestFor(client, key, value), ALWAYS));
    let count = 0;
    const scan = index.scan({ width: 4 });
    while (!scan.done) {
      const each = trips(
        client,
        scan.next(() => count++),
      );
      assert.equal(each.length, value === 'short' ? 1 : 2);
    }
    assert.equal(count, keys.length);
  }
});

test('a search of a hot key READs one entry', (t) => {
  const client = quietClient(t, 20);
  client.index.configure({ hotspots: 64 });
  const { pool, index, keys } = client;
  for (const key of keys) pool.run(index.write(requestFor(client, key, key), ALWAYS));
  for (const key of keys) pool.run(index.search(requestFor(client, key)));
  for (const key of keys) {
    const request = requestFor(client, key);
    assert.deepEqual(trips(client, index.search(request)), ['READ']);
    assert.equal(foundText(request), key);
    pool.run(index.write(requestFor(client, key, 'two'), ALWAYS));
    assert.deepEqual(trips(client, index.search(request)), ['READ']);
    assert.equal(foundText(request), 'two');
    pool.run(index.remove(requestFor(client, key)));
    const first = trips(client, index.search(request));
    const second = trips(client, index.search(request));
    assert.deepEqual([first.at(-1), second.at(-1)], [SEARCH, SEARCH]);
    assert.ok(second.length < first.length, 'it is forgotten');
  }
});
