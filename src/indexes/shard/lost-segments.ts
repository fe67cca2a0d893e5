import { CHUNK_SPAN, unpackChunk } from '../../pool/chunks.ts';
import { BLOCK_UNITS_MAX, CHUNK_BYTES } from '../../pool/layout.ts';
import type { Pool } from '../../pool/pool.ts';
import { type Address, type Operation, UNIT_BYTES } from '../../verbs/index.ts';
import { ROOT_BYTES } from './segments.ts';
import type { ShardTable } from './table.ts';

/**
 * Gives back the spans of resizers that died after they had taken a segment and before they
 * published it; smaller segments are blocks, which a sweep finds. The order proves it:
 *
 *   1  the chunk table    whoever takes a span from now on is not concerned, be it a new client
 *   2  who lives          the owners of all other spans issue no verbs any more
 *   3  the root           so it names every segment that they have published
 *
 * A span of 1 without an owner in 2 that 3 does not name is nobody's. A few READs once a resize.
 * Returns how many chunks came back.
 */
export function* releaseLostSegments(table: ShardTable): Operation<number> {
  const { pool } = table;
  const words = yield* pool.chunks.words();
  const living = yield* livingClients(pool);
  yield* table.segments.load();
  const known = chunksOf(table);
  let released = 0;
  for (const [chunk, word] of words) {
    const fields = unpackChunk(word);
    if (fields.state !== CHUNK_SPAN || fields.catalog !== table.catalog) continue;
    if (living.has(nameOf(fields.owner, fields.incarnation)) || known.has(chunk)) continue;
    yield* pool.chunks.release(chunk, fields);
    released++;
  }
  return released;
}

function* livingClients({ membership }: Pool): Operation<Set<string>> {
  const living = new Set<string>();
  for (const row of yield* membership.rows()) {
    const isOwn = row.id === membership.id;
    if (isOwn || !(yield* membership.isGone(row))) living.add(nameOf(row.id, row.incarnation));
  }
  return living;
}

function nameOf(owner: number, incarnation: number): string {
  return `${owner}/${incarnation}`;
}

/** Chunks of the root and of all segments that are spans. */
function chunksOf({ segments, geometry, pool: { chunks, layout } }: ShardTable): Set<number> {
  const known = new Set<number>();
  const add = (address: Address, bytes: number) => {
    const first = chunks.chunkOf(address);
    for (let i = 0; i < Math.ceil(bytes / CHUNK_BYTES); i++) {
      known.add(first + i * layout.stripe);
    }
  };
  add(segments.root, ROOT_BYTES);
  segments.addresses.forEach((address, segment) => {
    const units = geometry.segmentUnits(segment);
    if (units > BLOCK_UNITS_MAX) add(address, units * UNIT_BYTES);
  });
  return known;
}
