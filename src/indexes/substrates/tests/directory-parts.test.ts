import assert from 'node:assert/strict';
import { test } from 'node:test';
import { control } from '../../../pool/control.ts';
import { SUPERBLOCK } from '../../../pool/layout.ts';
import type { LocalPool } from '../../../pool/local-pool.ts';
import { CHUNK_SPAN, unpackChunk } from '../../../pool/memory/chunk-word.ts';
import { clientByHand, clientOf, Stepped, traced } from '../../../store/tests/support/by-hand.ts';
import { regionOf } from '../../../verbs/index.ts';
import { HOPSCOTCH } from '../../hopscotch/hopscotch.ts';
import { createStore, openIndex } from '../../kinds.ts';
import { RACE } from '../../race/race.ts';
import { SEPHASH } from '../../sephash/sephash.ts';
import { shapeOf } from '../../traversal/count.ts';
import { DirectoryParts, partsFor } from '../directory-parts.ts';

const MIB = 2 ** 20;
const DEPTHS = { initialDepth: 1, maxDepth: 9 };

/** How many chunks of spans are on each of three memory nodes. */
function spansByNode(pool: LocalPool): number[] {
  const counts = [0, 0, 0];
  for (const [chunk, word] of pool.run(pool.chunks.words())) {
    if (unpackChunk(word).state === CHUNK_SPAN) counts[pool.layout.nodeOfChunk(chunk)]++;
  }
  return counts;
}

test('every entry has a place of its own, and the place tells the entry', (t) => {
  const { pool } = clientByHand(t);
  for (const count of [1, 2, 8]) {
    const parts = pool.run(DirectoryParts.make(pool, 1, DEPTHS, { count }));
    const places = Array.from({ length: 512 }, (_, index) => parts.entry(index));
    assert.equal(new Set(places).size, 512);
    places.forEach((place, index) => {
      assert.equal(parts.indexAt(place), index);
    });
    assert.throws(() => parts.indexAt(parts.root), /no entry of the directory/);
  }
});

test('who opens a directory reads its parts with its depth: one round trip', (t) => {
  const { pool } = clientByHand(t);
  const made = pool.run(DirectoryParts.make(pool, 1, DEPTHS, { count: 4 }));
  pool.run(
    made.fill([
      { low: 7, high: 0 },
      { low: 8, high: 0 },
    ]),
  );
  const { trips, value } = traced(pool.fabric, DirectoryParts.read(made.root, DEPTHS));
  const { parts, depth } = value;
  assert.deepEqual(trips, ['READ']);
  assert.equal(depth, 1);
  for (let i = 0; i < 512; i++) assert.equal(parts.entry(i), made.entry(i));
  const seen: number[][] = [];
  pool.run(parts.each(2, (...entry) => seen.push(entry)));
  assert.deepEqual(
    seen.sort(([a], [b]) => a - b),
    [
      [0, 7, 0],
      [1, 8, 0],
      [2, 0, 0],
      [3, 0, 0],
    ],
  );
});

test('as many parts as fit the nodes, the regions and the depth', () => {
  const layout = (stripe: number, regionBytes = 64 * MIB, chunksMax = 4096) =>
    ({ stripe, chunksMax, parameters: { regionBytes } }) as Parameters<typeof partsFor>[0];
  assert.equal(partsFor(layout(1), 16), 1);
  assert.equal(partsFor(layout(2), 16), 2);
  assert.equal(partsFor(layout(3), 16), 8, 'the most even shares');
  assert.equal(partsFor(layout(16), 16), 8);
  assert.equal(partsFor(layout(4), 8), 2, 'a part has 128 entries at least');
  assert.equal(partsFor(layout(4), 4), 1);
  assert.equal(partsFor(layout(1), 24), 8, '128 MiB in regions of 64');
  assert.equal(partsFor(layout(1, 2048 * MIB), 24), 1);
  assert.equal(partsFor(layout(3, 4 * MIB, 48), 12), 4, 'chunks of a small pool are for records');
  assert.equal(partsFor(layout(3, MIB, 12), 12), 1);
  assert.equal(partsFor(layout(1, MIB, 4), 16), 2, 'a part that fills its chunk costs nothing');
});

