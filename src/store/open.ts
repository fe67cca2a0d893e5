import { publish } from '../diagnostics.ts';
import { hasCode, StepwellError } from '../errors.ts';
import { openIndex } from '../indexes/kinds.ts';
import type { CatalogEntry } from '../pool/catalog.ts';
import { abortable, checkSignal } from './abortable.ts';
import { checkStores } from './administration/check.ts';
import { freeDropped, markDropped } from './administration/drop-store.ts';
import { reportPool } from './administration/inspect.ts';
import type {
  AsyncStore,
  Decoded,
  Encoding,
  Key,
  OpenOptions,
  PoolHandle,
  Store,
  Value,
} from './api.ts';
import { lifetimeOf } from './calls/expiry.ts';
import { type HandleObject, optionsFor, poolOf } from './handle.ts';
import { LocalAttachment, LocalClient, ThreadClients } from './local/local-client.ts';
import { SharedStore } from './local/shared-store.ts';
import type { AnyOptions, CodecOptions, EncodedOptions, TypedOptions } from './open-options.ts';
import { checkCheckOptions, checkOpenOptions, forceIn } from './open-options.ts';
import { destroyFile } from './places/destroy-file.ts';
import { createNew, findOrCreate } from './places/find-or-create.ts';
import { memoryPlace, newMemoryPlace } from './places/memory-pools.ts';
import type { PoolPlace } from './places/pool-place.ts';
import { type FileLocation, parseUrl } from './places/pool-url.ts';
import { isRemote } from './remote/address.ts';
import {
  checkRemote,
  createRemote,
  destroyRemote,
  dropRemote,
  inspectRemote,
} from './remote/administer.ts';
import { openRemote, type RemoteStore } from './remote/remote-store.ts';
import type { CheckOptions, CheckReport, DropReport, PoolReport } from './reports.ts';
import {
  checkClientOptions,
  checkStoreName,
  makeStore,
  mayBeThere,
  namesStore,
} from './store-in-pool.ts';
import { formatOf } from './values.ts';

/**
 * Opens a named store in a pool, creating both unless told otherwise. Synchronous calls; `async`
 * has the same names returning promises. The store's type follows the options `values` and `keys`;
 * with `auto` the caller may say of what type they are: `openSync<string>(url)`. With a format or a
 * codec values are of any type: `openSync<Session>(url, { values: 'json' })`.
 *
 * @param url `shm:NAME`, `file:PATH`, `memory:`, or the `handle` of an open store, which names the
 *   store too (for `memory:` the way to reach it from a worker thread). Over a network there is
 *   only `open`.
 * @throws StepwellError with the codes of errors.ts, e.g. SW_INVALID_URL, SW_POOL_NOT_FOUND.
 */
export function openSync<V, K extends Key = Key>(
  url: string | PoolHandle,
  options: CodecOptions<V, K>,
): Store<V, K, V>;
export function openSync<V extends Encoding = 'auto', K extends Encoding = 'auto'>(
  url: string | PoolHandle,
  options?: EncodedOptions<V, K>,
): Store<Decoded<V>, Decoded<K>>;
export function openSync<V extends Value, K extends Key = Key>(
  url: string | PoolHandle,
  options?: TypedOptions<V, K>,
): Store<V, K>;
// biome-ignore lint/suspicious/noExplicitAny: the overloads say of what type
export function openSync(url: string | PoolHandle, options: AnyOptions = {}): Store<any, any, any> {
  return openBy(url, options as OpenOptions, attachShared);
}

/**
 * As `openSync`, by a client of its own, whatever else this thread has open: for tests and tools
 * that want several clients in a thread. Not part of the package.
 *
 * @internal
 */
export const openAloneSync = ((url: AnyPool, options: OpenOptions = {}) =>
  openBy(url, options, attach)) as typeof openSync;

function openBy(place: AnyPool, given: OpenOptions, attachTo: typeof attach): Store {
  checkClientOptions(given);
  refuseDelegation(given);
  const options = creatingNothing(optionsFor(place, given));
  const { client, handle, text } = attachTo(place, options);
  const opened = client.open(options);
  const { store } = opened;
  publish('open', () => ({ url: text, store: store.name }));
  return new SharedStore<Value>(new LocalAttachment(client.pool, store), opened, {
    name: store.name,
    url: text,
    handle: { ...handle, store: store.name },
    keys: options.keys ?? 'auto',
    values: formatOf(options.values),
    lifetime: lifetimeOf(options),
    readOnly: options.readOnly,
    onClose: () => {
      client.close(store);
      publish('close', () => ({ url: text, store: store.name }));
    },
  });
}

