import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  advance,
  type ByHand,
  foundText,
  requestFor,
  sepHashByHand,
  traced,
} from '../../../../store/tests/support/by-hand.ts';
import type { Scope } from '../../../../store/tests/support/pools.ts';
import { Batch, type Operation, setWord } from '../../../../verbs/index.ts';
import { ALWAYS, IF_ABSENT, IF_PRESENT, INSERTED, REFUSED, STORED } from '../../../contract.ts';
import { HEADER_AT } from '../../request.ts';
import type { SepHashIndex } from '../../sephash.ts';
import { canSetBit, completeBit, isFilterReliable } from '../filter.ts';
import { filterWordOf, HEADER_BYTES, metaHigh } from '../header.ts';

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

/** Two keys with different fingerprints in one word of the filter. */
function keysOfOneWord(client: Client): [string, string] {
  const print = (key: string) => (requestFor(client, key).hash.h2 >>> 8) & 0xff;
  for (let i = 1; ; i++) {
    const [a, b] = [print('k0'), print(`k${i}`)];
    if (a !== b && filterWordOf(a) === filterWordOf(b)) return ['k0', `k${i}`];
  }
}

function get(client: Client, key: string): string | undefined {
  const request = requestFor(client, key);
  return client.pool.run(client.index.search(request)) ? foundText(request) : undefined;
}

function finish({ pool }: Client, operation: Operation<unknown>, batch: Batch): unknown {
  pool.fabric.execute(batch);
  return pool.run(operation);
}

/**
 * An insertion of k0 whose entry stands without its filter bit: another client has set another bit
 * of the word in between and gone no further.
 */
function entryWithoutBit(scope: Scope) {
  const [writer, hindrance, other] = clients(scope, 3);
  const [key, neighbour] = keysOfOneWord(writer);
  const writing = writer.index.write(requestFor(writer, key, 'v'), ALWAYS);
  const claim = advance(writer.pool.fabric, writing, 1);
  const hindering = hindrance.index.write(requestFor(hindrance, neighbour, 'n'), ALWAYS);
  const half = advance(hindrance.pool.fabric, hindering, 1);
  half.length = 1;
  hindrance.pool.fabric.execute(half);
  writer.pool.fabric.execute(claim);
  return { writer, writing, other, key };
}

test('an entry without its filter bit counts from when its writer sets it', (t) => {
  const { writer, writing, other, key } = entryWithoutBit(t);
  assert.equal(get(other, key), undefined);
  assert.equal(writer.pool.run(writing), STORED);
  assert.equal(get(other, key), 'v');
});

test('who has been told of an entry without its bit finds it from then on', (t) => {
  for (const [condition, expected] of [
    [IF_ABSENT, REFUSED],
    [IF_PRESENT, 2],
  ] as const) {
    const { other, key } = entryWithoutBit(t);
    const outcome = other.pool.run(other.index.write(requestFor(other, key, 'w'), condition));
    assert.equal(outcome, expected);
    assert.equal(get(other, key), condition === IF_ABSENT ? 'v' : 'w');
  }
  const { other, key } = entryWithoutBit(t);
  assert.equal(other.pool.run(other.index.remove(requestFor(other, key))), true);
  assert.equal(get(other, key), undefined);
});

test('a filter word of a later epoch is never replaced', (t) => {
  const [client] = clients(t, 1);
  const { index, pool } = client;
  const request = requestFor(client, 'k');
  request.begin();
  request.view = index.table.viewAt(index.table.directory.lookup(request.hash.h1));
  const at = HEADER_AT + filterWordOf(request.tag >>> 8);
  const epoch = 7;
  request.metaHigh = metaHigh(64, 0, epoch);
  // As it was read in one READ with the metadata, or as a CAS that failed has found it.
  setWord(request.words, at, 0, metaHigh(0, 0, epoch + 1));
  assert.equal(canSetBit(request), false);
  assert.deepEqual(traced(pool.fabric, completeBit(index.table, request)).trips, []);
  // Seen again with the same metadata it must be millions of merges old.
  assert.equal(isFilterReliable(index.table, request), false);
  assert.equal(canSetBit(request), false);
  assert.equal(isFilterReliable(index.table, request), true);
  assert.equal(canSetBit(request), true);
  setWord(request.words, at, 1, metaHigh(0, 0, epoch + 1));
  assert.equal(canSetBit(request), false, 'another word, as late as that');
});

test('a search whose header is of two epochs does not take the later filter for its own', (t) => {
  const [writer, reader] = clients(t, 2);
  const [key, neighbour] = keysOfOneWord(writer);
  const put = (name: string) =>
    writer.pool.run(writer.index.write(requestFor(writer, name, 'v'), ALWAYS));
  put(key);
  const request = requestFor(reader, key);
  const searching = reader.index.search(request);
  const first = advance(reader.pool.fabric, searching, 0);
  reader.pool.fabric.execute(first);
  // Now the key is in the MainSegment, and its filter word has nothing but the neighbour's bit.
  for (let i = 0; writer.index.table.merges === 0; i++) put(`other ${i}`);
  put(neighbour);
  // The words of one READ may be of different times: the metadata, then these.
  const { header } = request.view;
  const late = new Batch().read(header + 8, HEADER_BYTES - 8, request.words, HEADER_AT + 8);
  reader.pool.fabric.execute(late);
  assert.ok(reader.pool.run(searching));
  assert.equal(foundText(request), 'v');
});

test('a merge, a count and a walk let an entry count whose writer has died', (t) => {
  const merged = entryWithoutBit(t);
  for (let i = 0; merged.other.index.table.merges === 0; i++) {
    const write = merged.other.index.write(requestFor(merged.other, `other ${i}`, ''), ALWAYS);
    merged.other.pool.run(write);
  }
  assert.equal(get(merged.other, merged.key), 'v');
  const counted = entryWithoutBit(t);
  assert.equal(counted.other.pool.run(counted.other.index.shape()).records, 1);
  assert.equal(get(counted.other, counted.key), 'v');
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
