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
import { ALWAYS, IF_ABSENT, INSERTED, REFUSED, STORED } from '../../../contract.ts';
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

const put = ({ pool, index }: Client, key: string, value = 'v') =>
  pool.run(index.write(requestFor({ index }, key, value), ALWAYS));

/** Puts other keys until so many merges more have been made. */
function merge(client: Client, times = 1): void {
  const before = client.index.table.merges;
  for (let i = 0; client.index.table.merges < before + times; i++) put(client, `${before} ${i}`);
}

function search(client: Client, key: string): { trips: string[]; value: boolean } {
  return traced(client.pool.fabric, client.index.search(requestFor(client, key)));
}

test('an append changes the filter ahead of its entry, and only once', (t) => {
  const [writer, reader] = clients(t, 2);
  const writing = writer.index.write(requestFor(writer, 'k', 'v'), ALWAYS);
  const claim = advance(writer.pool.fabric, writing, 1);
  assert.equal(kindsOf(claim), 'WRITE CAS');
  const whole = claim.length;
  claim.length = 1;
  writer.pool.fabric.execute(claim);
  // The reader looks for the entry in the CurSegment, which has none yet.
  assert.deepEqual(search(reader, 'k'), { trips: ['READ', 'READ READ'], value: false });
  claim.length = whole;
  assert.equal(finish(writer, writing, claim), STORED);
  assert.equal(get(reader, 'k'), 'v');
  const again = writer.index.write(requestFor(writer, 'k', 'w'), ALWAYS);
  assert.equal(traced(writer.pool.fabric, again).trips.at(-1), 'CAS');
  // Both clients know by now that the CurSegment may have the key.
  for (const client of [writer, reader]) {
    assert.deepEqual(search(client, 'k'), { trips: ['READ READ', 'READ'], value: true });
  }
});

test('a word that is cleared a merge too late only makes searches read more', (t) => {
  const [slow, busy, reader] = clients(t, 3);
  const writing = slow.index.write(requestFor(slow, 'k', 'slow'), ALWAYS);
  const claim = advance(slow.pool.fabric, writing, 1);
  merge(busy);
  assert.equal(get(reader, 'k'), undefined);
  const before = search(reader, 'k').trips.length;
  slow.pool.fabric.execute(claim);
  const { trips, value } = search(reader, 'k');
  assert.deepEqual([trips.length, value], [before + 1, false]);
  assert.equal(slow.pool.run(writing), STORED);
  assert.equal(get(reader, 'k'), 'slow');
});

test('a merger that loses leaves a filter that vouches for nothing', (t) => {
  const [slow, busy, reader] = clients(t, 3);
  for (let i = 0; i < 15; i++) put(slow, `a${i}`);
  const writing = slow.index.write(requestFor(slow, 'last', 'v'), ALWAYS);
  let publication = advance(slow.pool.fabric, writing, 0);
  while (kindsOf(publication) !== 'WRITE WRITE CAS') {
    slow.pool.fabric.execute(publication);
    publication = advance(slow.pool.fabric, writing, 0);
  }
  busy.index.table.patience = { polls: 0, microseconds: 0 };
  put(busy, 'k');
  assert.equal(busy.index.table.merges, 1);
  assert.equal(search(reader, 'absent').value, false);
  assert.ok(!search(reader, 'absent').trips.includes('READ READ READ'));
  assert.equal(finish(slow, writing, publication), STORED);
  assert.equal(slow.index.table.merges, 0);
  // The word names the metadata of the loser: they are not those of the segment.
  const before = reader.index.table.retries.staleSegment;
  assert.equal(search(reader, 'absent').trips.length, 3);
  assert.equal(reader.index.table.retries.staleSegment, before);
  for (const key of ['a0', 'a14', 'last', 'k']) assert.equal(get(reader, key), 'v');
});

test('a search whose reads are on both sides of a merge begins again', (t) => {
  const [writer, reader] = clients(t, 2);
  put(writer, 'k', 'old');
  merge(writer);
  assert.equal(get(reader, 'k'), 'old');
  put(writer, 'k', 'new');
  const request = requestFor(reader, 'k');
  const searching = reader.index.search(request);
  const first = advance(reader.pool.fabric, searching, 0);
  assert.equal(kindsOf(first), 'READ READ');
  first.length = 1;
  reader.pool.fabric.execute(first);
  merge(writer);
  // The second READ, of the filter word: by now the key's entry is in the new MainSegment.
  first.length = 2;
  first.kind[0] = first.kind[1];
  first.address[0] = first.address[1];
  first.bytes[0] = first.bytes[1];
  first.scratch[0] = first.scratch[1];
  first.offset[0] = first.offset[1];
  assert.equal(finish(reader, searching, first), true);
  assert.equal(foundText(request), 'new');
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
  for (let i = 0; i < 5; i++) put(busy, `a${i}`);
  const writing = slow.index.write(requestFor(slow, 'k', 'slow'), ALWAYS);
  const claim = advance(slow.pool.fabric, writing, 1);
  const model = new Map<string, string>();
  for (let i = 0; busy.index.table.merges < 2 || i % 16 < 10; i++) {
    put(busy, `b${i}`, `${i}`);
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
  put(client, 'k');
  const request = requestFor(client, 'k');
  assert.ok(pool.run(index.search(request)));
  const superseded = request.foundAddress;
  const untilMerge = (number: number) => {
    for (let i = 0; index.table.merges < number; i++) put(client, i === 0 ? 'k' : `${number} ${i}`);
  };
  untilMerge(1);
  assert.ok(!pool.reclamation.waiting().includes(superseded), 'its word still stands');
  untilMerge(2);
  assert.ok(pool.reclamation.waiting().includes(superseded));
});
