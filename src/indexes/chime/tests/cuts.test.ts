import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Stepped } from '../../../store/tests/support/by-hand.ts';
import type { Scope } from '../../../store/tests/support/pools.ts';
import { ALWAYS } from '../../contract.ts';
import { ABSORB } from '../nodes/link.ts';
import { type Client, checked, clientOf, foundText, requestFor } from './support/client.ts';

const SHAPE = { span: 6, neighbourhood: 2, fanout: 4 };
const KEYS = Array.from({ length: 300 }, (_, i) => `key ${1000 + ((i * 7919) % 9000)}`);
/** Enough for internal nodes on two levels. */
const KEYS_MIN = 60;

function put(client: Client, key: string): void {
  const { pool, index } = client;
  pool.run(index.write(requestFor(client, key, key), ALWAYS));
}

function assertHas(client: Client, keys: readonly string[]): void {
  for (const key of keys) {
    const request = requestFor(client, key);
    assert.ok(client.pool.run(client.index.search(request)), key);
    assert.equal(foundText(request), key);
  }
}

/** Writes keys until a split cuts a node that the level above has to absorb. */
function cut(scope: Scope): { writer: Client; keys: string[]; last: string } {
  const writer = clientOf(scope, SHAPE);
  const { cuts } = writer.index.tree;
  for (const [i, last] of KEYS.entries()) {
    put(writer, last);
    if (cuts.length > 0 && i >= KEYS_MIN) return { writer, keys: KEYS.slice(0, i + 1), last };
  }
  throw new Error('no node was cut');
}

/** Whether a node that is to be absorbed is on the path to the key, read anew. */
function isCutAt(client: Client, key: string): boolean {
  const { cache } = client.index.tree;
  cache.forget();
  assertHas(client, [key]);
  const request = client.index.newRequest();
  request.setKey(Buffer.from(key), 0);
  for (
    let node = cache.top?.node(0);
    node !== undefined;
    node = node.node(node.childFor(request))
  ) {
    if ((node.linkHigh(node.childFor(request)) & ABSORB) !== 0) return true;
  }
  return false;
}

test('a node that a split has cut is absorbed by the next write of its client', (t) => {
  const { writer, keys, last } = cut(t);
  const { tree } = writer.index;
  const { rebuilds } = tree;
  const other = clientOf(t, SHAPE, writer.handle);
  assert.ok(isCutAt(other, last));
  assertHas(writer, keys);
  assertHas(other, keys);
  put(writer, keys[0]);
  assert.deepEqual([tree.cuts.length, tree.rebuilds], [0, rebuilds + 1]);
  assert.ok(!isCutAt(other, last));
  // It has learnt what it did.
  const { otherLeaf } = tree.retries;
  for (const key of keys) put(writer, key);
  assert.equal(tree.retries.otherLeaf, otherLeaf);
  for (const key of KEYS) put(writer, key);
  assertHas(other, KEYS);
  assert.deepEqual(checked(other), { problems: [], records: KEYS.length });
});

test('a write goes on when a cut cannot be absorbed, and a later one absorbs it', (t) => {
  const { writer, keys, last } = cut(t);
  const { tree } = writer.index;
  const other = clientOf(t, SHAPE, writer.handle);
  // A key whose neighbourhood in that leaf has room.
  const slow = new Stepped(
    other.pool.fabric,
    other.index.write(requestFor(other, `${last}q`, 'new'), ALWAYS),
  );
  while (!slow.kinds.startsWith('WRITE WRITE WRITE')) slow.step();
  // The sequence of the leaf at the cut is odd from here on, so nobody can read its bounds.
  slow.stepPart(2);
  tree.cache.forget();
  tree.patience = { spins: 0, polls: 1, microseconds: 1 };
  tree.lockTimeoutMs = 0;
  put(writer, keys[0]);
  assert.equal(tree.cuts.length, 1);
  slow.finish();
  for (let i = 0; i < 4; i++) put(writer, keys[0]);
  assert.equal(tree.cuts.length, 0);
  assert.ok(!isCutAt(other, last));
  assert.deepEqual(checked(other), { problems: [], records: keys.length + 1 });
});

test('others change the tree around a cut whose client writes no more', (t) => {
  const { writer, keys, last } = cut(t);
  const other = clientOf(t, SHAPE, writer.handle);
  assert.ok(isCutAt(other, last));
  for (const key of KEYS) put(other, key);
  assertHas(other, KEYS);
  assertHas(writer, KEYS);
  for (const key of KEYS) assert.ok(other.pool.run(other.index.remove(requestFor(other, key))));
  assert.deepEqual(checked(other), { problems: [], records: 0 });
  // What it left is gone by now.
  put(writer, keys[0]);
  assert.deepEqual(checked(other), { problems: [], records: 1 });
});

const ASCENDING = Array.from({ length: 1000 }, (_, i) => `key ${10_000 + i}`);

/** Internal nodes on the path to the last leaf. */
function heightOf({ index: { tree } }: Client): number {
  let height = 0;
  for (let node = tree.cache.top?.node(0); node !== undefined; height++) {
    node = node.node(node.children - 1);
  }
  return height;
}

test('the path stays short when no write absorbs what splits have cut', (t) => {
  const writer = clientOf(t, { ...SHAPE, fanout: 2 });
  const { cuts } = writer.index.tree;
  let left = 0;
  for (const key of ASCENDING) {
    put(writer, key);
    // As if the client had died, and another one went on.
    left += cuts.length;
    while (cuts.length > 0) cuts.take();
  }
  assert.ok(left > 20, `${left} cuts`);
  assert.ok(heightOf(writer) < 20, `${heightOf(writer)} levels`);
  assertHas(writer, ASCENDING);
  assert.deepEqual(checked(writer), { problems: [], records: ASCENDING.length });
});

test('a client that only modifies has nodes absorbed as well', (t) => {
  const writer = clientOf(t, { ...SHAPE, fanout: 2 });
  const { index, pool } = writer;
  for (const key of ASCENDING) {
    const request = requestFor(writer, key, key);
    pool.run(index.modify(request, () => index.records.encodeValue(request, key, 1)));
    assert.ok(index.tree.cuts.length <= 1);
  }
  assert.deepEqual(checked(writer), { problems: [], records: ASCENDING.length });
});
