import type { RegionSource } from '../fabrics/shared/region.ts';
import type { Index } from '../indexes/contract.ts';
import { kindOf } from '../indexes/kinds.ts';
import type { CatalogEntry } from '../pool/catalog.ts';
import { CHUNK_BLOCKS, CHUNK_FREE, unpackChunk } from '../pool/chunk-word.ts';
import { CHUNK_BYTES, LAYOUT_VERSION } from '../pool/layout.ts';
import type { Pool } from '../pool/pool.ts';
import type { PoolReport } from './api.ts';
import { memoryByKind } from './statistics.ts';

export function reportPool(
  pool: Pool,
  source: RegionSource,
  url: string,
  openIndex: (entry: CatalogEntry) => Index,
): PoolReport {
  const { parameters, chunksMax, reservedChunks } = pool.layout;
  const words = pool.run(pool.chunks.words()).map(([, word]) => unpackChunk(word));
  const free = words.filter(({ state }) => state === CHUNK_FREE).length;
  return {
    url,
    path: source.path,
    layoutVersion: LAYOUT_VERSION,
    createdAt: new Date(parameters.createdAt).toISOString(),
    sizeMax: parameters.regionBytes * parameters.regionsMax,
    regionSize: parameters.regionBytes,
    regions: pool.regionCount(),
    chunkSize: CHUNK_BYTES,
    chunks: { total: chunksMax, used: reservedChunks + words.length - free, free },
    epoch: pool.epoch(),
    hugePages: source.hugePages(),
    clients: reportClients(pool, words),
    stores: pool.run(pool.catalog.entries()).map((entry) => reportStore(pool, entry, openIndex)),
  };
}

function reportClients(pool: Pool, words: ReturnType<typeof unpackChunk>[]): PoolReport['clients'] {
  return pool.run(pool.membership.rows()).map((row) => ({
    id: row.id,
    name: row.name,
    pid: row.thread.pid,
    thread: row.thread.tid,
    alive: pool.membership.liveness(row) !== 'gone',
    self: row.id === pool.membership.id,
    attachedAt: new Date(row.attachedAt).toISOString(),
    epoch: row.epoch,
    chunks: words.filter(({ state, owner }) => state === CHUNK_BLOCKS && owner === row.id).length,
  }));
}

function reportStore(
  pool: Pool,
  entry: CatalogEntry,
  openIndex: (entry: CatalogEntry) => Index,
): PoolReport['stores'][number] {
  const { name } = entry;
  if (!entry.ready) {
    const nothing = { globalDepth: 0, subtables: 0, slots: 0, records: 0, loadFactor: 0 };
    const memory = { records: 0, subtables: 0, directory: 0 };
    const index = kindOf(entry).manifest.name;
    return { name, index, state: 'creating', parameters: {}, ...nothing, memory };
  }
  const index = openIndex(entry);
  const shape = pool.run(index.shape());
  const { seed: _, ...parameters } = index.parameters;
  return {
    name,
    index: index.manifest.name,
    state: 'ready',
    parameters,
    ...shape,
    loadFactor: shape.records / shape.slots,
    memory: memoryByKind(pool, entry.id, index.tableUnits),
  };
}