const SMALL_TABLES = [
  { kind: RACE, shape: { groups: 4 } },
  { kind: SEPHASH, shape: { segmentBytes: 128, ratio: 2, window: 4 } },
  { kind: HOPSCOTCH, shape: {} },
];

for (const { kind, shape } of SMALL_TABLES) {
  test(`${kind.manifest.name}: the directory lies on all memory nodes`, (t) => {
    const { pool, index } = clientOf(kind, t, { ...shape, maxDepth: 12 }, { nodes: 3 });
    // Eight parts of a chunk each, round three nodes.
    assert.deepEqual(spansByNode(pool).sort(), [2, 3, 3]);
    const request = index.newRequest();
    for (let i = 0; i < 3000; i++) {
      index.records.encode(request, `key ${i}`, 'x'.repeat(50), 1);
      pool.run(index.write(request, 0));
    }
    assert.ok(pool.run(shapeOf(index)).subtables > 4, 'it has grown');
    for (let i = 0; i < 3000; i++) {
      request.setKey(`key ${i}`, index.records.seed);
      assert.equal(pool.run(index.search(request)), true);
    }
  });
}

/** What may stand in a word of the root instead of `word`. */
function damaged(word: bigint, root: bigint): bigint[] {
  const flips = [0n, 3n, 6n, 18n, 20n, 31n, 33n, 52n, 63n].map((bit) => word ^ (1n << bit));
  return [0n, 1n, root, word + root, ...flips].filter((one) => one !== word);
}

for (const { kind, shape } of SMALL_TABLES) {
  test(`${kind.manifest.name}: a root that was damaged is refused`, (t) => {
    const { pool } = clientOf(kind, t, { ...shape, maxDepth: 12 }, { nodes: 3 });
    const [entry] = pool.run(pool.catalog.entries());
    const corrupt = { code: 'SW_POOL_CORRUPT' };
    for (let at = entry.root; at < entry.root + 64; at += 8) {
      const word = pool.run(control.load(at));
      for (const bad of damaged(word, BigInt(entry.root))) {
        pool.run(control.store(at, bad));
        assert.throws(() => pool.run(openIndex(pool, entry)), corrupt, `${bad} at ${at}`);
      }
      pool.run(control.store(at, word));
    }
    pool.run(openIndex(pool, entry));
  });
}

test('in a pool of a few chunks there is room left for records', (t) => {
  const options = { nodes: 3, size: 3 * MIB, regionSize: MIB, maxClients: 16 };
  const { pool } = clientOf(HOPSCOTCH, t, { maxDepth: 12 }, options);
  assert.equal(
    spansByNode(pool).reduce((sum, count) => sum + count),
    1,
  );
});

test('parts of a directory whose creator died are given back to the next one', (t) => {
  const { pool } = clientOf(RACE, t, {}, { nodes: 3 });
  const spans = () => spansByNode(pool).reduce((sum, count) => sum + count);
  const before = spans();
  const parameters = RACE.parameters({ maxDepth: 12 }, 0, 7, 3);
  const dying = new Stepped(pool.fabric, createStore(pool, 'one', RACE, parameters));
  while (spans() < before + 5) dying.step();
  // The row of the creator is cleared when it is found dead.
  const unfinished = pool.run(pool.catalog.entries()).find(({ ready }) => !ready);
  assert.ok(unfinished);
  pool.run(pool.membership.nameStore(unfinished.id, false));
  // Somebody of the same row who is no more.
  const holder = pool.run(control.load(SUPERBLOCK.catalogLock));
  pool.run(control.store(SUPERBLOCK.catalogLock, holder + (1n << 12n)));
  pool.run(createStore(pool, 'two', RACE, parameters));
  assert.equal(spans(), before + 8);
});

test('a directory that is larger than a region lies in several', (t) => {
  const regionSize = 8 * MIB;
  const { pool } = clientByHand(t, { size: 8 * regionSize, regionSize });
  const parts = pool.run(DirectoryParts.make(pool, 1, { initialDepth: 0, maxDepth: 21 }));
  const regions = Array.from({ length: parts.count }, (_, part) => regionOf(parts.entry(part)));
  assert.ok(new Set(regions).size >= 2, `regions ${regions}`);
  pool.run(parts.fill([{ low: 7, high: 0 }]));
  assert.equal(pool.run(parts.deepen(0, pool.chunks)), true);
});
