/** Segments that no region has room for. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { control } from '../../../../pool/control.ts';
import { CHUNK_BYTES } from '../../../../pool/layout.ts';
import { CHUNK_SPAN, unpackChunk } from '../../../../pool/memory/chunk-word.ts';
import { readChunkWords, sumByKind } from '../../../../store/administration/statistics.ts';
import { Stepped, shardByHand } from '../../../../store/tests/support/by-hand.ts';
import { codeOf, throwsCode } from '../../../../store/tests/support/codes.ts';
import type { Scope } from '../../../../store/tests/support/pools.ts';
import { numbered } from '../../../../store/tests/support/pools.ts';
import { sweep } from '../../../sweep.ts';
import { shardShape } from '../../parameters.ts';
import { releaseLostSegments, resize } from '../../resizing/resize.ts';
import { type Client, get, put, remove, within } from '../../tests/support/clients.ts';
import { LEVELS, ShardGeometry } from '../geometry.ts';
import { makeSegment } from '../pieces.ts';

const MIB = 2 ** 20;
const REGION = MIB;
const POOL = { size: 24 * MIB, regionSize: REGION };
/** The resize after which the last segment is larger than a region. */
const VERSION = 3;
/** Pieces that are spans of whole chunks, and pieces that are blocks of one. */
const SHAPES = { spans: { buckets: 512 }, blocks: { buckets: 256, resizes: 12 } };
const KEYS = numbered('key ', 120);

function client(
  scope: Scope,
  shard: Readonly<Record<string, number>>,
  options: object = POOL,
): Client {
  const made = shardByHand(scope, { shard, ...options });
  made.index.table.syncEvery = Number.POSITIVE_INFINITY;
  return made;
}

function grow(one: Client, version: number): void {
  const { table } = one.index;
  for (let tries = 0; table.segments.version < version; tries++) {
    assert.ok(tries < 50);
    within(one, () => one.pool.run(resize(table)));
  }
}

function check(one: Client): { problems: string[]; records: number; reached: number[] } {
  const problems: string[] = [];
  const reached: number[] = [];
  const sink = {
    problem: (text: string) => void problems.push(text),
    reachable: (address: number) => void reached.push(address),
    progress: () => {},
  };
  const records = within(one, () => one.pool.run(one.index.check(sink)));
  return { problems, records, reached };
}

function spanChunks({ pool }: Client): number {
  const words = pool.run(pool.chunks.words());
  return words.filter(([, word]) => unpackChunk(word).state === CHUNK_SPAN).length;
}

test('pieces: no larger than a quarter of a region, each bucket in one of them', () => {
  for (const wishes of [{ buckets: 64 }, { buckets: 4, level1: 100, level2: 3 }, { buckets: 1 }]) {
    const geometry = new ShardGeometry(shardShape(wishes, 64 * MIB, 1), REGION);
    const end = new Map<number, number>();
    const versions = 12;
    for (let level = 0; level < LEVELS; level++) {
      for (let bucket = 0; bucket < geometry.bucketsAt(versions); bucket++) {
        const piece = geometry.pieceOf(bucket);
        const { first, count } = geometry.bucketsOfPiece(piece);
        assert.ok(bucket >= first && bucket < first + count);
        const bytes = geometry.bucketBytes[level];
        const offset = geometry.levelOffset(piece, level) + (bucket - first) * bytes;
        assert.ok(offset >= (end.get(piece) ?? 0));
        end.set(piece, offset + bytes);
      }
    }
    assert.equal(end.size, geometry.firstPiece(versions + 1));
    for (const [piece, bytes] of end) {
      assert.ok(bytes <= 64 * geometry.pieceUnits(piece) && bytes <= REGION / 4);
    }
  }
});

for (const [name, shape] of Object.entries(SHAPES)) {
  test(`${name}: a table grows beyond a region, and all clients find and change its keys`, (t) => {
    const first = client(t, shape);
    const other = client(t, shape, { handle: first.handle });
    for (const key of KEYS) put(first, key);
    const last = name === 'spans' ? VERSION : VERSION + 1;
    grow(first, last);
    const { geometry, segments } = first.index.table;
    assert.ok(64 * geometry.segmentUnits(last) > REGION);
    assert.ok(segments.addresses.length > last + 1);
    for (const key of KEYS) assert.equal(get(other, key), key);
    for (const key of KEYS.slice(0, 60)) put(other, key, `new ${key}`);
    for (const key of KEYS.slice(100)) assert.ok(remove(first, key));
    const late = client(t, shape, { handle: first.handle });
    for (const one of [first, other, late]) {
      for (const [i, key] of KEYS.entries()) {
        const kept = i < 60 ? `new ${key}` : key;
        assert.equal(get(one, key), i < 100 ? kept : undefined);
      }
    }
    const { problems, records, reached } = check(late);
    assert.deepEqual({ problems, records }, { problems: [], records: 100 });
    for (const { address } of segments.blocks()) assert.ok(reached.includes(address));
    // What a sweep does not meet it would give back.
    const before = spanChunks(first);
    for (const { pool } of [other, late]) pool.close();
    within(first, () => {});
    first.pool.run(sweep(first.pool, first.index));
    assert.equal(spanChunks(first), before);
    assert.deepEqual(check(first).problems, []);
  });
}

