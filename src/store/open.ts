import { existsSync, unlinkSync } from 'node:fs';
import { basename } from 'node:path';
import { StepwellError } from '../errors.ts';
import type { RegionSource } from '../fabrics/shared/region.ts';
import type { Index } from '../indexes/contract.ts';
import { createStore, kindNamed, kindOf, openIndex } from '../indexes/kinds.ts';
import { type CatalogEntry, STORE_NAME_BYTES } from '../pool/catalog.ts';
import { CLIENT_NAME_BYTES } from '../pool/membership.ts';
import { Pool } from '../pool/pool.ts';
import type {
  AsyncStore,
  CheckReport,
  OpenOptions,
  PoolHandle,
  PoolOptions,
  PoolReport,
  Store,
  Value,
} from './api.ts';
import { checkStores } from './check.ts';
import { reportPool } from './inspect.ts';
import {
  attachFile,
  attachInMemory,
  createFile,
  createInMemory,
  type OpenedPool,
  parseUrl,
  refuseForeign,
} from './location.ts';
import { SharedStore } from './shared-store.ts';

/**
 * Opens a named store in a pool, creating both unless told otherwise. Synchronous calls; `async`
 * has the same names returning promises.
 *
 * @param url `shm:NAME`, `file:PATH`, `memory:`, or the `handle` of an open store (for `memory:`
 * the
 *   way to reach the same pool from a worker thread).
 * @throws StepwellError with the codes of errors.ts, e.g. SW_INVALID_URL, SW_POOL_NOT_FOUND.
 */
export function openSync<V extends Value = Value>(
  url: string | PoolHandle,
  options: OpenOptions = {},
): Store<V> {
  checkEncodings(options);
  const { pool, source, handle, text } = attach(url, options);
  let store: { entry: CatalogEntry; index: Index };
  try {
    store = openStore(pool, options);
  } catch (error) {
    detach(pool, source);
    throw error;
  }
  const onExit = () => detach(pool, source);
  detachAtExit(onExit);
  return new SharedStore<V>(pool, store.index, {
    name: store.entry.name,
    url: text,
    handle,
    keys: options.keys ?? 'auto',
    values: options.values ?? 'auto',
    onClose: () => {
      ATTACHED.delete(onExit);
      detach(pool, source);
    },
  });
}

/** As `openSync`, for code that awaits: the fabric may then have real latencies. */
export async function open<V extends Value = Value>(
  url: string | PoolHandle,
  options: OpenOptions = {},
): Promise<AsyncStore<V>> {
  return openSync<V>(url, options).async;
}

/** Creates an empty pool. Raises SW_POOL_EXISTS when there is one. */
export function createPool(url: string, options: PoolOptions = {}): void {
  const location = parseUrl(url);
  if (location.kind === 'memory') {
    throw new StepwellError('SW_INVALID_URL', 'a memory: pool exists only while a store is open');
  }
  if (!createFile(location.path, options)) {
    throw new StepwellError('SW_POOL_EXISTS', `there is a pool at ${url} already`);
  }
}

/** Removes a pool. Raises SW_POOL_BUSY while a living client is attached, unless forced. */
export function destroyPool(url: string, { force = false }: { force?: boolean } = {}): void {
  const location = parseUrl(url);
  if (location.kind === 'memory') {
    throw new StepwellError('SW_INVALID_URL', 'a memory: pool ends with its last thread');
  }
  if (!existsSync(location.path)) throw new StepwellError('SW_POOL_NOT_FOUND', `no pool at ${url}`);
  if (force) refuseForeign(location.path, url);
  else refuseWhileBusy(location.path, url);
  unlinkSync(location.path);
}

function refuseWhileBusy(path: string, url: string): void {
  const { fabric, source, parameters } = attachFile(path, url);
  try {
    const pool = new Pool(fabric, parameters, source);
    const rows = pool.run(pool.membership.rows());
    const living = rows.filter((row) => pool.membership.liveness(row) !== 'gone');
    if (living.length === 0) return;
    const pids = [...new Set(living.map((row) => row.thread.pid))].join(', ');
    throw new StepwellError('SW_POOL_BUSY', `${url} is in use by process ${pids}`);
  } finally {
    source.close();
  }
}

/** Describes a pool, its clients and its stores. */
export function inspectPool(url: string | PoolHandle): PoolReport {
  return withPool(url, ({ pool, source, text }) => {
    pool.enter();
    try {
      return reportPool(pool, source, text, (entry) => pool.run(openIndex(pool, entry)));
    } finally {
      pool.exit();
    }
  });
}

/**
 * Walks a pool and verifies every invariant. Other clients may go on working; what they change
 * meanwhile can be reported as a problem, so a clean verdict is worth most on a quiet pool.
 */
export function checkPool(
  url: string | PoolHandle,
  options: { onProgress?: (done: number, total: number) => void } = {},
): CheckReport {
  return withPool(url, ({ pool, text }) =>
    checkStores(pool, text, (entry) => pool.run(openIndex(pool, entry)), options.onProgress),
  );
}

interface Attachment {
  pool: Pool;
  source: RegionSource;
  handle: PoolHandle;
  text: string;
}

