import { StepwellError } from '../../errors.ts';
import type { CheckSink } from '../../indexes/contract.ts';
import { kindOf, knownKind, openIndex, unpackParameters } from '../../indexes/kinds.ts';
import { shapeOf } from '../../indexes/traversal/count.ts';
import type { CatalogEntry } from '../../pool/catalog.ts';
import type { ClientRow } from '../../pool/clients/membership.ts';
import { control } from '../../pool/control.ts';
import { CHUNK_BYTES, LAYOUT_VERSION, SUPERBLOCK } from '../../pool/layout.ts';
import { CHUNK_FREE, type ChunkWord, unpackChunk } from '../../pool/memory/chunk-word.ts';
import type { Pool } from '../../pool/pool.ts';
import type { Operation } from '../../verbs/index.ts';
import type { OpenOptions } from '../api.ts';
import { inSection } from '../attachment.ts';
import { shownParameters } from '../index-choice.ts';
import { namesOf } from '../places/pool-files.ts';
import type { CheckOptions, CheckReport, DropReport, PoolReport } from '../reports.ts';
import { makeStore, optionsOfStore } from '../store-in-pool.ts';
import { checkStores } from './check.ts';
import { lookAtIndex, lookAtPool } from './look.ts';
import {
  type HeldMemory,
  heldByClients,
  laggards,
  measureMemory,
  readChunkWords,
  sumByKind,
} from './statistics.ts';

/** The client that runs a task. It has no store open. */
export interface PoolClient extends Pick<CheckSink, 'each'> {
  readonly pool: Pool;
  /** The pool, without a store. */
  readonly url: string;
  enter(): Operation<void>;
  exit(): void;
  /** Properties of the pool's memory, which the pool itself does not know. */
  memory(): Operation<Pick<PoolReport, 'path' | 'hugePages' | 'whyNoHugePages' | 'fabric'>>;
  /** Clients by which this thread has stores open find out at once what was closed or dropped. */
  lookAgain(): Operation<void>;
}

/**
 * Tasks on a whole pool, for every fabric. They are listed by name because each driver has its own
 * form of each operation (scripts/derive.ts).
 */
const TASKS = {
  inspect: (client: PoolClient) => inSection(client, () => reportPool(client)),
  check: (client: PoolClient, options: CheckOptions) =>
    inSection(client, () => checkPool(client, options)),
  drop: dropStore,
  make: ({ pool }: PoolClient, options: OpenOptions) => makeStore(pool, options),
  options: (client: PoolClient, store: string) =>
    inSection(client, () => optionsOfStore(client.pool, store)),
  look: (client: PoolClient) => inSection(client, () => lookAtPool(client.pool)),
  picture: (client: PoolClient, store: string, partsMax: number) =>
    inSection(client, () => lookAtIndex(client.pool, store, partsMax)),
};

type Tasks = typeof TASKS;
export type TaskName = keyof Tasks;
export type TaskResult<N extends TaskName> =
  ReturnType<Tasks[N]> extends Operation<infer T> ? T : never;
export type TaskArguments<N extends TaskName> =
  Parameters<Tasks[N]> extends [PoolClient, ...infer A] ? A : never;

export function taskNamed<N extends TaskName>(name: N) {
  return TASKS[name] as (client: PoolClient, ...args: unknown[]) => Operation<TaskResult<N>>;
}

/** A client of its own in a pool. */
export interface OwnClient {
  perform<N extends TaskName>(
    name: N,
    ...args: TaskArguments<N>
  ): TaskResult<N> | Promise<TaskResult<N>>;
  close(): void | Promise<void>;
}

function checkPool({ pool, url, each }: PoolClient, options: CheckOptions): Operation<CheckReport> {
  const open = (entry: CatalogEntry) => openIndex(pool, entry);
  return checkStores(pool, url, open, each ? { ...options, each } : options);
}

function* dropStore(client: PoolClient, store: string, force: boolean): Operation<DropReport> {
  // First so that they let go of stores that were closed, then so that they hear of the drop.
  yield* client.lookAgain();
  const dropped = yield* markDropped(client.pool, client.url, store, force);
  yield* client.lookAgain();
  return yield* freeDropped(client.pool, dropped);
}

