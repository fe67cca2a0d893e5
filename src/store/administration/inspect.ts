import { kindOf, knownKind, openIndex } from '../../indexes/kinds.ts';
import type { CatalogEntry } from '../../pool/catalog.ts';
import type { ClientRow } from '../../pool/clients/membership.ts';
import { control } from '../../pool/control.ts';
import { CHUNK_BYTES, LAYOUT_VERSION, SUPERBLOCK } from '../../pool/layout.ts';
import { CHUNK_BLOCKS, CHUNK_FREE, unpackChunk } from '../../pool/memory/chunk-word.ts';
import type { Pool } from '../../pool/pool.ts';
import type { Operation } from '../../verbs/index.ts';
import { shownParameters } from '../index-choice.ts';
import type { PoolReport } from '../reports.ts';
import { sumByKind } from './statistics.ts';

type ChunkWords = readonly (readonly [chunk: number, word: bigint])[];

/** Describes a pool to a client of it, on any fabric. */
export function* reportPool(
  pool: Pool,
  place: Pick<PoolReport, 'url' | 'path' | 'hugePages' | 'whyNoHugePages' | 'fabric'>,
): Operation<PoolReport> {
  yield* pool.chunks.learnMaximum();
  const { parameters, chunksMax, bytesMax, tableChunks } = pool.layout;
  const words = yield* pool.chunks.words();
  const isUsed = ([, word]: ChunkWords[number]) => unpackChunk(word).state !== CHUNK_FREE;
  const used = tableChunks + words.filter(isUsed).length;
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
    epoch: Number(yield* control.load(SUPERBLOCK.epoch)),
    hugePages: place.hugePages,
    ...(place.whyNoHugePages && { whyNoHugePages: place.whyNoHugePages }),
    maxClients: parameters.clientsMax,
    ...(place.fabric && { fabric: place.fabric }),
    clients: yield* reportClients(pool, words),
    stores: yield* reportStores(pool, words),
  };
}

function* reportClients(pool: Pool, words: ChunkWords): Operation<PoolReport['clients']> {
  const clients: PoolReport['clients'] = [];
  for (const row of yield* pool.membership.rows()) {
    const self = row.id === pool.membership.id;
    const alive = self || !(yield* pool.membership.isGone(row));
    clients.push(describeClient(row, words, self, alive));
  }
  return clients;
}

function describeClient(row: ClientRow, words: ChunkWords, self: boolean, alive: boolean) {
  const chunks = words.filter(([, word]) => {
    const { state, owner } = unpackChunk(word);
    return state === CHUNK_BLOCKS && owner === row.id;
  }).length;
  const { id, name, thread, epoch } = row;
  const attachedAt = new Date(row.attachedAt).toISOString();
  return { id, name, pid: thread.pid, thread: thread.tid, alive, self, attachedAt, epoch, chunks };
}

function* reportStores(pool: Pool, words: ChunkWords): Operation<PoolReport['stores']> {
  const stores: PoolReport['stores'] = [];
  for (const entry of yield* pool.catalog.entries()) {
    const isWalked = entry.ready && knownKind(entry.kind) !== undefined;
    const store = isWalked ? yield* reportReady(pool, entry.name, words) : reportOther(entry);
    if (store !== undefined) stores.push(store);
  }
  return stores;
}

/** A store that is being made, that was dropped while clients have it, or of a later version. */
function reportOther(entry: CatalogEntry): PoolReport['stores'][number] {
  const nothing = { globalDepth: 0, subtables: 0, slots: 0, records: 0, loadFactor: 0 };
  const memory = { records: 0, subtables: 0, directory: 0 };
  const index = knownKind(entry.kind)?.manifest.name ?? 'unknown';
  const state = entry.ready ? 'ready' : entry.dropped ? 'dropped' : 'creating';
  return { name: entry.name, index, state, parameters: {}, ...nothing, memory };
}

/** Undefined when the store was dropped meanwhile; while it is looked at its memory stays. */
function* reportReady(
  pool: Pool,
  name: string,
  words: ChunkWords,
): Operation<PoolReport['stores'][number] | undefined> {
  const opened = yield* pool.stores.open(name);
  if (opened === undefined) return undefined;
  try {
    const index = yield* openIndex(pool, opened.entry);
    const shape = yield* index.shape();
    const { seed: _, ...parameters } = index.parameters;
    return {
      name,
      index: index.manifest.name,
      state: 'ready',
      parameters: shownParameters(kindOf(opened.entry), parameters),
      ...shape,
      loadFactor: shape.records / shape.slots,
      memory: sumByKind(words, opened.entry.id, index.tableUnits),
    };
  } finally {
    pool.stores.close(opened.store);
  }
}
