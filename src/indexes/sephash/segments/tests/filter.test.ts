import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  advance,
  type ByHand,
  foundText,
  kindsOf,
  requestFor,
  sepHashByHand,
  traced,
} from '../../../../store/tests/support/by-hand.ts';
import type { Scope } from '../../../../store/tests/support/pools.ts';
import type { Batch, Operation } from '../../../../verbs/index.ts';
import { ALWAYS, EXCHANGE, IF_ABSENT, INSERTED, REFUSED, STORED } from '../../../contract.ts';
import type { SepHashIndex } from '../../sephash.ts';

type Client = ByHand<SepHashIndex>;

const SEPHASH = { segmentBytes: 128, ratio: 8, initialDepth: 0 };

function clients(scope: Scope, count: number): Client[] {
  const first = sepHashByHand(scope, { sephash: SEPHASH });
  const others = Array.from({ length: count - 1 }, () =>
    sepHashByHand(scope, { sephash: SEPHASH, handle: first.handle }),
  );
  for (const { pool, index } of [first, ...others]) {
    pool.run(index.search(requestFor({ index }, 'first use')));
    pool.run(pool.allocator.refill(pool.allocator.sizeClass(index.records.catalog, 1)));
  }
  return [first, ...others];
}

function get(client: Client, key: string): string | undefined {
  const request = requestFor(client, key);
  return client.pool.run(client.index.search(request)) ? foundText(request) : undefined;
}

function finish({ pool }: Client, operation: Operation<unknown>, batch: Batch): unknown {
  pool.fabric.execute(batch);
  return pool.run(operation);
}

function put({ pool, index }: Client, key: string, value = 'v'): unknown {
  return pool.run(index.write(requestFor({ index }, key, value), ALWAYS));
}

/** Puts other keys until the segment has been merged. */
function merge(client: Client): void {
  const before = client.index.table.merges;
  for (let i = 0; client.index.table.merges === before; i++) put(client, `${before} ${i}`);
}

/** The round trips of a search, and whether it has found the key. */
function search({ pool, index }: Client, key: string): { trips: string[]; value: boolean } {
  return traced(pool.fabric, index.search(requestFor({ index }, key)));
}

/** A put of the key that stands behind the WRITE of its mark, ahead of the CAS of its entry. */
function markedOnly(client: Client, key: string) {
  const { pool, index } = client;
  const writing = index.write(requestFor(client, key, 'v'), ALWAYS);
  const claim = advance(pool.fabric, writing, 1);
  assert.match(kindsOf(claim), /WRITE CAS$/);
  claim.length--;
  pool.fabric.execute(claim);
  claim.length++;
  return { writing, claim };
}

test('the mark comes ahead of its entry: the entry never stands without it', (t) => {
  const [writer, reader] = clients(t, 2);
  assert.deepEqual(search(reader, 'k'), { trips: ['READ READ'], value: false });
  const { writing, claim } = markedOnly(writer, 'k');
  assert.deepEqual(search(reader, 'k'), { trips: ['READ READ', 'READ READ'], value: false });
  assert.equal(finish(writer, writing, claim), STORED);
  const trips = ['READ READ', 'READ READ', 'READ'];
  assert.deepEqual(search(reader, 'k'), { trips, value: true });
});

test('a mark without an entry makes searches read the CurSegment until the next merge', (t) => {
  const [dead, other] = clients(t, 2);
  markedOnly(dead, 'k');
  assert.equal(search(other, 'k').trips.length, 2);
  merge(other);
  put(other, 'k');
  merge(other);
  assert.deepEqual(search(other, 'k'), { trips: ['READ READ', 'READ'], value: true });
});

test('a WRITE that is later than a merge changes only the old MainSegment', (t) => {
  const [late, other] = clients(t, 2);
  // The client stays in its epoch while its operation is under way.
  late.pool.enter();
  t.after(() => late.pool.exit());
  put(other, 'k');
  const { writing, claim } = markedOnly(late, 'k');
  merge(other);
  assert.deepEqual(search(other, 'k'), { trips: ['READ READ', 'READ'], value: true });
  assert.equal(finish(late, writing, claim), STORED);
  assert.equal(search(other, 'k').trips.length, 3);
});

