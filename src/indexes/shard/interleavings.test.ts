import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type ByHand,
  foundText,
  requestFor,
  Stepped,
  shardByHand,
} from '../../store/test-support/by-hand.ts';
import type { Scope } from '../../store/test-support/pools.ts';
import type { Operation } from '../../verbs/index.ts';
import { ALWAYS, IF_ABSENT, INSERTED, REFUSED, REPLACED } from '../contract.ts';
import { resize } from './resize.ts';
import type { ShardIndex } from './shard.ts';

type Client = ByHand<ShardIndex>;

/** Several clients of one table; nobody synchronises unless a test does. */
function clients(scope: Scope, count: number, shard: object): Client[] {
  const first = shardByHand(scope, { shard });
  const all = [first];
  while (all.length < count) all.push(shardByHand(scope, { shard, handle: first.handle }));
  for (const { pool, index } of all) {
    pool.enter();
    scope.after(() => pool.exit());
    index.table.syncEvery = Number.POSITIVE_INFINITY;
    index.table.patience = { polls: 1, microseconds: 1 };
  }
  return all;
}

const put = (client: Client, key: string, value: string, condition: 0 | 1 | 2 = ALWAYS) =>
  client.pool.run(client.index.write(requestFor(client, key, value), condition));

function get(client: Client, key: string): string | undefined {
  const request = requestFor(client, key);
  if (!client.pool.run(client.index.search(request))) return undefined;
  client.pool.run(client.index.records.complete(request));
  return foundText(request);
}

const remove = (client: Client, key: string) =>
  client.pool.run(client.index.remove(requestFor(client, key)));

function assertWhole(client: Client): void {
  const problems: string[] = [];
  const problem = (text: string) => problems.push(text);
  client.pool.run(client.index.check({ problem, reachable: () => {}, progress: () => {} }));
  assert.deepEqual(problems, []);
}

const SMALL = { buckets: 1, level1: 4, level2: 2, threshold: 100, resizes: 12 };
const KEYS = Array.from({ length: 24 }, (_, i) => `key ${i}`);

test('a write that stops at any verb of a move: others read and write everything', (t) => {
  for (const missed of [1, 2, 5]) {
    for (let stop = 0; stop < 300; stop += missed) {
      const [writer, other, late] = clients(t, 3, SMALL);
      for (const key of KEYS.slice(0, 9)) put(writer, key, `${key} old`);
      for (let i = 0; i < missed; i++) {
        assert.ok(writer.pool.run(resize(writer.index.table)));
        writer.pool.run(writer.index.table.segments.load());
      }
      const request = requestFor(writer, 'key 20', 'of the slow one');
      const slow = new Stepped(writer.pool.fabric, writer.index.write(request, IF_ABSENT));
      while (!slow.done && slow.steps < stop) slow.step();
      const isDone = slow.done;
      for (const key of KEYS.slice(0, 9)) assert.equal(get(other, key), `${key} old`);
      for (const key of KEYS.slice(0, 9)) put(other, key, `${key} new`);
      for (const key of KEYS.slice(3, 6)) assert.ok(remove(other, key));
      const inserted = put(other, 'key 20', 'of the other', IF_ABSENT);
      if (isDone) assert.equal(inserted, REFUSED);
      // It goes on long after, through two more resizes.
      for (let i = 0; i < 2; i++) {
        other.pool.run(other.index.table.segments.load());
        assert.ok(other.pool.run(resize(other.index.table)));
        for (const key of KEYS) get(other, key);
      }
      assert.equal(slow.finish(), inserted === INSERTED ? REFUSED : INSERTED);
      for (const client of [writer, other, late]) {
        KEYS.slice(0, 9).forEach((key, i) => {
          assert.equal(get(client, key), i >= 3 && i < 6 ? undefined : `${key} new`);
        });
        const winner = inserted === INSERTED ? 'of the other' : 'of the slow one';
        assert.equal(get(client, 'key 20'), winner);
      }
      assertWhole(late);
      if (isDone) break;
      assert.ok(stop < 290, 'a write takes fewer steps than that');
    }
  }
});

test('a writer that dies at any verb of its operations leaves a table that serves all', (t) => {
  const kinds = ['insert', 'update', 'remove'] as const;
  for (const kind of kinds) {
    for (let stop = 0; stop < 40; stop++) {
      const [writer, other] = clients(t, 2, { ...SMALL, level1: 2, level2: 1 });
      for (const key of KEYS.slice(0, 5)) put(writer, key, 'old');
      assert.ok(writer.pool.run(resize(writer.index.table)));
      const key = kind === 'insert' ? 'key 9' : 'key 2';
      const request = requestFor(writer, key, 'its last');
      const operation: Operation<unknown> =
        kind === 'remove' ? writer.index.remove(request) : writer.index.write(request, ALWAYS);
      const dying = new Stepped(writer.pool.fabric, operation);
      while (!dying.done && dying.steps < stop) dying.step();
      const before = kind === 'insert' ? undefined : 'old';
      const after = kind === 'remove' ? undefined : 'its last';
      assert.ok((dying.done ? [after] : [before, after]).includes(get(other, key)));
      for (const each of KEYS) put(other, each, each);
      for (const each of KEYS) assert.equal(get(other, each), each);
      assertWhole(other);
      if (dying.done) break;
    }
  }
});

