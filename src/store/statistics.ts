import type { Index } from '../indexes/contract.ts';
import { CHUNK_BLOCKS, CHUNK_SPAN, unpackChunk } from '../pool/chunks.ts';
import { CHUNK_BYTES } from '../pool/layout.ts';
import type { Pool } from '../pool/pool.ts';
import type { StoreStats } from './api.ts';

export function storeStats(pool: Pool, index: Index): StoreStats {
  const traffic = pool.fabric.traffic.snapshot();
  const { shape, memory } = pool.fabric.traffic.uncounted(() => ({
    shape: pool.run(index.shape()),
    memory: memoryByKind(pool, index.catalog, index.tableUnits),
  }));
  return {
    traffic,
    retries: { ...index.retries },
    resizes: { ...index.resizes },
    ...shape,
    loadFactor: shape.records / shape.slots,
    memory,
  };
}

/** Bytes of the chunks that a store holds, by what they are carved into. */
export function memoryByKind(pool: Pool, catalog: number, tableUnits: readonly number[]) {
  const memory = { records: 0, subtables: 0, directory: 0 };
  for (const [, word] of pool.run(pool.chunks.words())) {
    const { state, catalog: owner, units } = unpackChunk(word);
    if (owner !== catalog) continue;
    if (state === CHUNK_SPAN) memory.directory += CHUNK_BYTES;
    else if (state === CHUNK_BLOCKS && tableUnits.includes(units)) memory.subtables += CHUNK_BYTES;
    else if (state === CHUNK_BLOCKS) memory.records += CHUNK_BYTES;
  }
  return memory;
}
