import { knownKind, openIndex } from '../../indexes/kinds.ts';
import type { IndexPicture } from '../../indexes/picture.ts';
import { pictureFrom } from '../../indexes/traversal/count.ts';
import type { CatalogEntry } from '../../pool/catalog.ts';
import type { ClientRow } from '../../pool/clients/membership.ts';
import type { ClientFigures } from '../../pool/clients/meter.ts';
import { NETWORK_NAMESPACE } from '../../pool/clients/thread-identity.ts';
import { control } from '../../pool/control.ts';
import { CHUNK_BYTES, SUPERBLOCK } from '../../pool/layout.ts';
import { CHUNK_FREE, type ChunkWord } from '../../pool/memory/chunk-word.ts';
import type { Pool } from '../../pool/pool.ts';
import type { Operation } from '../../verbs/index.ts';
import type { BoundStats } from '../api.ts';
import { Ledger } from '../eviction/ledger.ts';
import type { MemoryReport } from '../reports.ts';
import {
  type HeldMemory,
  heldByClients,
  laggards,
  measureMemory,
  readChunkWords,
} from './statistics.ts';

/** A client as its row shows it. */
export interface ClientLook extends HeldMemory {
  id: number;
  name: string;
  pid: number;
  /** Whether it is attached over a network. */
  network: boolean;
  /** Whether it is the client that reads the rows. */
  self: boolean;
  /** False when this machine knows that it is gone. */
  alive: boolean;
  attachedAt: number;
  /** Its announced epoch, if memory waits for it to announce a later one; otherwise 0. */
  lagsAt: number;
  /** Figures that it has published; undefined when it has published none. */
  figures: ClientFigures | undefined;
}

/** A store as the pool's tables show it, without a walk of its index. */
export interface StoreLook {
  name: string;
  index: string;
  ordered: boolean;
  state: 'ready' | 'creating' | 'dropped';
  /** Bytes of the chunks that it holds. */
  bytes: number;
  bound: BoundStats | undefined;
}

export interface PoolLook {
  /** Milliseconds since 1970. */
  at: number;
  createdAt: number;
  /** Maximum size of the pool, and size of the chunks in use, in bytes. */
  sizeMax: number;
  bytesUsed: number;
  memory: MemoryReport;
  clientsMax: number;
  clients: ClientLook[];
  stores: StoreLook[];
}

/** Reads the tables of a pool: a few round trips, however much it holds. */
export function* lookAtPool(pool: Pool): Operation<PoolLook> {
  yield* pool.chunks.learnMaximum();
  const { parameters } = pool.layout;
  const words = yield* readChunkWords(pool);
  const rows = yield* pool.membership.rows();
  const entries = yield* pool.catalog.entries();
  const memory = measureMemory(pool.layout, words, rows, entries);
  const epoch = Number(yield* control.load(SUPERBLOCK.epoch));
  return {
    at: Date.now(),
    createdAt: parameters.createdAt,
    sizeMax: pool.layout.bytesMax,
    bytesUsed: memory.total - memory.freeChunks,
    memory,
    clientsMax: pool.membership.clientsMax,
    clients: lookAtClients(pool, words, rows, epoch),
    stores: yield* lookAtStores(pool, words, entries),
  };
}

function lookAtClients(
  pool: Pool,
  words: readonly ChunkWord[],
  rows: readonly ClientRow[],
  epoch: number,
): ClientLook[] {
  const held = heldByClients(words, rows);
  const lagging = laggards(rows, epoch);
  return rows.map((row) => ({
    id: row.id,
    name: row.name,
    pid: row.thread.pid,
    network: row.thread.namespace === NETWORK_NAMESPACE,
    self: row.id === pool.membership.id,
    alive: row.id === pool.membership.id || pool.membership.liveness(row) !== 'gone',
    attachedAt: row.attachedAt,
    ...(held.get(row.id) ?? { claimed: 0, waiting: 0 }),
    lagsAt: lagging.get(row.id) ?? 0,
    figures: row.figures,
  }));
}

function* lookAtStores(
  pool: Pool,
  words: readonly ChunkWord[],
  entries: readonly CatalogEntry[],
): Operation<StoreLook[]> {
  const held = new Map<number, number>();
  for (const { state, catalog } of words) {
    if (state !== CHUNK_FREE) held.set(catalog, (held.get(catalog) ?? 0) + CHUNK_BYTES);
  }
  const stores: StoreLook[] = [];
  for (const entry of entries) {
    const manifest = knownKind(entry.kind)?.manifest;
    stores.push({
      name: entry.name,
      index: entry.kind,
      ordered: manifest?.ordered ?? false,
      state: entry.ready ? 'ready' : entry.dropped ? 'dropped' : 'creating',
      bytes: held.get(entry.id) ?? 0,
      bound: entry.ready && manifest !== undefined ? yield* boundOf(pool, entry) : undefined,
    });
  }
  return stores;
}

/** While it is read the store is named in this client's row, so that its block stays its own. */
function* boundOf(pool: Pool, { id, name }: CatalogEntry): Operation<BoundStats | undefined> {
  if ((yield* pool.catalog.boundOf(id)) === undefined) return undefined;
  const opened = yield* pool.stores.open(name);
  if (opened === undefined) return undefined;
  try {
    const bound = yield* pool.catalog.boundOf(opened.entry.id);
    if (bound === undefined) return undefined;
    const { unit, limit, eviction } = bound;
    const { sums } = yield* Ledger.open(pool, bound, opened.entry.id);
    const { records, bytes, evicted: evictions, hits, misses } = sums;
    const most = unit === 'records' ? { maxRecords: limit } : { maxBytes: limit };
    return { ...most, eviction, records, bytes, evictions, hits, misses };
  } finally {
    pool.stores.close(opened.store);
  }
}

/** The picture of a store's index; undefined when there is no such store. */
export function* lookAtIndex(
  pool: Pool,
  store: string,
  partsMax: number,
): Operation<IndexPicture | undefined> {
  const opened = yield* pool.stores.open(store);
  if (opened === undefined) return undefined;
  try {
    return yield* pictureFrom(yield* openIndex(pool, opened.entry), partsMax);
  } finally {
    pool.stores.close(opened.store);
  }
}
