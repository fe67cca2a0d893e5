import { kindOf, knownKind, openIndex, unpackParameters } from '../../indexes/kinds.ts';
import { shapeOf } from '../../indexes/traversal/count.ts';
import type { CatalogEntry } from '../../pool/catalog.ts';
import type { ClientRow } from '../../pool/clients/membership.ts';
import { control } from '../../pool/control.ts';
import { CHUNK_BYTES, LAYOUT_VERSION, SUPERBLOCK } from '../../pool/layout.ts';
import { CHUNK_FREE, type ChunkWord } from '../../pool/memory/chunk-word.ts';
import type { Pool } from '../../pool/pool.ts';
import type { Operation } from '../../verbs/index.ts';
import { shownParameters } from '../index-choice.ts';
import type { PoolReport } from '../reports.ts';
import {
  type HeldMemory,
  heldByClients,
  laggards,
  measureMemory,
  readChunkWords,
  sumByKind,
} from './statistics.ts';

/** Describes a pool to a client of it, on any fabric. */
export function* reportPool(
  pool: Pool,
  place: Pick<PoolReport, 'url' | 'path' | 'hugePages' | 'whyNoHugePages' | 'fabric'>,
): Operation<PoolReport> {
  yield* pool.chunks.learnMaximum();
  const { parameters, chunksMax, bytesMax, tableChunks } = pool.layout;
  const epoch = yield* pool.reclamation.readEpoch();
  const rows = yield* pool.membership.rows();
  const words = yield* readChunkWords(pool);
  const memory = measureMemory(pool.layout, words, rows, yield* pool.catalog.entries());
  const used = tableChunks + words.filter(({ state }) => state !== CHUNK_FREE).length;
  const stores = yield* reportStores(pool, words);
  return {
    url: place.url,
    path: place.path,
    layoutVersion: LAYOUT_VERSION,
    createdAt: new Date(parameters.createdAt).toISOString(),
    sizeMax: bytesMax,
    sizeAtFirst: parameters.regionBytes * parameters.regionsMax,
    regionSize: parameters.regionBytes,
    regions: Number(yield* control.load(SUPERBLOCK.regionCount)),
    chunkSize: CHUNK_BYTES,
    chunks: { total: chunksMax, used, free: chunksMax - used },
    memory,
    epoch,
    hugePages: place.hugePages,
    ...(place.whyNoHugePages && { whyNoHugePages: place.whyNoHugePages }),
    maxClients: parameters.clientsMax,
    ...(place.fabric && { fabric: place.fabric }),
    // After the walk of the stores, which gives a busy client time to move on.
    clients: yield* reportClients(pool, heldByClients(words, rows), laggards(rows, epoch)),
    stores,
  };
}

function* reportClients(
  pool: Pool,
  held: ReadonlyMap<number, HeldMemory>,
  lagged: ReadonlyMap<number, number>,
): Operation<PoolReport['clients']> {
  const clients: PoolReport['clients'] = [];
  const rows = yield* pool.membership.rows();
  const lagging = laggards(rows, yield* pool.reclamation.readEpoch());
  for (const row of rows) {
    const self = row.id === pool.membership.id;
    const alive = self || !(yield* pool.membership.isGone(row));
    const lags = lagging.has(row.id) && lagging.get(row.id) === lagged.get(row.id);
    const { claimed, waiting } = held.get(row.id) ?? { claimed: 0, waiting: 0 };
    clients.push({ ...describeClient(row), self, alive, claimed, waiting, lags });
  }
  return clients;
}

function describeClient({ id, name, thread, epoch, attachedAt }: ClientRow) {
  const attached = new Date(attachedAt).toISOString();
  return { id, name, pid: thread.pid, thread: thread.tid, attachedAt: attached, epoch };
}

function* reportStores(pool: Pool, words: readonly ChunkWord[]): Operation<PoolReport['stores']> {
  const stores: PoolReport['stores'] = [];
  for (const entry of yield* pool.catalog.entries()) {
    const isWalked = entry.ready && knownKind(entry.kind) !== undefined;
    const store = isWalked ? yield* reportReady(pool, entry.name, words) : reportOther(entry);
    if (store !== undefined) stores.push(store);
  }
  return stores;
}

/** A store that is being made, that clients have since it was dropped, or of an unknown index. */
function reportOther(entry: CatalogEntry): PoolReport['stores'][number] {
  const nothing = { globalDepth: 0, subtables: 0, slots: 0, records: 0, loadFactor: 0 };
  const memory = { records: 0, subtables: 0, directory: 0 };
  const state = entry.ready ? 'ready' : entry.dropped ? 'dropped' : 'creating';
  return { name: entry.name, index: entry.kind, state, parameters: {}, ...nothing, memory };
}

/** Undefined when the store was dropped meanwhile; while it is looked at its memory stays. */
function* reportReady(
  pool: Pool,
  name: string,
  words: readonly ChunkWord[],
): Operation<PoolReport['stores'][number] | undefined> {
  const opened = yield* pool.stores.open(name);
  if (opened === undefined) return undefined;
  try {
    const index = yield* openIndex(pool, opened.entry);
    const shape = yield* shapeOf(index);
    const kind = kindOf(opened.entry);
    const { seed: _, without: __, ...parameters } = unpackParameters(kind, opened.entry.parameters);
    return {
      name,
      index: kind.manifest.name,
      state: 'ready',
      parameters: shownParameters(kind, parameters),
      ...shape,
      loadFactor: shape.records / shape.slots,
      memory: sumByKind(words, index.records),
    };
  } finally {
    pool.stores.close(opened.store);
  }
}
