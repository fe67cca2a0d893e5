import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Scope } from '../../../store/tests/support/pools.ts';
import type { Batch, Operation } from '../../../verbs/index.ts';
import { ALWAYS, INSERTED } from '../../contract.ts';
import {
  type Client,
  checked,
  clientOf,
  foundText,
  requestFor,
  scanned,
} from './support/client.ts';

/**
 * A writer stops for good after every verb of an insertion that splits a leaf, and the internal
 * nodes above it up to a new root. Whoever comes then finds everything, and finishes what it left.
 */
const SHAPE = { span: 4, neighbourhood: 2, fanout: 2 };
const KEYS = Array.from({ length: 24 }, (_, i) => `key ${(i * 7) % 24}`);

function inserting({ index }: Client, key: string): Operation<number> {
  const client = { index } as Client;
  return index.write(requestFor(client, key, `${key} one`), ALWAYS);
}

/** Verbs of each round trip of the insertion of each key, in one tree. */
function verbsOfInsertions(scope: Scope): number[][] {
  const client = clientOf(scope, SHAPE);
  return KEYS.map((key) => {
    const operation = inserting(client, key);
    const verbs: number[] = [];
    for (let step = operation.next(); !step.done; step = operation.next()) {
      verbs.push((step.value as Batch).length);
      client.pool.fabric.execute(step.value as Batch);
    }
    return verbs;
  });
}

/** Executes so many verbs of an operation, and no more. */
function stopAfter({ pool }: Client, operation: Operation<number>, verbs: number): void {
  for (let left = verbs; left > 0; ) {
    const batch = operation.next().value as Batch;
    const whole = batch.length;
    batch.length = Math.min(left, whole);
    left -= batch.length;
    pool.fabric.execute(batch);
    batch.length = whole;
  }
}

function textOf({ pool, index }: Client, key: string): string | undefined {
  const request = requestFor({ index } as Client, key);
  return pool.run(index.search(request)) ? foundText(request) : undefined;
}

/** The tree before the insertion of key `at`, the insertion stopped, and two others. */
function stoppedTree(scope: Scope, at: number, verbs: number) {
  const writer = clientOf(scope, SHAPE);
  const others = [0, 1].map(() => clientOf(scope, SHAPE, writer.handle));
  const present = KEYS.slice(0, at);
  for (const key of present) assert.equal(writer.pool.run(inserting(writer, key)), INSERTED);
  // One of the others remembers the tree as it was.
  for (const key of present) assert.equal(textOf(others[0], key), `${key} one`);
  stopAfter(writer, inserting(writer, KEYS[at]), verbs);
  return { others, present };
}

function assertNothingLost(scope: Scope, at: number, verbs: number): void {
  const { others, present } = stoppedTree(scope, at, verbs);
  const where = `key ${at} stopped after ${verbs} verbs`;
  const half = textOf(others[0], KEYS[at]);
  assert.ok(half === undefined || half === `${KEYS[at]} one`, where);
  for (const client of others) {
    for (const key of present) assert.equal(textOf(client, key), `${key} one`, where);
    const keys = scanned(client, client.index.scan()).map(([key]) => Buffer.from(key, 'hex'));
    const expected = half === undefined ? present : [...present, KEYS[at]];
    assert.deepEqual(keys.map(String), expected.toSorted(), where);
  }
  const [first, second] = others;
  for (const client of others) {
    client.pool.run(client.index.write(requestFor(client, KEYS[at], 'mine'), ALWAYS));
    assert.equal(textOf(client, KEYS[at]), 'mine', where);
  }
  for (const key of present.slice(0, 6)) {
    assert.equal(first.pool.run(first.index.remove(requestFor(first, key))), true, where);
    assert.equal(textOf(second, key), undefined, where);
  }
  for (const key of KEYS.slice(at + 1)) second.pool.run(inserting(second, key));
  assert.deepEqual(checked(first), { problems: [], records: KEYS.length - 6 }, where);
}

test('a writer that stops at any verb of a split leaves nothing that others cannot use', (t) => {
  const insertions = verbsOfInsertions(t).map((verbs, at) => ({ at, verbs }));
  const longest = insertions.toSorted((a, b) => b.verbs.length - a.verbs.length).slice(0, 3);
  let stops = 0;
  for (const { at, verbs } of longest) {
    const all = verbs.reduce((sum, count) => sum + count, 0);
    for (let stop = 1; stop < all; stop++, stops++) {
      // The pools are never closed: nobody would get the epochs that a close waits for.
      assertNothingLost({ after: () => {} }, at, stop);
    }
  }
  assert.ok(stops > 150, `${stops} stops`);
});

test('in a full pool every key is found, updated where it stands, and removed', () => {
  // Nothing is freed: the client stays in one epoch, so that also the limbo fills the pool.
  const shape = { span: 64, neighbourhood: 2, fanout: 64 };
  const client = clientOf({ after: () => {} }, shape, undefined, 4 * 2 ** 20);
  const stored: string[] = [];
  const fill = () => {
    for (;;) {
      const key = String(stored.length).padStart(10, '0');
      client.pool.run(inserting(client, key));
      stored.push(key);
    }
  };
  assert.throws(fill, { code: 'SW_POOL_FULL' });
  assert.throws(fill, { code: 'SW_POOL_FULL' });
  assert.ok(stored.length > 1000);
  for (const key of stored) assert.equal(textOf(client, key), `${key} one`);
  const other = clientOf({ after: () => {} }, {}, client.handle);
  assert.deepEqual(checked(other), { problems: [], records: stored.length });
  for (const key of stored) {
    assert.equal(client.pool.run(client.index.remove(requestFor(client, key))), true, key);
  }
  assert.deepEqual(checked(other), { problems: [], records: 0 });
});
