import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  foundText,
  requestFor,
  Stepped,
  shardByHand,
} from '../../../store/tests/support/by-hand.ts';
import type { Scope } from '../../../store/tests/support/pools.ts';
import type { Operation } from '../../../verbs/index.ts';
import { ALWAYS, IF_ABSENT, INSERTED, REFUSED, REPLACED } from '../../contract.ts';
import { resize } from '../resizing/resize.ts';
import { type Client, clients } from './support/clients.ts';

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

test('a mover that dies between two verbs of a doorbell leaves nothing stale to be read', (t) => {
  const shard = { buckets: 1, level1: 3, level2: 1, resizes: 3 };
  let partial = 0;
  for (let stop = 0; ; stop++) {
    for (let verbs = 1; ; verbs++) {
      const [mover, other, stale] = clients(t, 3, shard);
      for (const key of KEYS.slice(0, 4)) put(mover, key, 'old');
      assert.ok(mover.pool.run(resize(mover.index.table)));
      other.pool.run(other.index.table.segments.load());
      const request = requestFor(mover, 'key 9', 'v');
      const dying = new Stepped(mover.pool.fabric, mover.index.write(request, ALWAYS));
      while (!dying.done && dying.steps < stop) dying.step();
      if (dying.done) {
        assert.ok(partial > 20);
        return;
      }
      const last = verbs >= dying.verbs;
      dying.dieAfter(verbs);
      partial++;
      // The stale client still goes by the version before: old buckets, frozen or not.
      for (const key of KEYS.slice(0, 4)) assert.equal(get(stale, key), 'old');
      for (const key of KEYS.slice(0, 4)) assert.equal(put(other, key, 'new'), REPLACED);
      for (const key of KEYS.slice(0, 4)) assert.equal(get(stale, key), 'new');
      assert.ok(remove(other, 'key 1'));
      assert.equal(get(stale, 'key 1'), undefined);
      assertWhole(other);
      if (last) break;
    }
  }
});

/** A mover that has done `steps` doorbells of a write and `verbs` verbs of the next one. */
function halfMoved(t: Scope, resizes: number, steps: number, verbs: number) {
  const [mover, other, late] = clients(t, 3, { ...SMALL, level1: 6 });
  for (const key of KEYS.slice(0, 5)) put(mover, key, 'old');
  for (let i = 0; i < resizes; i++) assert.ok(mover.pool.run(resize(mover.index.table)));
  other.pool.run(other.index.table.segments.load());
  const write = mover.index.write(requestFor(mover, 'key 9', 'v'), ALWAYS);
  const slow = new Stepped(mover.pool.fabric, write);
  while (!slow.done && slow.steps < steps) slow.step();
  const rest = slow.verbs - verbs;
  if (rest >= 0) slow.stepPart(verbs);
  return { mover, other, late, slow, rest };
}

test('what is written into a bucket that is half moved stays when the mover goes on', (t) => {
  let moments = 0;
  for (const resizes of [1, 4]) {
    for (let [steps, verbs] = [0, 1]; ; verbs++) {
      const { mover, other, late, slow, rest } = halfMoved(t, resizes, steps, verbs);
      if (slow.done) break;
      const [changed, removed] = [KEYS[moments % 5], KEYS[(moments + 1) % 5]];
      // Nobody searches before: a search would move the bucket.
      assert.equal(put(other, changed, 'new'), REPLACED);
      assert.ok(remove(other, removed));
      assert.equal(slow.finish(), INSERTED);
      for (const client of [late, other, mover]) {
        for (const key of KEYS.slice(0, 5)) {
          const value = key === changed ? 'new' : 'old';
          assert.equal(get(client, key), key === removed ? undefined : value);
        }
        assert.equal(get(client, 'key 9'), 'v');
      }
      assertWhole(late);
      moments++;
      if (rest === 0) [steps, verbs] = [steps + 1, 0];
    }
  }
  assert.ok(moments > 40, `${moments} moments`);
});

test('a reader that has read an old bucket half moved finds what was written since', (t) => {
  const shard = { buckets: 1, level1: 6, level2: 1, resizes: 3 };
  let updated = 0;
  for (const key of KEYS.slice(0, 6)) {
    const [mover, other] = clients(t, 2, shard);
    const stale = shardByHand(t, { shard, handle: mover.handle });
    for (const each of KEYS.slice(0, 6)) put(mover, each, 'old');
    assert.ok(mover.pool.run(resize(mover.index.table)));
    mover.pool.run(mover.index.table.segments.load());
    other.pool.run(other.index.table.segments.load());
    const { h1 } = requestFor(mover, key).hash;
    if (other.index.table.geometry.bucketOf(h1, 1) === 0) continue;
    const dying = new Stepped(mover.pool.fabric, mover.index.remove(requestFor(mover, 'none')));
    while (!dying.done && !dying.kinds.startsWith('WRITE CAS')) dying.step();
    if (dying.done) assert.fail('the new bucket is published in one doorbell');
    // The new bucket is complete; what has left the old one is still frozen there.
    dying.dieAfter(2);
    assert.equal(put(other, key, 'new'), REPLACED);
    assert.equal(get(stale, key), 'new');
    updated++;
  }
  assert.ok(updated > 0);
});

test('a claim in a chain from before a resize does not meet an Ordered-CAS after it', (t) => {
  let met = 0;
  for (let i = 0; i < 24; i++) {
    const shard = { buckets: 1, level1: 1, level2: 1, resizes: 3 };
    const [claimer, other] = clients(t, 2, shard);
    for (const { index } of [claimer, other]) {
      // Only the test resizes, however crowded the table is.
      Object.defineProperty(index.table, 'crowded', { get: () => false, set: () => {} });
    }
    for (const key of KEYS.slice(0, 4)) put(claimer, key, key);
    const key = `claimed ${i}`;
    const request = requestFor(claimer, key, 'of the claimer');
    const slow = new Stepped(claimer.pool.fabric, claimer.index.write(request, IF_ABSENT));
    // Up to its commit: a single CAS.
    while (!slow.done && !(slow.verbs === 1 && slow.steps > 3)) slow.step();
    if (slow.done) continue;
    assert.ok(other.pool.run(resize(other.index.table)));
    other.pool.run(other.index.table.segments.load());
    const outcome = put(other, key, 'of the other', IF_ABSENT);
    met += other.index.table.retries.pendingKey;
    assert.notEqual(slow.finish(), outcome);
    assert.equal(get(claimer, key), outcome === INSERTED ? 'of the other' : 'of the claimer');
    assertWhole(other);
    assert.ok(remove(claimer, key));
    assert.equal(get(other, key), undefined);
  }
  assert.ok(met > 0, 'a claim has been withdrawn');
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
  for (let i = 0; i < 20; i++) {
    const key = `key of three ${i}`;
    const [a, b, d] = clients(t, 3, { ...SMALL, level1: 8 });
    for (const each of KEYS.slice(0, 5)) put(a, each, each);
    const write = b.index.write(requestFor(b, key, 'of B'), ALWAYS);
    const planned = new Stepped(b.pool.fabric, write);
    planned.step();
    for (const each of KEYS.slice(0, 5)) remove(d, each);
    put(a, key, 'of A');
    const removing = new Stepped(d.pool.fabric, d.index.remove(requestFor(d, key)));
    removing.step();
    // B meets A's entry in its slot, and is an update.
    assert.equal(planned.finish(), REPLACED);
    assert.equal(get(a, key), 'of B');
    assert.equal(removing.finish(), true);
    for (const client of [a, b, d]) assert.equal(get(client, key), undefined);
    assertWhole(a);
  }
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
