import { hasCode } from '../../../src/errors.ts';
import type { Condition, Outcome } from '../../../src/indexes/contract.ts';
import { SHARD, ShardIndex } from '../../../src/indexes/shard/shard.ts';
import { discardSegment, makeSegment } from '../../../src/indexes/shard/table/pieces.ts';
import type { ShardRequest } from '../../../src/indexes/shard/table/request.ts';
import type { ShardTable } from '../../../src/indexes/shard/table/table.ts';
import { CHUNK_SPAN, unpackChunk } from '../../../src/pool/memory/chunk-word.ts';
import type { Operation } from '../../../src/verbs/index.ts';
import type { Canary } from '../canary.ts';

export const shardLostSegmentsCanary: Canary = {
  name: 'SHARD takes a segment for lost whose resizer lives and has not published it yet',
  caughtBy: 'structure',
  scenario: {
    crashes: false,
    // Segments of whole chunks.
    shape: { buckets: 256, level1: 128, level2: 32 },
    swarm: { startup: 'prepared', chains: 0 },
  },
  kind: SHARD,
  index: ({ partitions }: ShardIndex) => new HastyResizer(partitions),
};

const SEGMENTS_MAX = 4;

/** Every write lets the table grow, and several clients do so at a time. */
class HastyResizer extends ShardIndex {
  override *write(request: ShardRequest, condition: Condition, expected = 0): Operation<Outcome> {
    const outcome = yield* super.write(request, condition, expected);
    const { table } = this;
    if (table.segments.addresses.length < SEGMENTS_MAX) yield* growHastily(table);
    return outcome;
  }
}

function* growHastily(table: ShardTable): Operation<void> {
  const { segments } = table;
  const segment = segments.version + 1;
  yield* releaseHastily(table);
  try {
    const place = yield* makeSegment(table, segment);
    const won = yield* segments.publish(segment, place);
    if (!won) yield* discardSegment(table, segment, place);
  } catch (error) {
    if (!hasCode(error, 'SW_POOL_FULL')) throw error;
  }
  yield* segments.load();
}

/** Without asking which clients live: what the root does not name is taken for lost. */
function* releaseHastily({ pool, catalog, directory, segments }: ShardTable): Operation<void> {
  const words = yield* pool.chunks.words();
  yield* segments.load();
  const known = new Set(
    [directory.root, segments.root, ...segments.addresses].map((at) => pool.chunks.chunkOf(at)),
  );
  for (const [chunk, word] of words) {
    const fields = unpackChunk(word);
    if (fields.state !== CHUNK_SPAN || fields.catalog !== catalog) continue;
    // A segment of this shape is two chunks or more.
    if (known.has(chunk) || known.has(chunk - 1)) continue;
    yield* pool.chunks.release(chunk, fields);
  }
}