/** A reader finds what is there. */
function creatingNothing(options: OpenOptions): OpenOptions {
  return options.readOnly ? { ...options, create: false } : options;
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
export function open<V, K extends Key = Key>(
  url: string | PoolHandle,
  options: CodecOptions<V, K>,
): Promise<AsyncStore<V, K, V>>;
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
  given: AnyOptions = {},
  // biome-ignore lint/suspicious/noExplicitAny: the overloads say of what type
): Promise<AsyncStore<any, any, any>> {
  const options = given as OpenOptions;
  checkOpenOptions(options);
  const pool = poolOf(url);
  checkSignal(options.signal);
  const opening = async () =>
    isRemote(pool)
      ? openRemote(pool, creatingNothing(optionsFor(url, options)))
      : openSync(url, options).async;
  return abortable(opening, options.signal);
}

/**
 * Creates a pool or, when the options name a `store` or an `index`, a store, in a pool that is
 * there or a new one. All or nothing: a new pool whose store cannot be made goes again.
 *
 * @returns whether the pool is new.
 * @throws StepwellError SW_POOL_EXISTS when the pool is there and nothing else was asked for, or
 *   sizes for it; SW_STORE_EXISTS when the store is there, also of all but one of several clients
 *   that create it at once.
 */
export function createSync(url: string, options: OpenOptions = {}): boolean {
  checkOpenOptions(options);
  const location = parseUrl(url);
  if (location.kind === 'memory') {
    throw new StepwellError('SW_INVALID_URL', 'a memory: pool exists only while a store is open');
  }
  const isNew = makesPool(location, options);
  if (!namesStore(options)) return isNew;
  try {
    withPool(url, ({ client: { pool } }) => pool.run(makeStore(pool, options)));
    return isNew;
  } catch (error) {
    if (isNew) destroyUnused(url);
    throw error;
  }
}

/** False when there is a pool, and a store in it was asked for. */
function makesPool(location: FileLocation, options: OpenOptions): boolean {
  try {
    createNew(location, options);
    return true;
  } catch (error) {
    if (hasCode(error, 'SW_POOL_EXISTS') && mayBeThere(options)) return false;
    throw error;
  }
}

/** A pool that another client has opened meanwhile stays. */
function destroyUnused(url: string): void {
  try {
    destroySync(url);
  } catch (error) {
    if (!hasCode(error, 'SW_POOL_BUSY')) throw error;
  }
}

/**
 * Removes a pool. Raises SW_POOL_BUSY while a living client is attached, unless forced: the calls
 * of such clients then raise SW_POOL_DESTROYED, soon or at the latest when they next await.
 */
export function destroySync(url: string, options: { force?: boolean } = {}): void {
  const force = forceIn(options);
  const location = parseUrl(url);
  if (location.kind === 'memory') {
    throw new StepwellError('SW_INVALID_URL', 'a memory: pool ends with its last thread');
  }
  destroyFile(location.path, url, force);
  // Clients of this thread find out at their next call.
  ThreadClients.ofThread().lookAgain();
}

