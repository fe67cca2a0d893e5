import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StepwellError } from '../../../errors.ts';
import type { Scope } from '../../../store/tests/support/pools.ts';
import { ALWAYS } from '../../contract.ts';
import { unitsBeside } from '../geometry.ts';
import {
  type Client,
  checked,
  clientOf,
  foundText,
  requestFor,
  scanned,
} from './support/client.ts';

const KEYS = Array.from({ length: 200 }, (_, i) => `key ${100 + i}`);

/** From now on the pool has blocks for leaves and intents, and none for internal nodes. */
function refuseNodes({ index: { tree } }: Client): void {
  const { allocator, geometry } = tree;
  const { allocate } = allocator;
  allocator.allocate = function* (catalog, units) {
    if (units === geometry.leafUnits) return yield* allocate.call(allocator, catalog, units);
    throw new StepwellError('SW_POOL_FULL', 'no block for a node');
  };
}

test('leaves that no parent leads to are reached one from the other, in a full pool too', (t) => {
  const writer = clientOf(t, { span: 16, neighbourhood: 8, fanout: 2, inlineBytes: 24 });
  const other = clientOf(t, {}, writer.handle);
  const put = (client: Client, key: string) =>
    client.pool.run(client.index.write(requestFor(client, key, key), ALWAYS));
  assert.notEqual(writer.index.tree.geometry.leafUnits, unitsBeside(1));
  put(writer, KEYS[0]);
  for (const client of [writer, other]) refuseNodes(client);
  // In ascending order the last leaf is split again and again: a long chain behind one parent.
  KEYS.forEach((key, i) => {
    put(i % 2 === 0 ? writer : other, key);
  });
  assert.ok(writer.index.tree.splits + other.index.tree.splits > 10);
  for (const client of [writer, other]) {
    for (const key of KEYS) {
      const request = requestFor(client, key);
      assert.ok(client.pool.run(client.index.search(request)), key);
      assert.equal(foundText(request), key);
    }
    assert.ok(!client.pool.run(client.index.search(requestFor(client, 'key 999'))));
    const up = scanned(client, client.index.scan()).map(([, value]) => value);
    assert.deepEqual(up, KEYS);
    const down = scanned(client, client.index.scan({ reverse: true })).map(([, value]) => value);
    assert.deepEqual(down, KEYS.toReversed());
  }
  for (const key of KEYS.slice(5)) {
    assert.ok(other.pool.run(other.index.remove(requestFor(other, key))), key);
  }
  assert.deepEqual(checked(writer), { problems: [], records: 5 });
});

/** Writes keys as in a full pool, until a split has left its link to the next write. */
function leaveLink(t: Scope): { writer: Client; keys: string[] } {
  const writer = clientOf(t, { span: 16, neighbourhood: 8, fanout: 8 });
  const { tree } = writer.index;
  tree.linksLater = true;
  for (const [i, key] of KEYS.entries()) {
    tree.allocator.isTight = true;
    writer.pool.run(writer.index.write(requestFor(writer, key, key), ALWAYS));
    if (tree.unlinked !== undefined) return { writer, keys: KEYS.slice(0, i + 1) };
  }
  throw new Error('no split has left its link');
}

function assertHas(client: Client, keys: readonly string[]): void {
  for (const key of keys) {
    assert.ok(client.pool.run(client.index.search(requestFor(client, key))), key);
  }
}

test('a split in a full pool leaves its link to the next write', (t) => {
  const { writer, keys } = leaveLink(t);
  const { tree } = writer.index;
  const { rebuilds } = tree;
  writer.pool.run(writer.index.write(requestFor(writer, keys[0], 'new'), ALWAYS));
  assert.deepEqual([tree.unlinked, tree.rebuilds], [undefined, rebuilds + 1]);
  const { otherLeaf } = tree.retries;
  assertHas(writer, keys);
  assert.equal(tree.retries.otherLeaf, otherLeaf);
  assert.deepEqual(checked(writer), { problems: [], records: keys.length });
});

test('a client that comes by an unlinked leaf links it, and its splitter need not', (t) => {
  const { writer, keys } = leaveLink(t);
  const { tree } = writer.index;
  const other = clientOf(t, {}, writer.handle);
  assertHas(other, keys);
  assert.equal(other.index.tree.rebuilds, 1);
  const { rebuilds } = tree;
  writer.pool.run(writer.index.write(requestFor(writer, keys[0], 'new'), ALWAYS));
  assert.deepEqual([tree.unlinked, tree.rebuilds], [undefined, rebuilds]);
  assertHas(writer, keys);
  assert.deepEqual(checked(other), { problems: [], records: keys.length });
});