test('of two inserters of a key one wins, whatever the step at which the first stands', (t) => {
  for (const full of [0, 3, 4, 5, 6, 7]) {
    for (let stop = 0; stop < 20; stop++) {
      const [first, second] = clients(t, 2, SMALL);
      for (const key of KEYS.slice(0, full)) put(first, key, key);
      if (full > 4) remove(first, KEYS[1]);
      const request = requestFor(first, 'k', 'first');
      const slow = new Stepped(first.pool.fabric, first.index.write(request, IF_ABSENT));
      while (!slow.done && slow.steps < stop) slow.step();
      const outcome = put(second, 'k', 'second', IF_ABSENT);
      assert.notEqual(slow.finish(), outcome);
      assert.equal(get(second, 'k'), outcome === INSERTED ? 'second' : 'first');
      assertWhole(second);
      assert.ok(remove(first, 'k'));
      assert.equal(get(second, 'k'), undefined);
    }
  }
});

test('a slot that comes free in between does not bring a removed value back', (t) => {
  // Reference 3.4: B plans to insert behind a slot that comes free; A inserts there, D removes.
  const [a, b, d] = clients(t, 3, { ...SMALL, level1: 8 });
  for (const key of KEYS.slice(0, 5)) put(a, key, key);
  const planned = new Stepped(b.pool.fabric, b.index.write(requestFor(b, 'k', 'of B'), ALWAYS));
  planned.step();
  for (const key of KEYS.slice(0, 5)) remove(d, key);
  put(a, 'k', 'of A');
  const removing = new Stepped(d.pool.fabric, d.index.remove(requestFor(d, 'k')));
  removing.step();
  // B meets A's entry in its slot, and is an update.
  assert.equal(planned.finish(), REPLACED);
  assert.equal(get(a, 'k'), 'of B');
  assert.equal(removing.finish(), true);
  for (const client of [a, b, d]) assert.equal(get(client, 'k'), undefined);
  assertWhole(a);
});

test('the overflow bit outlives updates, removals and moves of the entry that it is in', (t) => {
  const [client, other] = clients(t, 2, { ...SMALL, level1: 1 });
  for (const key of KEYS.slice(0, 4)) put(client, key, 'v');
  for (let round = 0; round < 3; round++) {
    for (const key of KEYS.slice(0, 4)) {
      assert.ok(remove(client, key));
      assert.equal(put(other, key, 'w'), INSERTED);
      assert.equal(put(client, key, 'x'), REPLACED);
      for (const each of KEYS.slice(0, 4)) assert.ok(get(other, each), each);
    }
    assert.ok(client.pool.run(resize(client.index.table)));
    client.pool.run(client.index.table.segments.load());
    assertWhole(other);
  }
});

test('a client that missed every resize finds, updates and removes everything', (t) => {
  const [client, stale] = clients(t, 2, { buckets: 1, level1: 2, level2: 1, resizes: 9 });
  const keys = Array.from({ length: 300 }, (_, i) => `key ${i}`);
  client.index.table.syncEvery = 1;
  for (const key of keys) put(client, key, key);
  assert.ok(client.index.table.segments.version > 5 && stale.index.table.segments.version === 0);
  for (const [i, key] of keys.entries()) {
    if (i % 3 === 0) assert.equal(get(stale, key), key);
    else if (i % 3 === 1) assert.equal(put(stale, key, 'new'), REPLACED);
    else assert.ok(remove(stale, key));
  }
  keys.forEach((key, i) => {
    assert.equal(get(client, key), [key, 'new', undefined][i % 3]);
  });
  assertWhole(stale);
});

test('segment ids are renewed every fourth resize, in level 2 by either choice', (t) => {
  const [client, other] = clients(t, 2, { buckets: 1, level1: 1, level2: 8, resizes: 13 });
  const keys = Array.from({ length: 40 }, (_, i) => `key ${i}`);
  for (const key of keys) put(client, key, key);
  const { segments } = client.index.table;
  while (segments.version < 13) {
    assert.ok(client.pool.run(resize(client.index.table)));
    client.pool.run(segments.load());
    other.pool.run(other.index.table.segments.load());
    // Some are visited at once, the rest miss many resizes.
    for (const key of keys.slice(0, 3 * segments.version)) assert.equal(get(other, key), key);
  }
  for (const key of keys) assert.equal(get(other, key), key);
  assertWhole(client);
});