/** Describes a pool, its clients and its stores. */
export function inspectSync(url: string | PoolHandle): PoolReport {
  return withPool(url, ({ client: { pool, source }, text }) => {
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
export function checkSync(url: string | PoolHandle, options: CheckOptions = {}): CheckReport {
  checkCheckOptions(options);
  return withPool(url, ({ client: { pool }, text }) => {
    const openOne = (entry: CatalogEntry) => openIndex(pool, entry);
    pool.enter();
    try {
      return pool.run(checkStores(pool, text, openOne, options));
    } finally {
      pool.exit();
    }
  });
}

/**
 * Drops a store: its name is free at once, and its memory is for other stores when no client has
 * the store open any more. In a pool on this machine; see `dropStore`.
 *
 * @throws StepwellError SW_STORE_NOT_FOUND; SW_POOL_BUSY while living clients have the store open,
 *   unless `force`: calls on their handles then raise SW_STORE_DROPPED, soon or at the latest when
 *   they next await.
 */
export function dropStoreSync(
  url: AnyPool,
  store: string,
  options: { force?: boolean } = {},
): DropReport {
  const { force } = dropOptions(store, options);
  return withPool(url, ({ client: { pool }, text }) => {
    const clients = ThreadClients.ofThread();
    // First so that they let go of stores that were closed, then so that they hear of the drop.
    clients.lookAgain();
    const dropped = pool.run(markDropped(pool, text, store, force));
    clients.lookAgain();
    return pool.run(freeDropped(pool, dropped));
  });
}

/** As `dropStoreSync`, for code that awaits; also for pools over the network. */
export async function dropStore(
  url: AnyPool,
  store: string,
  options: OpenOptions & { force?: boolean } = {},
): Promise<DropReport> {
  const { force } = dropOptions(store, options);
  const pool = poolOf(url);
  return isRemote(pool)
    ? dropRemote(pool, store, force, options)
    : dropStoreSync(url, store, options);
}

function dropOptions(store: string, options: { force?: boolean }): { force: boolean } {
  const force = forceIn(options);
  checkStoreName(store);
  return { force };
}

type AnyPool = string | PoolHandle;

type ServedOptions = OpenOptions & { values: 'bytes' };

/**
 * A store for programs that are operations themselves: it has `operations`, and a `pool` that runs
 * such programs.
 *
 * @internal
 */
export async function openServed(
  url: AnyPool,
  options: ServedOptions,
): Promise<SharedStore<Uint8Array> | RemoteStore<Uint8Array>> {
  const pool = poolOf(url);
  return isRemote(pool) ? openRemote(pool, options) : openServedSync(url, options);
}

/** @internal */
export function openServedSync(url: AnyPool, options: ServedOptions): SharedStore<Uint8Array> {
  return openBy(url, options, attachShared) as SharedStore<Uint8Array>;
}

/** As `createSync`, for code that awaits; also for pools over the network. */
export async function create(url: string, options: OpenOptions = {}): Promise<boolean> {
  checkOpenOptions(options);
  return isRemote(url) ? createRemote(url, options) : createSync(url, options);
}

/**
 * As `destroySync`, for code that awaits; also for pools over the network, whose memory nodes are
 * blank afterwards. With `force` their clients are revoked.
 */
export async function destroy(
  url: string,
  options: OpenOptions & { force?: boolean } = {},
): Promise<void> {
  forceIn(options);
  if (isRemote(url)) await destroyRemote(url, options);
  else destroySync(url, options);
}

/** As `inspectSync`, for code that awaits; also for pools over the network. */
export async function inspect(url: AnyPool, options: OpenOptions = {}): Promise<PoolReport> {
  checkOpenOptions(options);
  const pool = poolOf(url);
  return isRemote(pool) ? inspectRemote(pool, options) : inspectSync(url);
}

/** As `checkSync`, for code that awaits; also for pools over the network. */
export async function check(
  url: AnyPool,
  options: OpenOptions & CheckOptions = {},
): Promise<CheckReport> {
  checkCheckOptions(options);
  const pool = poolOf(url);
  return isRemote(pool) ? checkRemote(pool, options) : checkSync(url, options);
}

/** @internal */
export interface Attachment {
  client: LocalClient;
  handle: HandleObject;
  text: string;
}

/**
 * Uses a pool by a client of its own, which is gone afterwards.
 *
 * @internal
 */
export function withPool<T>(url: string | PoolHandle, use: (attachment: Attachment) => T): T {
  const attachment = attach(url, { create: false });
  try {
    return use(attachment);
  } finally {
    attachment.client.end();
  }
}

/**
 * A client of its own.
 *
 * @internal
 */
export function attach(url: string | PoolHandle, options: OpenOptions): Attachment {
  const { place, ...named } = locate(url, options);
  const clients = ThreadClients.ofThread();
  const client = new LocalClient(place.open(), options, (one) => clients.remove(one));
  clients.add(client);
  return { client, ...named };
}

/** The client that this thread's stores of the pool share. */
function attachShared(url: string | PoolHandle, options: OpenOptions): Attachment {
  const { place, ...named } = locate(url, options);
  const clients = ThreadClients.ofThread();
  const known = clients.shared(place.identity);
  if (known?.isUsable) {
    place.release();
    return { client: known, ...named };
  }
  const client = new LocalClient(place.open(), options, (one) => clients.remove(one));
  clients.add(client, place.identity);
  return { client, ...named };
}

function locate(
  url: string | PoolHandle,
  options: OpenOptions,
): { place: PoolPlace; handle: HandleObject; text: string } {
  const pool = poolOf(url);
  if (Array.isArray(pool)) {
    return { place: memoryPlace(pool), handle: { memory: pool }, text: 'memory:' };
  }
  const location = parseUrl(pool);
  if (location.kind === 'memory') {
    if (options.create === false) {
      throw new StepwellError('SW_POOL_NOT_FOUND', 'memory: names no existing pool; pass a handle');
    }
    const { place, handle } = newMemoryPlace(options);
    return { place, handle, text: 'memory:' };
  }
  const place = findOrCreate(location, options);
  return { place, handle: { url: handleUrl(location) }, text: location.url };
}

/** Another process may have another working directory. */
function handleUrl({ path, url }: FileLocation): string {
  return url.startsWith('file:') ? `file:${path}` : url;
}