test('a resizer that dies at any verb leaves no piece that is lost for ever', (t) => {
  let lost = 0;
  for (let stop = 0; ; stop++) {
    const dying = client(t, SHAPES.spans);
    grow(dying, VERSION - 1);
    const other = client(t, SHAPES.spans, { handle: dying.handle });
    const known = spanChunks(other);
    const last = new Stepped(dying.pool.fabric, resize(dying.index.table));
    while (!last.done && last.steps < stop) last.step();
    if (last.done) break;
    const { id } = dying.pool.membership;
    assert.equal(other.pool.run(releaseLostSegments(other.index.table)), 0);
    other.pool.membership.liveness = (row) => (row.id === id ? 'gone' : 'alive');
    other.pool.run(other.index.table.load());
    if (spanChunks(other) > known && other.index.table.segments.version < VERSION) lost++;
    grow(other, VERSION);
    const { geometry, segments } = other.index.table;
    const chunks = (units: number) => Math.ceil((64 * units) / CHUNK_BYTES);
    const pieces = segments.addresses.map((_, piece) => chunks(geometry.pieceUnits(piece)));
    const expected = pieces.reduce((sum, one) => sum + one, 1);
    assert.equal(spanChunks(other), expected, `died after ${stop} steps`);
    put(other, 'k');
    assert.equal(get(other, 'k'), 'k');
  }
  assert.ok(lost > 2, `${lost} deaths left pieces behind`);
});

test('a pool that is full after some pieces has all of them back', (t) => {
  const one = client(t, SHAPES.spans, { size: 4 * MIB, regionSize: REGION });
  const before = spanChunks(one);
  throwsCode('SW_POOL_FULL', () => {
    one.pool.run(makeSegment(one.index.table, VERSION + 2));
  });
  assert.equal(spanChunks(one), before);
  put(one, 'k');
  assert.equal(get(one, 'k'), 'k');
});

test('a list of pieces that is damaged is SW_POOL_CORRUPT, and leads nowhere', (t) => {
  const first = client(t, SHAPES.spans);
  grow(first, VERSION);
  const { segments } = first.index.table;
  const [, list] = [...segments.blocks()].slice(-2);
  for (const at of [0, 4, 8, 24]) {
    const good = first.pool.run(control.load(list.address + (at & ~7)));
    const bad = good ^ (64n << BigInt(8 * (at % 8)));
    first.pool.run(control.store(list.address + (at & ~7), bad));
    const code = codeOf(() => client(t, SHAPES.spans, { handle: first.handle }));
    assert.equal(code, 'SW_POOL_CORRUPT', `byte ${at}`);
    first.pool.run(control.store(list.address + (at & ~7), good));
  }
  client(t, SHAPES.spans, { handle: first.handle });
});

test('a table in pieces is migrated to another memory node, and its pieces are given back', (t) => {
  const nodes = { nodes: 2, size: 48 * MIB, regionSize: REGION };
  const shape = { buckets: 512, partitions: 1 };
  const mover = client(t, shape, nodes);
  const other = client(t, shape, { handle: mover.handle, nodes: 2 });
  for (const key of KEYS) put(mover, key);
  grow(mover, VERSION - 1);
  const { node } = mover.index.table;
  const before = spanChunks(mover);
  const leaving = (all: readonly number[]) => all.filter((one) => one !== node);
  within(mover, () => mover.pool.run(mover.index.placement.changeNodes(leaving)));
  const [migration] = mover.index.placement.rebalancing();
  for (let i = 0; !migration.done; i++) {
    within(mover, () => mover.pool.run(migration.next()));
    const key = KEYS[i % KEYS.length];
    assert.equal(get(other, key), key);
  }
  for (const { address } of mover.index.table.segments.blocks()) {
    assert.notEqual(mover.pool.layout.nodeOf(address), node);
  }
  for (const { pool } of [mover, other]) pool.run(pool.reclamation.goOffline());
  for (const { pool } of [mover, other]) {
    for (let i = 0; i < 4; i++) pool.run(pool.reclamation.collect());
  }
  assert.equal(spanChunks(mover), before);
  assert.deepEqual(check(other).problems, []);
  for (const key of KEYS) assert.equal(get(other, key), key);
});

test('chunks of short records are no index memory, when segments are in pieces', (t) => {
  for (const shape of Object.values(SHAPES)) {
    const one = client(t, shape);
    grow(one, VERSION);
    for (const key of KEYS) put(one, key, 'v');
    const { pool, index } = one;
    const words = pool.run(readChunkWords(pool));
    const lines = words.filter(({ units }) => units === 1);
    assert.ok(lines.length > 0);
    const { records } = sumByKind(words, index.records);
    assert.equal(records, lines.length * CHUNK_BYTES);
  }
});
