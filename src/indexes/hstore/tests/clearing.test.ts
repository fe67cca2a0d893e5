/** Buckets that are cleared in one turn, by servers and clients that die. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { control } from '../../../pool/control.ts';
import { claimedBlocks } from '../../../pool/memory/tests/support/claimed-blocks.ts';
import { requestFor, Stepped, stopAfter } from '../../../store/tests/support/by-hand.ts';
import type { Operation } from '../../../verbs/index.ts';
import { ALWAYS } from '../../contract.ts';
import { sweep } from '../../sweep.ts';
import { HStoreParts } from '../parts.ts';
import { BUCKET_BYTES, SLOTS } from '../protocol/slot.ts';
import { answerAbandoned } from '../recovery/abandoned-requests.ts';
import { type Client, get, newClient, put, scanned } from './support/clients.ts';

/** One bucket, and more records than its turn could answer one by one. */
const SHAPE = { buckets: 1, rows: 16, log: 16 };
const KEYS = ['a', 'b', 'c', 'd', 'e'];
const NO_CODEC = 255;

function clearing({ index }: Client): Operation<number> {
  return (index.clearing(NO_CODEC) as { next(): Operation<number> }).next();
}

/** Two clients of one pool whose bucket has records. */
function filled(scope: Parameters<typeof newClient>[0]): Client[] {
  const one = newClient(scope, {}, { shape: SHAPE });
  const other = newClient(scope, { handle: one.handle }, { shape: SHAPE });
  for (const key of KEYS) put(one, key, 'old');
  return [one, other];
}

/** The client's death is known to the other one. */
function bury(dead: Client, other: Client): void {
  const { membership } = other.pool;
  const { liveness } = membership;
  membership.liveness = (row) =>
    row.id === dead.pool.membership.id ? 'gone' : liveness.call(membership, row);
}

const present = (client: Client) => KEYS.filter((key) => get(client, key) !== undefined);

test('a client that opens the store after a death is cleared of nothing that it writes', (t) => {
  let late = 0;
  for (let steps = 0; ; steps++) {
    const [dying, other] = filled(t);
    const clears = new Stepped(dying.pool.fabric, clearing(dying));
    for (let i = 0; i < steps && !clears.done; i++) clears.step();
    const { done } = clears;
    bury(dying, other);
    const before = present(other).length;
    other.pool.run(answerAbandoned(other.index.table.pairs[0]));
    const after = present(other);
    if (after.length !== before) late++;
    put(other, 'new', 'v');
    put(other, 'another', 'v');
    assert.deepEqual(present(other), after, `after ${steps} steps`);
    assert.deepEqual([get(other, 'new'), get(other, 'another')], ['v', 'v'], `${steps} steps`);
    if (done) break;
  }
  assert.ok(late > 3, `${late} times late`);
});

/** Where each key's record stands. */
function recordsOf({ pool, index }: Client): Map<string, number> {
  return new Map(
    KEYS.map((key) => {
      const request = requestFor({ index }, key);
      assert.ok(pool.run(index.search(request)));
      return [key, request.foundAddress];
    }),
  );
}

function loseTable({ pool, index }: Client): void {
  const { segments } = index.table.pairs[0].geometry;
  pool.run(control.writeBytes(segments[0], new Uint8Array(BUCKET_BYTES)));
}

function assertWhole(client: Client, keys: readonly string[], when: string): void {
  const { pool, index } = client;
  assert.deepEqual(
    present(client),
    keys.filter((key) => KEYS.includes(key)),
    when,
  );
  assert.deepEqual(pool.run(scanned(client)), [...keys].sort(), when);
  pool.run(
    index.check({
      problem: (text) => assert.fail(`${when}: ${text}`),
      reachable() {},
      progress() {},
    }),
  );
}

