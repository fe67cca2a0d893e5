import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ALWAYS } from '../../contract.ts';
import { countOf } from '../hopscotch.ts';
import { mergeLeaves } from '../merge-leaves.ts';
import { checked, clientOf, foundText, requestFor, scanned } from './support/client.ts';

const SHAPES = [
  { span: 64, neighbourhood: 8, fanout: 64 },
  { span: 8, neighbourhood: 4, fanout: 4 },
  { span: 4, neighbourhood: 2, fanout: 3 },
];

for (const shape of SHAPES) {
  test(`deleting everything gives the tree back: ${JSON.stringify(shape)}`, (t) => {
    const writer = clientOf(t, shape);
    const reader = clientOf(t, shape, writer.handle);
    const { pool, index } = writer;
    const keys = Array.from({ length: 1200 }, (_, i) => `key ${(i * 7919) % 1200}`);
    for (const key of keys) pool.run(index.write(requestFor(writer, key, key), ALWAYS));
    const full = pool.run(index.shape());
    // Another client, whose memory of the tree is of before.
    for (const key of keys)
      assert.ok(reader.pool.run(reader.index.search(requestFor(reader, key))));
    keys.forEach((key, i) => {
      assert.ok(pool.run(index.remove(requestFor(writer, key))), key);
      if (i % 300 !== 299) return;
      const left = keys.slice(i + 1).sort();
      for (const one of left) {
        const request = requestFor(reader, one);
        assert.ok(reader.pool.run(reader.index.search(request)), one);
        assert.equal(foundText(request), one);
      }
      const backwards = scanned(reader, reader.index.scan({ reverse: true }));
      assert.deepEqual(
        backwards.map(([, value]) => value),
        left.reverse(),
      );
      assert.deepEqual(checked(reader), { problems: [], records: left.length });
    });
    const empty = reader.pool.run(reader.index.shape());
    assert.ok(full.subtables > 25 && full.globalDepth > 0);
    assert.deepEqual([empty.subtables, empty.globalDepth], [1, 0]);
  });
}

test('nodes that long separators fill are not merged only to be cut again', (t) => {
  const client = clientOf(t, { span: 4, neighbourhood: 4, fanout: 64 });
  const { pool, index } = client;
  const { reclamation } = pool;
  const collect = () => {
    pool.run(reclamation.quiesce());
    pool.run(reclamation.collect());
  };
  const keys = Array.from({ length: 40 }, (_, i) => `${'k'.repeat(30_000)}${10 + i}`);
  for (const key of keys) {
    pool.run(index.write(requestFor(client, key, key), ALWAYS));
    collect();
  }
  const full = pool.run(index.shape());
  assert.ok(full.globalDepth >= 2, 'nodes have neighbours');
  for (const key of keys) {
    const before = index.resizes.rebuilds;
    assert.ok(pool.run(index.remove(requestFor(client, key))));
    // A pair of leaves, one of nodes on each level, and the root.
    const rebuilds = index.resizes.rebuilds - before;
    assert.ok(rebuilds <= 2 + full.globalDepth, `${rebuilds} rebuilds for one deletion`);
    collect();
  }
  const empty = pool.run(index.shape());
  assert.deepEqual([empty.subtables, empty.globalDepth], [1, 0]);
});

/** The leaf of entries with these homes, each in its home, and the pointers they have. */
function leafOf(span: number, homes: readonly number[]): Int32Array {
  const slots = new Int32Array(2 * span);
  for (const home of homes) slots[2 * home] = 100 + home;
  return slots;
}

test('two leaves whose entries fill three quarters become one', (t) => {
  const merging = mergeLeaves(
    clientOf(t, { span: 8, neighbourhood: 4 }).index.tree,
    leafOf(8, [0, 1, 2]),
    leafOf(8, [0, 1, 2]),
    new Uint8Array(1),
  );
  const { done, value } = merging.next();
  assert.ok(done);
  assert.equal(value.leaves.length, 1);
  assert.equal(countOf(value.leaves[0]), 6);
});
