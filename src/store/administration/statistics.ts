import { type Index, resizesOf, retriesOf } from '../../indexes/contract.ts';
import type { RecordIo } from '../../indexes/substrates/record-io.ts';
import { shapeOf } from '../../indexes/traversal/count.ts';
import type { CatalogEntry } from '../../pool/catalog.ts';
import { type ClientRow, storesIn } from '../../pool/clients/membership.ts';
import { blocksPerChunk, CHUNK_BYTES, type PoolLayout } from '../../pool/layout.ts';
import {
  CHUNK_EMPTIED,
  CHUNK_FREE,
  CHUNK_INTENTS,
  CHUNK_PREPARING,
  CHUNK_SPAN,
  type ChunkWord,
  holdsBlocks,
  unpackChunk,
  useOf,
} from '../../pool/memory/chunk-word.ts';
import type { Pool } from '../../pool/pool.ts';
import { type Operation, UNIT_BYTES } from '../../verbs/index.ts';
import type { StoreStats } from '../api.ts';
import type { MemoryReport } from '../reports.ts';

/** Words of all chunks that were ever taken. */
export function* readChunkWords(pool: Pool): Operation<ChunkWord[]> {
  return (yield* pool.chunks.words()).map(([, word]) => unpackChunk(word));
}

/** All of the statistics but the traffic. */
export function* measureStore(pool: Pool, index: Index): Operation<Omit<StoreStats, 'traffic'>> {
  const shape = yield* shapeOf(index);
  const words = yield* readChunkWords(pool);
  return {
    retries: retriesOf(index),
    resizes: resizesOf(index),
    ...shape,
    loadFactor: shape.records / shape.slots,
    memory: sumByKind(words, index.records),
  };
}

/** Bytes of the chunks that a store holds, by what they are carved into. */
export function sumByKind(
  words: readonly ChunkWord[],
  { catalog, tableUnits }: Pick<RecordIo, 'catalog' | 'tableUnits'>,
): StoreStats['memory'] {
  const memory = { records: 0, subtables: 0, directory: 0 };
  const ofTables = tableUnits();
  for (const { state, catalog: owner, units } of words) {
    if (owner !== catalog) continue;
    if (state === CHUNK_SPAN) memory.directory += CHUNK_BYTES;
    else if (holdsBlocks(state) && ofTables.includes(units)) memory.subtables += CHUNK_BYTES;
    else if (holdsBlocks(state)) memory.records += CHUNK_BYTES;
  }
  return memory;
}

/** Bytes that a client has claimed ahead or retired. */
export interface HeldMemory {
  claimed: number;
  waiting: number;
}

/** For each client: its published figures, and the chunks that it is recycling. */
export function heldByClients(
  words: readonly ChunkWord[],
  rows: readonly ClientRow[],
): Map<number, HeldMemory> {
  const held = new Map<number, HeldMemory>();
  for (const { id, figures } of rows) {
    held.set(id, { claimed: figures?.claimed ?? 0, waiting: figures?.waiting ?? 0 });
  }
  for (const { state, owner } of words) {
    const owned = state === CHUNK_EMPTIED ? held.get(owner) : undefined;
    if (owned !== undefined) owned.waiting += CHUNK_BYTES;
  }
  return held;
}

/**
 * Clients that hold back the epoch while memory waits for it, each with the epoch that it has
 * announced. A busy client may appear here for a moment. A client that appears at the next look,
 * too, with the same epoch, is stuck in an operation.
 */
export function laggards(rows: readonly ClientRow[], epoch: number): Map<number, number> {
  if (!rows.some(({ limboFloor }) => limboFloor !== 0)) return new Map();
  const behind = rows.filter(({ epoch: announced }) => announced !== 0 && announced < epoch);
  return new Map(behind.map(({ id, epoch: announced }) => [id, announced]));
}

type SizeMemory = MemoryReport['blocks'][number] & { catalog: number };

