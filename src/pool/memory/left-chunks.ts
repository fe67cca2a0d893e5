import type { Operation } from '../../verbs/index.ts';
import { CHUNK_SPAN, type ChunkWord, holdsBlocks, unpackChunk } from './chunk-word.ts';
import type { ChunkTable } from './chunks.ts';

/** A chunk of a store that does not exist, as it was read. */
export interface LeftChunk {
  chunk: number;
  word: ChunkWord;
}

/**
 * Spans and chunks of blocks of stores that do not exist: only their creators knew of them. A store
 * counts as existing while a client's row names it.
 */
export function* chunksLeft(
  chunks: ChunkTable,
  isThere: (catalog: number) => boolean,
): Operation<LeftChunk[]> {
  const left: LeftChunk[] = [];
  for (const [chunk, packed] of yield* chunks.words()) {
    const word = unpackChunk(packed);
    if (word.state !== CHUNK_SPAN && !holdsBlocks(word.state)) continue;
    if (!isThere(word.catalog)) left.push({ chunk, word });
  }
  return left;
}
