import { knownKind, openIndex } from '../../indexes/kinds.ts';
import type { IndexPicture } from '../../indexes/picture.ts';
import type { CatalogEntry } from '../../pool/catalog.ts';
import type { ClientRow } from '../../pool/clients/membership.ts';
import type { ClientFigures } from '../../pool/clients/meter.ts';
import { NETWORK_NAMESPACE } from '../../pool/clients/thread-identity.ts';
import { control } from '../../pool/control.ts';
import { CHUNK_BYTES, SUPERBLOCK } from '../../pool/layout.ts';
import { CHUNK_BLOCKS, CHUNK_FREE, unpackChunk } from '../../pool/memory/chunk-word.ts';
import type { Pool } from '../../pool/pool.ts';
import type { Operation } from '../../verbs/index.ts';
import type { BoundStats } from '../api.ts';
import { Ledger } from '../eviction/ledger.ts';

/** A client as its row tells of it. */
export interface ClientLook {
  id: number;
  name: string;
  pid: number;
  thread: number;
  /** Over the network, or by memory of its own machine. */
  network: boolean;
  /** Whether it is the one that looks. */
  self: boolean;
  /** False when this machine knows that it is gone. */
  alive: boolean;
  attachedAt: number;
  /** Chunks that it owns. */
  chunks: number;
  /** Whether it has announced an epoch before the pool's, so that memory waits for it. */
  lags: boolean;
  /** What it has told of its operations; undefined when it told nothing. */
  figures: ClientFigures | undefined;
}

/** A store as the tables of the pool tell of it, without a walk of its index. */
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
  sizeMax: number;
  chunks: { total: number; used: number };
  chunkSize: number;
  epoch: number;
  clientsMax: number;
  clients: ClientLook[];
  stores: StoreLook[];
}

type ChunkWords = readonly (readonly [chunk: number, word: bigint])[];

/** Reads the tables of a pool: a few round trips, whatever it holds. */
export function* lookAtPool(pool: Pool): Operation<PoolLook> {
  yield* pool.chunks.learnMaximum();
  const { parameters, chunksMax, tableChunks } = pool.layout;
  const words = yield* pool.chunks.words();
  const inUse = words.filter(([, word]) => unpackChunk(word).state !== CHUNK_FREE).length;
  const epoch = Number(yield* control.load(SUPERBLOCK.epoch));
  return {
    at: Date.now(),
    createdAt: parameters.createdAt,
    sizeMax: pool.layout.bytesMax,
    chunks: { total: chunksMax, used: tableChunks + inUse },
    chunkSize: CHUNK_BYTES,
    epoch,
    clientsMax: pool.membership.clientsMax,
    clients: yield* lookAtClients(pool, words, epoch),
    stores: yield* lookAtStores(pool, words),
  };
}

function* lookAtClients(pool: Pool, words: ChunkWords, epoch: number): Operation<ClientLook[]> {
  const owned = new Map<number, number>();
  for (const [, word] of words) {
    const { state, owner } = unpackChunk(word);
    if (state === CHUNK_BLOCKS) owned.set(owner, (owned.get(owner) ?? 0) + 1);
  }
  const describe = (row: ClientRow): ClientLook => ({
    id: row.id,
    name: row.name,
    pid: row.thread.pid,
    thread: row.thread.tid,
    network: row.thread.namespace === NETWORK_NAMESPACE,
    self: row.id === pool.membership.id,
    alive: row.id === pool.membership.id || pool.membership.liveness(row) !== 'gone',
    attachedAt: row.attachedAt,
    chunks: owned.get(row.id) ?? 0,
    lags: row.epoch !== 0 && row.epoch < epoch - 1,
    figures: row.figures,
  });
  return (yield* pool.membership.rows()).map(describe);
}

function* lookAtStores(pool: Pool, words: ChunkWords): Operation<StoreLook[]> {
  const held = new Map<number, number>();
  for (const [, word] of words) {
    const { state, catalog } = unpackChunk(word);
    if (state !== CHUNK_FREE) held.set(catalog, (held.get(catalog) ?? 0) + CHUNK_BYTES);
  }
  const stores: StoreLook[] = [];
  for (const entry of yield* pool.catalog.entries()) {
    const manifest = knownKind(entry.kind)?.manifest;
    stores.push({
      name: entry.name,
      index: manifest?.name ?? 'unknown',
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
    return yield* (yield* openIndex(pool, opened.entry)).picture(partsMax);
  } finally {
    pool.stores.close(opened.store);
  }
}