test('a conditional write that has read a mark does not write it again', (t) => {
  const [client] = clients(t, 1);
  const { pool, index } = client;
  const write = (key: string) =>
    traced(pool.fabric, index.write(requestFor(client, key, 'w'), EXCHANGE)).trips;
  assert.deepEqual(write('k'), ['WRITE READ READ READ', 'WRITE CAS']);
  assert.deepEqual(write('k'), ['WRITE READ READ READ', 'READ', 'CAS']);
});

test('an append without an FPTable reads where its mark is', (t) => {
  const [client, other] = clients(t, 2);
  let reads = 0;
  for (let i = 0; i < 40; i++) {
    merge(other);
    const request = requestFor(client, `key ${i}`, 'v');
    const { trips } = traced(client.pool.fabric, client.index.write(request, ALWAYS));
    if (trips.some((verbs) => verbs.endsWith('READ READ READ'))) reads++;
    // The second WRITE is the mark's, unless it stands already.
    assert.match(trips.at(-1) as string, /^WRITE (WRITE )?CAS$/);
    assert.equal(get(other, `key ${i}`), 'v');
  }
  assert.ok(reads > 5, `${reads} READs`);
});

test('of two insertions of an absent key the one with the earlier entry wins', (t) => {
  for (const first of [0, 1]) {
    const [one, two, reader] = clients(t, 3);
    const inserting = [one, two].map((client, i) => {
      const operation = client.index.write(requestFor(client, 'k', `v${i}`), IF_ABSENT);
      return { client, operation, batch: advance(client.pool.fabric, operation, 1) };
    });
    const outcomes = [first, 1 - first].map((i) => {
      const { client, operation, batch } = inserting[i];
      return finish(client, operation, batch);
    });
    assert.deepEqual(outcomes, [INSERTED, REFUSED]);
    assert.equal(get(reader, 'k'), `v${first}`);
  }
});

test('an append that was delayed over two merges writes nothing', (t) => {
  const [slow, busy, reader] = clients(t, 3);
  for (let i = 0; i < 5; i++)
    busy.pool.run(busy.index.write(requestFor(busy, `a${i}`, ''), ALWAYS));
  const writing = slow.index.write(requestFor(slow, 'k', 'slow'), ALWAYS);
  const claim = advance(slow.pool.fabric, writing, 1);
  const model = new Map<string, string>();
  for (let i = 0; busy.index.table.merges < 2 || i % 16 < 10; i++) {
    busy.pool.run(busy.index.write(requestFor(busy, `b${i}`, `${i}`), ALWAYS));
    model.set(`b${i}`, `${i}`);
  }
  slow.pool.fabric.execute(claim);
  for (const [key, value] of model) assert.equal(get(reader, key), value);
  assert.equal(slow.pool.run(writing), STORED);
  assert.equal(get(reader, 'k'), 'slow');
  for (const [key, value] of model) assert.equal(get(reader, key), value);
});

test('a record that a merge drops is retired by the next merge only', (t) => {
  const [client] = clients(t, 1);
  const { pool, index } = client;
  pool.enter();
  t.after(() => pool.exit());
  const put = (key: string) => pool.run(index.write(requestFor(client, key, 'v'), ALWAYS));
  put('k');
  const request = requestFor(client, 'k');
  assert.ok(pool.run(index.search(request)));
  const superseded = request.foundAddress;
  const untilMerge = (number: number) => {
    for (let i = 0; index.table.merges < number; i++) put(i === 0 ? 'k' : `${number} ${i}`);
  };
  untilMerge(1);
  assert.ok(!pool.reclamation.waiting().includes(superseded), 'its word still stands');
  untilMerge(2);
  assert.ok(pool.reclamation.waiting().includes(superseded));
});