function withPool<T>(url: string | PoolHandle, use: (attachment: Attachment) => T): T {
  const attachment = attach(url, { create: false });
  try {
    return use(attachment);
  } finally {
    detach(attachment.pool, attachment.source);
  }
}

function attach(url: string | PoolHandle, options: OpenOptions): Attachment {
  const opened = openPool(url, options);
  const pool = new Pool(opened.fabric, opened.parameters, opened.source);
  try {
    pool.join(clientName(options));
  } catch (error) {
    opened.source.close();
    throw error;
  }
  return { pool, source: opened.source, handle: opened.handle, text: opened.text };
}

function openPool(
  url: string | PoolHandle,
  options: OpenOptions,
): OpenedPool & { handle: PoolHandle; text: string } {
  if (typeof url === 'object' && url !== null && Array.isArray(url.memory)) {
    return { ...attachInMemory(url.memory), handle: url, text: 'memory:' };
  }
  const location = parseUrl(url);
  if (location.kind === 'memory') {
    if (options.create === false) {
      throw new StepwellError('SW_POOL_NOT_FOUND', 'memory: names no existing pool; pass a handle');
    }
    return { ...createInMemory(options), text: 'memory:' };
  }
  if (options.create !== false) createFile(location.path, options);
  return { ...attachFile(location.path, location.url), handle: location.url, text: location.url };
}

function detach(pool: Pool, source: RegionSource): void {
  if (pool.closed) return;
  pool.close();
  source.close();
}

/** What is still open when this thread ends. */
const ATTACHED = new Set<() => void>();

/**
 * A process that simply ends gives its memory back at once; one that is killed is found out later.
 * One listener for all stores: Node warns when there are many.
 */
function detachAtExit(detachOne: () => void): void {
  if (!process.listeners('exit').includes(detachAll)) process.on('exit', detachAll);
  ATTACHED.add(detachOne);
}

function detachAll(): void {
  for (const detachOne of ATTACHED) detachOne();
}

function checkEncodings(options: OpenOptions): void {
  for (const key of ['keys', 'values'] as const) {
    const encoding = options[key] ?? 'auto';
    if (encoding === 'auto' || encoding === 'utf8' || encoding === 'bytes') continue;
    throw new StepwellError('SW_INVALID_ARGUMENT', `${key} is auto, utf8 or bytes: ${encoding}`);
  }
}

function clientName({ client }: OpenOptions): string {
  if (client !== undefined && typeof client !== 'string') {
    throw new StepwellError('SW_INVALID_ARGUMENT', 'a client name is a string');
  }
  const name = client ?? basename(process.argv[1] ?? 'node');
  return Buffer.from(name).subarray(0, CLIENT_NAME_BYTES).toString('utf8');
}

function openStore(pool: Pool, options: OpenOptions): { entry: CatalogEntry; index: Index } {
  const name = options.store ?? 'default';
  const valid = typeof name === 'string' && name !== '' && name.isWellFormed();
  if (!valid || Buffer.byteLength(name) > STORE_NAME_BYTES) {
    throw new StepwellError('SW_INVALID_ARGUMENT', `a store name has 1..${STORE_NAME_BYTES} bytes`);
  }
  const entry = options.create === false ? findStore(pool, name) : makeStore(pool, name, options);
  refuseOtherKind(entry, options.index);
  const index = pool.run(openIndex(pool, entry));
  refuseOtherShape(entry.name, index, options);
  return { entry, index };
}

function findStore(pool: Pool, name: string): CatalogEntry {
  const entry = pool.run(pool.catalog.find(name));
  if (entry === undefined) throw new StepwellError('SW_STORE_NOT_FOUND', `no store ${name}`);
  return entry;
}

function makeStore(pool: Pool, name: string, options: OpenOptions): CatalogEntry {
  const kind = kindNamed(options.index ?? 'race');
  const { regionBytes, regionsMax } = pool.layout.parameters;
  const seed = Math.floor(Math.random() * 2 ** 32);
  const wishes = wishesFor(kind.manifest.name, options);
  const parameters = kind.parameters(wishes, regionBytes * regionsMax, seed);
  return pool.run(createStore(pool, name, kind, parameters));
}

/** What the options say about the parameters of an index of this name. */
function wishesFor(
  name: string,
  options: OpenOptions,
): Readonly<Record<string, number | undefined>> {
  return (options as Record<string, Record<string, number> | undefined>)[name] ?? {};
}

function refuseOtherKind(entry: CatalogEntry, wanted: string | undefined): void {
  const { name } = kindOf(entry).manifest;
  if (wanted === undefined || wanted === name) return;
  throw new StepwellError(
    'SW_STORE_MISMATCH',
    `store ${entry.name} exists with the index ${name}, not ${wanted}`,
  );
}

function refuseOtherShape(store: string, { manifest, parameters }: Index, options: OpenOptions) {
  for (const [key, wanted] of Object.entries(wishesFor(manifest.name, options))) {
    const actual = parameters[key];
    if (wanted === undefined || wanted === actual) continue;
    throw new StepwellError(
      'SW_STORE_MISMATCH',
      `store ${store} exists with ${key} ${actual}, not ${wanted}`,
    );
  }
}
