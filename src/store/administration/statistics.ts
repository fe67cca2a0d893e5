import type { Index } from '../../indexes/contract.ts';
import { CHUNK_BYTES } from '../../pool/layout.ts';
import { CHUNK_SPAN, holdsBlocks, unpackChunk } from '../../pool/memory/chunk-word.ts';
import type { Pool } from '../../pool/pool.ts';
import type { Operation } from '../../verbs/index.ts';
import type { StoreStats } from '../api.ts';

/** All of the statistics but the traffic. */
export function* measureStore(pool: Pool, index: Index): Operation<Omit<StoreStats, 'traffic'>> {
  const shape = yield* index.shape();
  const words = yield* pool.chunks.words();
  return {
    retries: { ...index.retries },
    resizes: { ...index.resizes },
    ...shape,
    loadFactor: shape.records / shape.slots,
    memory: sumByKind(words, index.catalog, index.tableUnits),
  };
}

/** Bytes of the chunks that a store holds, by what they are carved into. */
export function sumByKind(
  words: readonly (readonly [chunk: number, word: bigint])[],
  catalog: number,
  tableUnits: readonly number[],
): StoreStats['memory'] {
  const memory = { records: 0, subtables: 0, directory: 0 };
  for (const [, word] of words) {
    const { state, catalog: owner, units } = unpackChunk(word);
    if (owner !== catalog) continue;
    if (state === CHUNK_SPAN) memory.directory += CHUNK_BYTES;
    else if (holdsBlocks(state) && tableUnits.includes(units)) memory.subtables += CHUNK_BYTES;
    else if (holdsBlocks(state)) memory.records += CHUNK_BYTES;
  }
  return memory;
}
