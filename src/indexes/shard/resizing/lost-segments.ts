import { CHUNK_BYTES } from '../../../pool/layout.ts';
import { CHUNK_SPAN, type ChunkWord, unpackChunk } from '../../../pool/memory/chunk-word.ts';
import type { Pool } from '../../../pool/pool.ts';
import type { Operation } from '../../../verbs/index.ts';
import type { ShardTable } from '../table/table.ts';

/**
 * Gives back the spans of resizers that died after they had taken a segment and before they
 * published it; smaller segments are blocks, which a sweep finds. The order proves it:
 *
 *   1  the chunk table    spans that are taken from now on do not matter, be it by a new client
 *   2  living clients     the owners of all other spans issue no verbs any more
 *   3  all roots          so they name every segment that they have published
 *
 * A span of 1 without an owner in 2 that 3 does not name is no client's. A few READs once a resize.
 * Returns how many chunks came back.
 */
export function* releaseLostSegments(table: ShardTable): Operation<number> {
  const { pool } = table;
  const words = yield* pool.chunks.words();
  const living = yield* livingClients(pool);
  const known = yield* knownChunks(table);
  let released = 0;
  for (const [chunk, word] of words) {
    const fields = unpackChunk(word);
    if (fields.state !== CHUNK_SPAN || fields.catalog !== table.catalog) continue;
    if (living.has(nameOf(fields.owner, fields.incarnation)) || known.has(chunk)) continue;
    yield* giveBack(table, chunk, fields);
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

/**
 * Where tables are migrated it may also be what a migration has left whose mover died before it was
 * given back: others may still be looking at that.
 */
function* giveBack({ catalog, pool }: ShardTable, chunk: number, word: ChunkWord): Operation<void> {
  const { allocator, chunks, layout, reclamation } = pool;
  if (layout.stripe === 1) return yield* chunks.release(chunk, word);
  const isOwn = yield* allocator.spans.takeOverChunk(catalog, chunk, word);
  if (isOwn) reclamation.retireSpan([chunk], catalog);
}

/** Chunks of the directory and of all segments that are spans. */
function* knownChunks({ directory, pool }: ShardTable): Operation<Set<number>> {
  const { chunks, layout } = pool;
  const known = new Set<number>();
  for (const [address, bytes] of yield* directory.places()) {
    const first = chunks.chunkOf(address);
    for (let i = 0; i < Math.ceil(bytes / CHUNK_BYTES); i++) known.add(first + i * layout.stripe);
  }
  return known;
}