test('a server dies after each verb of a clearing: all or nothing, none leaked, none back', (t) => {
  const outcomes = new Set<number>();
  for (let verbs = 0; ; verbs++) {
    const when = `after ${verbs} verbs`;
    const [dying, other] = filled(t);
    assert.deepEqual(other.pool.run(scanned(other)), KEYS);
    const records = recordsOf(other);
    dying.pool.enter();
    const done = stopAfter(dying, clearing(dying), verbs) < verbs;
    if (done) dying.pool.exit();
    bury(dying, other);
    put(other, 'new', 'v');
    put(other, 'another', 'v');
    const left = present(other);
    outcomes.add(left.length);
    assert.ok(left.length === 0 || left.length === KEYS.length, when);
    const keys = [...left, ...['new', 'another'].filter((key) => get(other, key) !== undefined)];
    assertWhole(other, keys, when);
    // From the records that are marked as current.
    const third = newClient(t, { handle: other.handle }, { shape: SHAPE });
    bury(dying, third);
    loseTable(third);
    assertWhole(third, keys, `${when}, in a new table`);
    third.pool.run(third.pool.reclamation.goOffline());
    other.pool.betweenOperations(() => sweep(other.pool, other.index));
    const claimed = claimedBlocks(other.pool, other.index.records.catalog);
    for (const [key, record] of records) {
      assert.equal(claimed.has(record), left.includes(key), `${key} ${when}`);
    }
    if (done) break;
  }
  assert.equal(outcomes.size, 2);
});

// With another table, a sweep may have freed the chained buckets of the one before.
test('a server does not read the bucket that is to be cleared once it has another table', (t) => {
  const [dying, other] = filled(t);
  for (let i = 0; i < SLOTS; i++) put(dying, `more ${i}`, 'v');
  const parts = new HStoreParts(other.index.table);
  other.pool.run(parts.read());
  const { segments } = other.index.table.pairs[0].geometry;
  const buckets = [segments[0], ...parts.chained];
  assert.equal(buckets.length, 2);
  const clears = new Stepped(dying.pool.fabric, clearing(dying));
  while (!/^WRITE WRITE CAS$/.test(clears.kinds)) clears.step();
  clears.step();
  bury(dying, other);
  loseTable(other);
  assert.equal(get(other, 'a'), 'old');
  const answering = answerAbandoned(other.index.table.pairs[0]);
  for (let step = answering.next(); !step.done; step = answering.next()) {
    const { address, length } = step.value;
    for (const bucket of buckets) assert.ok(!address.slice(0, length).includes(bucket));
    other.pool.fabric.execute(step.value);
  }
  assert.equal(present(other).length, KEYS.length);
});

test('a clearing that is stopped after each step and overtaken retires each record once', (t) => {
  let overtaken = 0;
  for (let steps = 0; ; steps++) {
    const [one, other] = filled(t);
    const records = new Set(recordsOf(other).values());
    const retired: number[] = [];
    for (const { pool } of [one, other]) {
      const { reclamation } = pool;
      const retire = reclamation.retire.bind(reclamation);
      reclamation.retire = (address, units, catalog) => {
        if (records.has(address)) retired.push(address);
        retire(address, units, catalog);
      };
    }
    const clears = new Stepped(one.pool.fabric, clearing(one));
    for (let i = 0; i < steps && !clears.done; i++) clears.step();
    const { done } = clears;
    put(other, 'a', 'new');
    put(other, 'b', 'new');
    if (!done && present(other).length < KEYS.length) overtaken++;
    assert.equal(clears.finish(), KEYS.length);
    assert.deepEqual(new Set(retired), records, `${steps} steps`);
    assert.equal(retired.length, KEYS.length, `${steps} steps`);
    if (done) break;
  }
  assert.ok(overtaken > 0);
});

test('a server that was overtaken puts no key back into a slot that was cleared twice', (t) => {
  let late = 0;
  for (let steps = 0; ; steps++) {
    const [one, other] = filled(t);
    other.pool.run(clearing(other));
    const write = one.index.write(requestFor(one, 'late', 'v'), ALWAYS);
    const writing = new Stepped(one.pool.fabric, write);
    for (let i = 0; i < steps && !writing.done; i++) writing.step();
    const { done } = writing;
    put(other, 'a', 'new');
    const isAnswered = get(other, 'late') !== undefined;
    other.pool.run(clearing(other));
    if (!done) writing.finish();
    if (isAnswered) assert.equal(get(other, 'late'), undefined, `after ${steps} steps`);
    assertWhole(other, isAnswered ? [] : ['late'], `after ${steps} steps`);
    if (isAnswered && !done) late++;
    if (done) break;
  }
  assert.ok(late > 0);
});
