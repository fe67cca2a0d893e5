import assert from 'node:assert/strict';
import { test } from 'node:test';
import { clientByHand } from '../../../store/tests/support/by-hand.ts';
import type { Scope } from '../../../store/tests/support/pools.ts';
import { UNIT_BYTES } from '../../../verbs/index.ts';
import { bornAt, Directory, suffixOf } from '../directory.ts';

const MAX_DEPTH = 8;

/** The number of an invented subtable as an address: lines of chunks. */
const at = (number: number) => 2 ** 20 + UNIT_BYTES * number;

/** A directory of its own in a pool, with invented subtables 0, 1, … */
function newDirectory(scope: Scope, initialDepth: number, parts = 1) {
  const { pool } = clientByHand(scope);
  const depths = { initialDepth, maxDepth: MAX_DEPTH };
  const subtables = Array.from({ length: 2 ** initialDepth }, (_, i) => at(i));
  const root = pool.run(Directory.build(pool, 1, depths, subtables, { count: parts }));
  const attach = () => pool.run(Directory.open(root, depths, pool.chunks));
  return { pool, subtables, attach };
}

test('every suffix leads to its initial subtable', (t) => {
  for (const [initialDepth, parts] of [[0], [1], [3], [0, 4], [3, 2], [3, 8]]) {
    const { subtables, attach } = newDirectory(t, initialDepth, parts);
    const directory = attach();
    assert.equal(directory.depth, initialDepth);
    for (let hash = 0; hash < 64; hash++) {
      assert.equal(directory.lookup(hash), subtables[hash % subtables.length]);
    }
    assert.deepEqual(directory.subtables().sort(), subtables);
  }
});

test('an entry belongs to the subtable that is born with its suffix', () => {
  assert.deepEqual(
    [0, 1, 2, 3, 4, 7, 8].map((index) => bornAt(index, 0)),
    [0, 1, 2, 2, 3, 3, 4],
  );
  assert.deepEqual(
    [0, 1, 2, 3, 4].map((index) => bornAt(index, 2)),
    [2, 2, 2, 2, 3],
  );
  assert.equal(suffixOf(-1, 5), 31);
  assert.equal(suffixOf(0xff, 0), 0);
});

test('a split is published once, and learnt by who refreshes', (t) => {
  const { pool, attach } = newDirectory(t, 0);
  const [one, two, stale] = [attach(), attach(), attach()];
  assert.equal(pool.run(one.child(0, 0)), 0);
  assert.equal(pool.run(one.deepen(0)), true);
  assert.equal(pool.run(two.deepen(0)), false, 'somebody did already');
  assert.equal(pool.run(one.child(0, 0)), 0);
  assert.equal(pool.run(one.link(0, 0, at(7))), true);
  assert.equal(pool.run(two.link(0, 0, at(8))), false);
  assert.equal(pool.run(two.child(0, 0)), at(7));
  assert.equal(one.depth, 1);
  assert.equal(one.lookup(1), at(7));
  assert.equal(one.lookup(2), at(0));
  assert.equal(stale.lookup(1), at(0), 'a cache is stale until something refreshes it');
  assert.equal(pool.run(stale.refresh(2)), at(0));
  assert.equal(stale.lookup(3), at(0), 'only the asked suffix is refreshed');
  assert.equal(pool.run(stale.refresh(3)), at(7));
  assert.equal(stale.lookup(5), at(7));
  assert.equal(stale.depth, 1);
});

test('a doubled directory inherits: nothing is copied', (t) => {
  const { pool, attach } = newDirectory(t, 1);
  const directory = attach();
  for (let depth = 1; depth < 5; depth++) pool.run(directory.deepen(depth));
  // Only suffix 0 was split, down to depth 5.
  for (let depth = 1; depth < 5; depth++) pool.run(directory.link(0, depth, at(10 * depth)));
  const fresh = attach();
  assert.equal(fresh.depth, 5);
  for (let hash = 0; hash < 32; hash++) {
    const zeros = hash === 0 ? 5 : Math.min(5, 31 - Math.clz32(hash & -hash));
    const expected = hash % 2 === 1 ? at(1) : zeros === 5 ? at(0) : at(10 * zeros);
    assert.equal(fresh.lookup(hash), expected, `hash ${hash}`);
    assert.equal(directory.lookup(hash), expected, `hash ${hash} of the splitter`);
  }
});

test('no child beyond the maximum depth', (t) => {
  const { pool, attach } = newDirectory(t, 0);
  assert.equal(pool.run(attach().child(0, MAX_DEPTH)), 0);
  assert.equal(pool.run(attach().child(0, MAX_DEPTH + 3)), 0);
});

/** Splits of random subtables; the model has for each suffix of full depth its subtable. */
test('random splits: caches of every age are right after a refresh', (t) => {
  for (const [initialDepth, parts] of [[0], [2], [0, 8], [2, 2]]) {
    const { pool, subtables, attach } = newDirectory(t, initialDepth, parts);
    const size = 2 ** MAX_DEPTH;
    const model = Array.from({ length: size }, (_, i) => subtables[i % subtables.length]);
    const leaves = subtables.map((_, suffix) => ({ suffix, depth: initialDepth }));
    const caches = [attach()];
    for (let round = 0; round < 150; round++) {
      const leaf = leaves[Math.floor(Math.random() * leaves.length)];
      if (leaf.depth === MAX_DEPTH) continue;
      const splitter = caches[Math.floor(Math.random() * caches.length)];
      const child = at(1000 + round);
      pool.run(splitter.deepen(leaf.depth));
      assert.equal(pool.run(splitter.link(leaf.suffix, leaf.depth, child)), true);
      const born = { suffix: leaf.suffix + 2 ** leaf.depth, depth: leaf.depth + 1 };
      leaf.depth++;
      leaves.push(born);
      for (let i = born.suffix; i < size; i += 2 ** born.depth) model[i] = child;
      if (round % 10 === 0) caches.push(attach());
      for (const cache of caches) {
        const hash = (Math.random() * 2 ** 32) | 0;
        assert.equal(pool.run(cache.refresh(hash)), model[hash & (size - 1)]);
        assert.equal(cache.lookup(hash), model[hash & (size - 1)]);
      }
    }
    const fresh = attach();
    for (let hash = 0; hash < size; hash++) {
      assert.equal(fresh.lookup(hash), model[hash]);
      for (const cache of caches) {
        pool.run(cache.refresh(hash));
        assert.equal(cache.lookup(hash), model[hash]);
      }
    }
    const known = (directory: Directory) => directory.subtables().sort((a, b) => a - b);
    assert.deepEqual(known(caches[0]), known(fresh), 'every suffix has been asked for');
  }
});
