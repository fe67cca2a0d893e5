import assert from 'node:assert/strict';
import { test } from 'node:test';
import { traced } from '../../../store/tests/support/by-hand.ts';
import { Scratch } from '../../../verbs/index.ts';
import { ALWAYS } from '../../contract.ts';
import { PackedSeparators } from '../nodes/internal-node.ts';
import { FROZEN, INTERNAL, linkHigh, linkLow } from '../nodes/link.ts';
import { AT_KEY, CachedNode, NodeArena, type RoutedRequest } from '../nodes/node-arena.ts';
import { type Client, clientOf, requestFor } from './support/client.ts';

const ADDRESS = 640;

/** A node of one child, which stands at one address and was made in the epoch `tag`. */
function parent(tag: number, flags = 0, arena = new NodeArena()): CachedNode {
  const high = linkHigh(ADDRESS, INTERNAL | flags, 0, tag);
  const links = Int32Array.of(linkLow(ADDRESS), high);
  return new CachedNode(arena, { links, separators: PackedSeparators.of([]) }, 1);
}

test('what is remembered of a child is kept while it is the same child', () => {
  const older = parent(3);
  const child = parent(1);
  older.setNode(0, child);
  const fresh = parent(3, FROZEN);
  fresh.inherit(older);
  assert.equal(fresh.node(0), child);
});

test('another node in the same block is another child', () => {
  // Found by a random schedule: a put went to a leaf of other keys.
  const older = parent(3);
  older.setNode(0, parent(1));
  const fresh = parent(4);
  fresh.inherit(older);
  assert.equal(fresh.node(0), undefined);
});

test('a link that is another one since leads to what is not remembered', () => {
  const node = parent(3);
  node.setNode(0, parent(1));
  node.relink(0, 5, 6, 9);
  assert.ok(node.leadsTo(0, 5, 6));
  assert.equal(node.node(0), undefined);
  assert.equal(node.knownIn(0), 9);
});

test('in another arena remembered nodes stay linked, and forgotten ones stay legible', () => {
  const arena = new NodeArena();
  const [kept, forgotten, child] = [parent(3, 0, arena), parent(4, 0, arena), parent(5, 0, arena)];
  kept.setNode(0, child);
  forgotten.setNode(0, child);
  const next = new NodeArena();
  const request = { outgoing: new Scratch(64), keyBytes: 0, side: AT_KEY } as RoutedRequest;
  for (const moves of [kept, child, undefined]) {
    // A way down ends at the child, whose own child nobody remembers.
    for (const node of [kept, forgotten]) assert.equal(node.descend(request), child);
    assert.equal(request.leaf, 0);
    moves?.moveTo(next);
  }
  for (const node of [kept, forgotten]) {
    assert.equal(node.node(0), child);
    assert.ok(
      node.leadsTo(0, linkLow(ADDRESS), linkHigh(ADDRESS, INTERNAL, 0, node === kept ? 3 : 4)),
    );
  }
});

test('a small memory keeps to its size, and what is used', (t) => {
  const shape = { span: 8, neighbourhood: 4, fanout: 8 };
  const writer = clientOf(t, shape);
  const keys = Array.from({ length: 1500 }, (_, i) => `key ${i}`);
  for (const key of keys) {
    writer.pool.run(writer.index.write(requestFor(writer, key, key), ALWAYS));
  }
  const { pool, index } = clientOf(t, shape, writer.handle);
  const find = (key: string) => pool.run(index.search(requestFor({ index } as Client, key)));
  for (const key of keys) assert.ok(find(key));
  assert.ok(index.tree.cache.bytes > 8192);
  index.tree.cache.bytesMax = 4096;
  for (const key of keys) {
    assert.ok(find('key 0'));
    assert.ok(find(key));
    index.tree.cache.begin();
    assert.ok(index.tree.cache.bytes <= 4096, `${index.tree.cache.bytes} bytes`);
  }
  const { trips } = traced(pool.fabric, index.search(requestFor({ index } as Client, 'key 0')));
  assert.equal(trips.length, 1);
});
