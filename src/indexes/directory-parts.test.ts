import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CHUNK_SPAN, unpackChunk } from '../pool/chunk-word.ts';
import type { Pool } from '../pool/pool.ts';
import { clientByHand, clientOf, traced } from '../store/test-support/by-hand.ts';
import { regionOf } from '../verbs/index.ts';
import { DirectoryParts, partsFor } from './directory-parts.ts';
import { HOPSCOTCH } from './hopscotch/hopscotch.ts';
import { RACE } from './race/race.ts';
import { SEPHASH } from './sephash/sephash.ts';

const MIB = 2 ** 20;
const DEPTHS = { initialDepth: 1, maxDepth: 9 };

/** How many chunks of spans are on each of three memory nodes. */
function spansByNode(pool: Pool): number[] {
  const counts = [0, 0, 0];
  for (const [chunk, word] of pool.run(pool.chunks.words())) {
    if (unpackChunk(word).state === CHUNK_SPAN) counts[pool.layout.nodeOfChunk(chunk)]++;
  }
  return counts;
}

test('every entry has a place of its own, and the place tells the entry', (t) => {
  const { pool } = clientByHand(t);
  for (const count of [1, 2, 8]) {
    const parts = pool.run(DirectoryParts.make(pool, 1, DEPTHS, count));
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
  const made = pool.run(DirectoryParts.make(pool, 1, DEPTHS, 4));
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
  const layout = (stripe: number, regionBytes = 64 * MIB) =>
    ({ stripe, parameters: { regionBytes } }) as Parameters<typeof partsFor>[0];
  assert.equal(partsFor(layout(1), 16), 1);
  assert.equal(partsFor(layout(2), 16), 2);
  assert.equal(partsFor(layout(3), 16), 8, 'the most even shares');
  assert.equal(partsFor(layout(16), 16), 8);
  assert.equal(partsFor(layout(4), 8), 2, 'a part has 128 entries at least');
  assert.equal(partsFor(layout(4), 4), 1);
  assert.equal(partsFor(layout(1), 24), 8, '128 MiB in regions of 64');
  assert.equal(partsFor(layout(1, 2048 * MIB), 24), 1);
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
      index.records.encode(request, `key ${i}`, 'x'.repeat(50), index.hashSeed, 1);
      pool.run(index.write(request, 0));
    }
    assert.ok(pool.run(index.shape()).subtables > 4, 'it has grown');
    for (let i = 0; i < 3000; i++) {
      request.setKey(`key ${i}`, index.hashSeed);
      assert.equal(pool.run(index.search(request)), true);
    }
  });
}

test('a directory that is larger than a region lies in several', (t) => {
  const regionSize = 8 * MIB;
  const { pool } = clientByHand(t, { size: 8 * regionSize, regionSize });
  const parts = pool.run(DirectoryParts.make(pool, 1, { initialDepth: 0, maxDepth: 21 }));
  const regions = Array.from({ length: parts.count }, (_, part) => regionOf(parts.entry(part)));
  assert.ok(new Set(regions).size >= 2, `regions ${regions}`);
  pool.run(parts.fill([{ low: 7, high: 0 }]));
  assert.equal(pool.run(parts.deepen(0, pool.chunks)), true);
});