/** Computes where the memory of a pool is, from its tables alone. */
export function measureMemory(
  layout: PoolLayout,
  words: readonly ChunkWord[],
  rows: readonly ClientRow[],
  entries: readonly CatalogEntry[],
): MemoryReport {
  const names = new Map(entries.map(({ id, name }) => [id, name]));
  const sizes = new Map<number, SizeMemory>();
  let taken = layout.tableChunks;
  let overhead = layout.tableChunks * CHUNK_BYTES;
  let emptied = 0;
  for (const word of words) {
    if (word.state === CHUNK_FREE) continue;
    taken++;
    if (word.state === CHUNK_EMPTIED) emptied += CHUNK_BYTES;
    else if (word.state === CHUNK_INTENTS) overhead += CHUNK_BYTES;
    else overhead += addChunk(sizes, word, names.get(word.catalog) ?? '');
  }
  const blocks = [...sizes.values()].sort(
    (a, b) => a.store.localeCompare(b.store) || a.catalog - b.catalog || a.blockSize - b.blockSize,
  );
  const held = heldByClients(words, rows);
  const used = emptied + sumOf(blocks, 'used');
  // The clients' published figures may be older than the chunk table.
  const waiting = Math.min(used, sumOf([...held.values()], 'waiting'));
  const claimed = Math.min(used - waiting, sumOf([...held.values()], 'claimed'));
  return {
    total: layout.bytesMax,
    live: used - waiting - claimed,
    claimed,
    waiting,
    freeBlocks: sumOf(blocks, 'free'),
    freeChunks: (layout.chunksMax - taken) * CHUNK_BYTES,
    overhead,
    stores: byStore(blocks, rows),
    blocks: blocks.map(({ catalog: _, ...size }) => size),
  };
}

/** Adds a chunk to its store and size; returns how many of its bytes are outside of blocks. */
function addChunk(sizes: Map<number, SizeMemory>, word: ChunkWord, store: string): number {
  const { state, catalog, units } = word;
  const isCarved = holdsBlocks(state) || state === CHUNK_PREPARING;
  const blockSize = isCarved ? units * UNIT_BYTES : CHUNK_BYTES;
  const all = isCarved ? blocksPerChunk(units) : 1;
  const free = state === CHUNK_PREPARING ? all : Math.max(0, Math.min(all, word.free));
  const use = useOf(catalog, blockSize / UNIT_BYTES);
  const size = sizes.get(use) ?? { catalog, store, blockSize, chunks: 0, used: 0, free: 0 };
  sizes.set(use, size);
  size.chunks++;
  size.used += (all - free) * blockSize;
  size.free += free * blockSize;
  return CHUNK_BYTES - all * blockSize;
}

/**
 * A client publishes one sum for all its stores. So a store's live memory is known only if every
 * client that holds memory and names the store names no other store.
 */
function byStore(
  blocks: readonly SizeMemory[],
  rows: readonly ClientRow[],
): MemoryReport['stores'] {
  const held = new Map<number, number>();
  for (const { stores, figures } of rows) {
    const bytes = (figures?.claimed ?? 0) + (figures?.waiting ?? 0);
    if (bytes === 0) continue;
    const named = storesIn(stores);
    const share = named.length === 1 ? bytes : Number.NaN;
    for (const catalog of named) held.set(catalog, (held.get(catalog) ?? 0) + share);
  }
  const catalogs = [...new Set(blocks.map(({ catalog }) => catalog))];
  return catalogs.map((catalog) => {
    const own = blocks.filter((size) => size.catalog === catalog);
    const used = sumOf(own, 'used');
    const live = Math.max(0, used - (held.get(catalog) ?? 0));
    const [{ store }] = own;
    return { store, used, free: sumOf(own, 'free'), live: Number.isNaN(live) ? null : live };
  });
}

function sumOf<K extends string>(all: readonly Record<K, number>[], of: K): number {
  return all.reduce((sum, one) => sum + one[of], 0);
}
