import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CHUNK_BYTES } from '../../../../pool/layout.ts';
import { CHUNK_SPAN, unpackChunk } from '../../../../pool/memory/chunk-word.ts';
import {
  type ByHand,
  requestFor,
  Stepped,
  shardByHand,
} from '../../../../store/tests/support/by-hand.ts';
import { ALWAYS } from '../../../contract.ts';
import type { ShardIndex } from '../../shard.ts';
import { releaseLostSegments, resize } from '../resize.ts';

/** A segment is a span of whole chunks. */
const LARGE = { buckets: 1024 };

function spanChunks({ pool }: ByHand<ShardIndex>): number {
  const words = pool.run(pool.chunks.words());
  return words.filter(([, word]) => unpackChunk(word).state === CHUNK_SPAN).length;
}

/** What a table of this many segments takes: the root's chunk, and 3 or more a segment. */
function expectedChunks({ index }: ByHand<ShardIndex>): number {
  const { geometry, segments } = index.table;
  return segments.addresses.reduce((sum, _, segment) => {
    return sum + Math.ceil((64 * geometry.segmentUnits(segment)) / CHUNK_BYTES);
  }, 1);
}

test('the segment of a resizer that died at any verb is not lost for ever', (t) => {
  let lost = 0;
  for (let stop = 0; ; stop++) {
    const dying = shardByHand(t, { shard: LARGE });
    const other = shardByHand(t, { shard: LARGE, handle: dying.handle });
    const id = dying.pool.membership.id;
    const last = new Stepped(dying.pool.fabric, resize(dying.index.table));
    while (!last.done && last.steps < stop) last.step();
    if (last.done) break;
    const { table } = other.index;
    const before = spanChunks(other);
    // While its owner lives, an unpublished segment is its own.
    assert.equal(other.pool.run(releaseLostSegments(table)), 0);
    other.pool.membership.liveness = (row) => (row.id === id ? 'gone' : 'alive');
    const published = table.segments.version;
    if (before > expectedChunks(other)) lost++;
    for (let tries = 0; table.segments.version === published; tries++) {
      assert.ok(tries < 20, 'the claim of a dead resizer is taken over');
      other.pool.run(resize(table));
    }
    assert.equal(spanChunks(other), expectedChunks(other), `died after ${stop} steps`);
    other.pool.run(other.index.write(requestFor(other, 'k', 'v'), ALWAYS));
    assert.ok(other.pool.run(other.index.search(requestFor(other, 'k'))));
  }
  assert.ok(lost > 2, `${lost} deaths left a segment behind`);
});

test('a client that joins and resizes while another looks for lost segments keeps its own', (t) => {
  for (let stop = 0; ; stop++) {
    const looking = shardByHand(t, { shard: LARGE });
    const { pool } = looking;
    const search = new Stepped(pool.fabric, releaseLostSegments(looking.index.table));
    while (!search.done && search.steps < stop) search.step();
    if (search.done) return;
    const joining = shardByHand(t, { shard: LARGE, handle: looking.handle });
    assert.ok(joining.pool.run(resize(joining.index.table)));
    assert.equal(search.finish(), 0, `joined after ${stop} steps`);
    assert.equal(spanChunks(joining), expectedChunks(joining));
  }
});