function* reportPool(client: PoolClient): Operation<PoolReport> {
  const { pool, url } = client;
  const { path, hugePages, whyNoHugePages, fabric } = yield* client.memory();
  yield* pool.chunks.learnMaximum();
  const { parameters, chunksMax, bytesMax, tableChunks } = pool.layout;
  const epoch = yield* pool.reclamation.readEpoch();
  const rows = yield* pool.membership.rows();
  const words = yield* readChunkWords(pool);
  const memory = measureMemory(pool.layout, words, rows, yield* pool.catalog.entries());
  const used = tableChunks + words.filter(({ state }) => state !== CHUNK_FREE).length;
  const stores = yield* reportStores(pool, words);
  return {
    url,
    path,
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
    hugePages,
    ...(whyNoHugePages && { whyNoHugePages }),
    maxClients: parameters.clientsMax,
    ...(fabric && { fabric }),
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
    clients.push({
      id: row.id,
      name: row.name,
      pid: row.thread.pid,
      thread: row.thread.tid,
      attachedAt: new Date(row.attachedAt).toISOString(),
      epoch: row.epoch,
      self,
      alive,
      ...(held.get(row.id) ?? { claimed: 0, waiting: 0 }),
      lags,
    });
  }
  return clients;
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

const WAITS_MAX = 100;
const CLOSING_WAITS_MAX = 25;
const WAIT_MICROSECONDS = 2000;
const WAITS_PER_LOOK = 10;

/** A store that nobody opens any more, whose memory is still there. */
interface DroppedStore {
  entry: CatalogEntry;
  bytes: number;
}

/**
 * Marks the store as dropped. Raises SW_STORE_NOT_FOUND; SW_POOL_BUSY while living clients have it
 * open, unless forced. A client that opens it at that very moment finds out as if it was forced.
 */
export function* markDropped(
  pool: Pool,
  url: string,
  name: string,
  force: boolean,
): Operation<DroppedStore> {
  const entry = yield* pool.catalog.find(name);
  if (entry === undefined) {
    // A client that died may have begun the drop.
    yield* pool.catalog.finishDrop(0);
    throw notFound(url, name);
  }
  let holders = yield* livingHolders(pool, entry.id);
  // A client that has closed the store may wait for an epoch before it lets go of it.
  for (let i = 0; holders.length > 0 && !force && i < CLOSING_WAITS_MAX; i++) {
    yield* control.pause(WAIT_MICROSECONDS);
    holders = yield* livingHolders(pool, entry.id);
  }
  if (holders.length > 0 && !force) {
    const why = `is open in ${namesOf(holders).join(', ')}, or was closed there a moment ago`;
    const remedy = 'close it there and try again, or use force (--force)';
    throw new StepwellError('SW_POOL_BUSY', `store ${name} of ${url} ${why}; ${remedy}`);
  }
  const words = yield* pool.chunks.words();
  const chunks = words.filter(([, word]) => unpackChunk(word).catalog === entry.id).length;
  if (!(yield* pool.catalog.drop(entry))) throw notFound(url, name);
  return { entry, bytes: chunks * CHUNK_BYTES };
}

/** Gives the memory back, after a short wait for clients that have it open. */
export function* freeDropped(pool: Pool, { entry, bytes }: DroppedStore): Operation<DropReport> {
  for (let waits = 0; ; waits++) {
    if (yield* pool.catalog.finishDrop(entry.id)) break;
    if (waits === WAITS_MAX) break;
    yield* control.pause(WAIT_MICROSECONDS);
    if (waits % WAITS_PER_LOOK === 0) yield* pool.recovering(() => true);
  }
  const isThere = (yield* pool.catalog.entries()).some(({ id, dropped }) => {
    return dropped && id === entry.id;
  });
  const heldBy = isThere ? namesOf(yield* pool.membership.holdersOf(entry.id)) : [];
  return { store: entry.name, bytes, heldBy };
}

function* livingHolders({ membership }: Pool, catalog: number): Operation<ClientRow[]> {
  return yield* membership.living(yield* membership.holdersOf(catalog));
}

function notFound(url: string, name: string): StepwellError {
  return new StepwellError('SW_STORE_NOT_FOUND', `no store ${name} in ${url}`);
}
