import { existsSync, unlinkSync } from 'node:fs';
import { StepwellError } from '../errors.ts';
import type { RegionSource } from '../fabrics/shared/region.ts';
import type { Index } from '../indexes/contract.ts';
import { openIndex } from '../indexes/kinds.ts';
import type { CatalogEntry } from '../pool/catalog.ts';
import { Pool } from '../pool/pool.ts';
import type {
  AsyncStore,
  CheckReport,
  Encoding,
  Key,
  OpenOptions,
  PoolHandle,
  PoolOptions,
  PoolReport,
  Store,
  Value,
} from './api.ts';
import { checkOptions } from './arguments.ts';
import { checkStores } from './check.ts';
import type { Decoded, EncodedOptions, TypedOptions } from './encoded.ts';
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
import { isRemote } from './remote/address.ts';
import { checkRemote, createRemote, destroyRemote, inspectRemote } from './remote/administer.ts';
import { BlockingStore } from './remote/blocking-store.ts';
import { openRemote } from './remote/remote-store.ts';
import { SharedStore } from './shared-store.ts';
import { checkClientOptions, clientName, openStore } from './store-in-pool.ts';

/**
 * Opens a named store in a pool, creating both unless told otherwise. Synchronous calls; `async`
 * has the same names returning promises. The store's type follows the options `values` and `keys`;
 * with `auto` the caller may say of what type they are: `openSync<string>(url)`.
 *
 * @param url `shm:NAME`, `file:PATH`, `memory:`, or the `handle` of an open store (for `memory:`
 *   the way to reach the same pool from a worker thread). Over a network there is only `open`.
 * @throws StepwellError with the codes of errors.ts, e.g. SW_INVALID_URL, SW_POOL_NOT_FOUND.
 */
export function openSync<V extends Encoding = 'auto', K extends Encoding = 'auto'>(
  url: string | PoolHandle,
  options?: EncodedOptions<V, K>,
): Store<Decoded<V>, Decoded<K>>;
export function openSync<V extends Value, K extends Key = Key>(
  url: string | PoolHandle,
  options?: TypedOptions<V, K>,
): Store<V, K>;
export function openSync(url: string | PoolHandle, options: OpenOptions = {}): Store {
  checkClientOptions(options);
  refuseDelegation(options);
  const { pool, source, handle, text } = attach(url, options);
  let store: { entry: CatalogEntry; index: Index };
  try {
    store = pool.run(openStore(pool, options));
  } catch (error) {
    detach(pool, source);
    throw error;
  }
  const onExit = () => detach(pool, source);
  detachAtExit(onExit);
  return new SharedStore<Value>(pool, store.index, {
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

/** It would do nothing but keep writes from their shortest way. */
function refuseDelegation({ delegation }: OpenOptions): void {
  if (!delegation) return;
  throw new StepwellError(
    'SW_UNSUPPORTED',
    'delegation is for tcp: and tls: pools: in memory each call ends before the next one begins, ' +
      'so none is in flight to share verbs with; leave the option out',
  );
}

/**
 * As `openSync`, for code that awaits. Also for pools over the network: `tcp://HOST:PORT/STORE`, or
 * with several memory nodes `tcp://A:PORT,B:PORT/STORE`, always in the same order; `tls://…` when
 * they listen with TLS. Such a store reconnects by itself; calls that were under way when a node
 * went away raise SW_NODE_UNREACHABLE, when this client was revoked SW_REVOKED, and what they wrote
 * may or may not have been stored.
 */
export function open<V extends Encoding = 'auto', K extends Encoding = 'auto'>(
  url: string | PoolHandle,
  options?: EncodedOptions<V, K>,
): Promise<AsyncStore<Decoded<V>, Decoded<K>>>;
export function open<V extends Value, K extends Key = Key>(
  url: string | PoolHandle,
  options?: TypedOptions<V, K>,
): Promise<AsyncStore<V, K>>;
export async function open(
  url: string | PoolHandle,
  options: OpenOptions = {},
): Promise<AsyncStore> {
  if (isRemote(url)) return openRemote<Value>(url, options);
  return openSync(url, options).async;
}

/** Creates an empty pool. Raises SW_POOL_EXISTS when there is one. */
export function createPool(url: string, options: PoolOptions = {}): void {
  checkOptions(options);
  const location = parseUrl(url);
  if (location.kind === 'memory') {
    throw new StepwellError('SW_INVALID_URL', 'a memory: pool exists only while a store is open');
  }
  if (!createFile(location.path, options)) {
    throw new StepwellError('SW_POOL_EXISTS', `there is a pool at ${url} already`);
  }
}

/** Removes a pool. Raises SW_POOL_BUSY while a living client is attached, unless forced. */
export function destroyPool(url: string, options: { force?: boolean } = {}): void {
  checkOptions(options);
  const { force = false } = options;
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
      const place = { url: text, path: source.path, hugePages: source.hugePages() };
      return pool.run(reportPool(pool, place));
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
  checkOptions(options);
  return withPool(url, ({ pool, text }) => {
    const openOne = (entry: CatalogEntry) => openIndex(pool, entry);
    pool.enter();
    try {
      return pool.run(checkStores(pool, text, openOne, options.onProgress));
    } finally {
      pool.exit();
    }
  });
}

type AnyPool = string | PoolHandle;

/**
 * A store with the calls that the gateway makes, synchronous on any fabric: over a network each
 * call waits with its whole thread. Values are bytes.
 *
 * @internal
 */
export async function openBlocking(
  url: string,
  options: OpenOptions,
): Promise<Store<Uint8Array> | BlockingStore> {
  if (isRemote(url)) return BlockingStore.open(url, options);
  return openSync(url, { ...options, values: 'bytes' });
}

/** As `createPool`, for code that awaits; also for pools over the network. */
export async function create(url: string, options: OpenOptions = {}): Promise<void> {
  checkOptions(options);
  if (isRemote(url)) await createRemote(url, options);
  else createPool(url, options);
}

/**
 * As `destroyPool`, for code that awaits; also for pools over the network, whose memory nodes are
 * blank afterwards. With `force` their clients are revoked.
 */
export async function destroy(
  url: string,
  options: OpenOptions & { force?: boolean } = {},
): Promise<void> {
  checkOptions(options);
  if (isRemote(url)) await destroyRemote(url, options);
  else destroyPool(url, options);
}

/** As `inspectPool`, for code that awaits; also for pools over the network. */
export async function inspect(url: AnyPool, options: OpenOptions = {}): Promise<PoolReport> {
  checkOptions(options);
  return isRemote(url) ? inspectRemote(url, options) : inspectPool(url);
}

/** As `checkPool`, for code that awaits; also for pools over the network, a READ at a time. */
export async function check(
  url: AnyPool,
  options: OpenOptions & { onProgress?: (done: number, total: number) => void } = {},
): Promise<CheckReport> {
  checkOptions(options);
  return isRemote(url) ? checkRemote(url, options) : checkPool(url, options);
}

/** @internal */
export interface Attachment {
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

/** @internal */
export function attach(url: string | PoolHandle, options: OpenOptions): Attachment {
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

/** @internal */
export function detach(pool: Pool, source: RegionSource): void {
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
