import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StepwellError } from '../../../errors.ts';
import { ALWAYS } from '../../contract.ts';
import { blockSizeOf, childrenIn, isPairFrozen, linkIn, sizeOf } from '../nodes/internal-node.ts';
import { isInternal, sizeOfLink } from '../nodes/link.ts';
import { rootLink, routesOf, type Visit, visit } from '../nodes/node-io.ts';
import { type Client, checked, clientOf, requestFor } from './support/client.ts';

const SHAPE = { span: 16, neighbourhood: 8, inlineBytes: 24 };

function rootOf({ pool, index: { tree } }: Client): Visit {
  return pool.run(visit(tree, tree.root, pool.run(rootLink(tree))));
}

const keyOf = (i: number) => `key ${1000 + i}`;
/** With these, 40 children take more than the smallest node. */
const longKeyOf = (i: number) => keyOf(i).padStart(200);

/** Ascending keys, from number `first` on, until leaves were split so often. */
function putUntil(client: Client, splits: number, first = 0, key = keyOf): number {
  let i = first;
  for (const { pool, index } = client; index.tree.splits < splits; i++) {
    pool.run(index.write(requestFor(client, key(i), 'value'), ALWAYS));
  }
  return i;
}

/** A full pool from now on, with blocks for leaves and intents, and so many for internal nodes. */
function allowNodes({ index: { tree } }: Client, blocks: number): void {
  const { allocator, geometry } = tree;
  const { allocate } = Object.getPrototypeOf(allocator);
  let left = blocks;
  Object.defineProperty(allocator, 'isUsedUp', { get: () => true, configurable: true });
  allocator.allocate = function* (catalog, units) {
    const isNode = units !== geometry.leafUnits;
    if (isNode && left-- <= 0) throw new StepwellError('SW_POOL_FULL', 'no block for a node');
    return yield* allocate.call(allocator, catalog, units);
  };
}

test('a root above a single leaf is not frozen without memory for its copy', (t) => {
  const client = clientOf(t, SHAPE);
  allowNodes(client, 0);
  putUntil(client, 3);
  const root = rootOf(client);
  assert.equal(childrenIn(root.image), 1);
  assert.ok(!isPairFrozen(root.image));
});

test('a node is not frozen without memory for all nodes that replace it', (t) => {
  const client = clientOf(t, { ...SHAPE, fanout: 4 });
  let count = putUntil(client, 2);
  allowNodes(client, 0);
  count = putUntil(client, 6, count);
  assert.equal(childrenIn(rootOf(client).image), 3);
  for (const blocks of [1, 2]) {
    allowNodes(client, blocks);
    count = putUntil(client, 6 + blocks, count);
    const root = rootOf(client);
    assert.ok(!isPairFrozen(root.image), `${blocks} blocks for nodes`);
    assert.equal(childrenIn(root.image), 3);
  }
  allowNodes(client, 100);
  count = putUntil(client, 9, count);
  assert.ok(isInternal(linkIn(rootOf(client).image, 0).high));
  assert.deepEqual(checked(client), { problems: [], records: count });
});

test('the copy of a node is as long as what it says', (t) => {
  const client = clientOf(t, SHAPE);
  const { pool, index } = client;
  const count = putUntil(client, 40, 0, longKeyOf);
  const before = rootOf(client);
  for (let i = 0; i < count; i++) pool.run(index.remove(requestFor(client, longKeyOf(i))));
  const root = rootOf(client);
  assert.ok(childrenIn(root.image) < 5);
  assert.ok(sizeOfLink(root.high) < sizeOfLink(before.high));
  assert.ok(sizeOfLink(root.high) <= blockSizeOf(sizeOf(routesOf(root))) + 1);
});

test('a long key makes no long node when its leaf ends at a short separator', (t) => {
  const client = clientOf(t, SHAPE);
  const { pool, index } = client;
  for (let i = 0; index.tree.splits < 3; i++) {
    const key = `${1000 + i}`.padEnd(30_000);
    pool.run(index.write(requestFor(client, key, 'value'), ALWAYS));
  }
  const root = rootOf(client);
  assert.equal(childrenIn(root.image), 4);
  assert.ok(sizeOfLink(root.high) <= blockSizeOf(sizeOf(routesOf(root))) + 1);
});
