import { publish } from '../diagnostics.ts';
import { StepwellError } from '../errors.ts';
import { abortable, checkSignal } from './abortable.ts';
import {
  type OwnClient,
  type PoolClient,
  type TaskArguments,
  type TaskName,
  type TaskResult,
  taskNamed,
} from './administration/tasks.ts';
import type {
  AsyncStore,
  Decoded,
  Encoding,
  Key,
  OpenOptions,
  PoolHandle,
  Shared,
  Store,
  Value,
} from './api.ts';
import { unsupported } from './arguments.ts';
import { lifetimeOf } from './calls/expiry.ts';
import { LocalAttachment, type LocalClient, ThreadClients } from './local/local-client.ts';
import { SharedStore } from './local/shared-store.ts';
import { nearSettingsOf } from './near/near-settings.ts';
import {
  type AnyOptions,
  type CodecOptions,
  checkCheckOptions,
  checkOpenOptions,
  type EncodedOptions,
  forceIn,
  type NearOptions,
  type TextOptions,
  type TypedOptions,
} from './open-options.ts';
import { createNew, destroyFile, findOrCreate } from './places/pool-files.ts';
import {
  type HandleObject,
  memoryPlace,
  newMemoryPlace,
  optionsFor,
  type PoolPlace,
  parseUrl,
  poolOf,
} from './places/pool-place.ts';
import { isRemote } from './remote/address.ts';
import { attachAlone, createRemote, destroyRemote } from './remote/administer.ts';
import { openRemote, type RemoteStore } from './remote/remote-store.ts';
import type { CheckOptions, CheckReport, DropReport, PoolReport } from './reports.ts';
import {
  checkClientOptions,
  checkStoreName,
  namesStore,
  refuseUnlessBusy,
  refuseUnlessThere,
  type StoreOptions,
} from './store-in-pool.ts';
import { formatOf } from './values.ts';

/**
 * Opens a named store in a pool, creating both unless told otherwise. Synchronous calls; `async`
 * has the same names returning promises. The store's type follows the options `values` and `keys`.
 * Without `values` it is a store of texts. Say `values: 'bytes'` for bytes, or `values: 'auto'` for
 * texts and bytes mixed: each value then comes back as what was stored. With a format or a codec
 * values are of any type: `openSync<Session>(url, { values: 'json' })`.
 *
 * @param url `shm:NAME`, `file:PATH`, `memory:`, or the `handle` of an open store, which names the
 *   store too (for `memory:` the way to reach it from a worker thread). Over a network there is
 *   only `open`.
 * @throws StepwellError with the codes of errors.ts, e.g. SW_INVALID_URL, SW_POOL_NOT_FOUND.
 */
export function openSync<K extends Encoding = 'auto'>(
  url: string | PoolHandle,
  options?: TextOptions<K>,
): Store<string, Decoded<K>, string>;
export function openSync<V, K extends Key = Key>(
  url: string | PoolHandle,
  options: NearOptions<V, K>,
): Store<Shared<V>, K, V>;
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
  return openBy(url, options as OpenOptions, true);
}

/**
 * As `openSync`, by a separate client even if this thread has the pool open: for tests and tools
 * that want several clients in a thread. Not part of the package.
 *
 * @internal
 */
export const openAloneSync = ((url: AnyPool, options: OpenOptions = {}) =>
  openBy(url, options, false)) as typeof openSync;

function openBy(place: AnyPool, given: OpenOptions, isShared: boolean): Store {
  checkClientOptions(given);
  refuseDelegation(given);
  const options = creatingNothing(optionsFor(place, given));
  const { client, handle, text } = attach(place, options, isShared);
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
    near: nearSettingsOf(options),
    onClose: () => {
      client.close(store);
      publish('close', () => ({ url: text, store: store.name }));
    },
  });
}

/** A handle for reading creates nothing. */
function creatingNothing(options: OpenOptions): OpenOptions {
  return options.readOnly ? { ...options, create: false } : options;
}

/** On shared memory it would only slow down writes. */
function refuseDelegation({ delegation }: OpenOptions): void {
  if (!delegation) return;
  throw unsupported(
    'delegation is for tcp: and tls: pools: in memory each call ends before the next one begins, ' +
      'so none is in flight to share verbs with; leave the option out',
  );
}

/**
 * As `openSync`, for code that awaits. Also for pools over the network: `tcp://HOST:PORT/STORE`, or
 * with several memory nodes `tcp://A:PORT,B:PORT/STORE`, always in the same order; `tls://…` when
 * they listen with TLS. Such a store reconnects by itself. Calls under way raise
 * SW_NODE_UNREACHABLE when a node goes away, and SW_REVOKED when this client is revoked. What they
 * wrote may or may not have been stored.
 */
export function open<K extends Encoding = 'auto'>(
  url: string | PoolHandle,
  options?: TextOptions<K>,
): Promise<AsyncStore<string, Decoded<K>, string>>;
export function open<V, K extends Key = Key>(
  url: string | PoolHandle,
  options: NearOptions<V, K>,
): Promise<AsyncStore<Shared<V>, K, V>>;
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
  let isNew = true;
  try {
    createNew(location, options);
  } catch (error) {
    isNew = refuseUnlessThere(error, options);
  }
  if (!namesStore(options)) return isNew;
  try {
    performSync(url, 'make', options);
    return isNew;
  } catch (error) {
    if (isNew) destroyUnused(url);
    throw error;
  }
}

function destroyUnused(url: string): void {
  try {
    destroySync(url);
  } catch (error) {
    refuseUnlessBusy(error);
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
  // So that clients of this thread find out at their next call.
  ThreadClients.ofThread().lookAgain();
}

/** Describes a pool, its clients and its stores. */
export function inspectSync(url: string | PoolHandle): PoolReport {
  return performSync(url, 'inspect');
}

/**
 * Walks a pool and verifies every invariant. Other clients may go on working; what they change
 * meanwhile can be reported as a problem, so a clean verdict is worth most on a quiet pool.
 */
export function checkSync(url: string | PoolHandle, options: CheckOptions = {}): CheckReport {
  checkCheckOptions(options);
  return performSync(url, 'check', options);
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
  return performSync(url, 'drop', ...dropOf(store, options));
}

/** As `dropStoreSync`, for code that awaits; also for pools over the network. */
export async function dropStore(
  url: AnyPool,
  store: string,
  options: OpenOptions & { force?: boolean } = {},
): Promise<DropReport> {
  return perform(url, options, 'drop', ...dropOf(store, options));
}

/** Raises SW_INVALID_ARGUMENT. */
function dropOf(store: string, options: { force?: boolean }): [string, boolean] {
  const force = forceIn(options);
  return [checkStoreName(store), force];
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
  return openBy(url, options, true) as SharedStore<Uint8Array>;
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
  return perform(url, options, 'inspect');
}

/** As `checkSync`, for code that awaits; also for pools over the network. */
export async function check(
  url: AnyPool,
  options: OpenOptions & CheckOptions = {},
): Promise<CheckReport> {
  checkCheckOptions(options);
  return perform(url, options, 'check', options);
}

/**
 * Options that make a store like this one in another pool.
 *
 * @internal
 */
export async function storeOptions(
  url: AnyPool,
  store: string,
  options: OpenOptions = {},
): Promise<StoreOptions> {
  return perform(url, options, 'options', store);
}

/** Runs a task with a separate client, which then leaves the pool. */
async function perform<N extends TaskName>(
  url: AnyPool,
  options: OpenOptions,
  name: N,
  ...args: TaskArguments<N>
): Promise<TaskResult<N>> {
  if (!isRemote(poolOf(url))) return performSync(url, name, ...args);
  const client = await ownClient(url, { ...options, create: false });
  try {
    return await client.perform(name, ...args);
  } finally {
    await client.close();
  }
}

function performSync<N extends TaskName>(
  url: AnyPool,
  name: N,
  ...args: TaskArguments<N>
): TaskResult<N> {
  const client = ownLocalClient(url, { create: false });
  try {
    return client.perform(name, ...args) as TaskResult<N>;
  } finally {
    client.close();
  }
}

/** @internal */
export async function ownClient(url: AnyPool, options: OpenOptions): Promise<OwnClient> {
  const pool = poolOf(url);
  return isRemote(pool) ? attachAlone(pool, options) : ownLocalClient(url, options);
}

function ownLocalClient(url: AnyPool, options: OpenOptions): OwnClient {
  const { client, text } = attach(url, options);
  const { pool, source } = client;
  const own: PoolClient = {
    pool,
    url: text,
    // biome-ignore lint/correctness/useYield: over a network these steps wait
    *enter() {
      pool.enter();
    },
    exit: () => pool.exit(),
    // biome-ignore lint/correctness/useYield: as above
    *memory() {
      return { path: source.path, hugePages: source.hugePages() };
    },
    // biome-ignore lint/correctness/useYield: as above
    *lookAgain() {
      ThreadClients.ofThread().lookAgain();
    },
  };
  return {
    perform: (name, ...args) => pool.run(taskNamed(name)(own, ...args)),
    close: () => client.end(),
  };
}

/**
 * Attaches a separate client, or uses the one that this thread's stores of the pool share.
 *
 * @internal
 */
export function attach(
  url: AnyPool,
  options: OpenOptions,
  isShared = false,
): { client: LocalClient; handle: HandleObject; text: string } {
  const attachTo = (place: PoolPlace, handle: HandleObject, text: string) => ({
    client: ThreadClients.ofThread().attach(place, options, isShared),
    handle,
    text,
  });
  const pool = poolOf(url);
  if (Array.isArray(pool)) return attachTo(memoryPlace(pool), { memory: pool }, 'memory:');
  const location = parseUrl(pool);
  if (location.kind === 'memory') {
    if (options.create === false) {
      throw new StepwellError('SW_POOL_NOT_FOUND', 'memory: names no existing pool; pass a handle');
    }
    const { place, handle } = newMemoryPlace(options);
    return attachTo(place, handle, 'memory:');
  }
  const { path, url: text } = location;
  // Another process may have another working directory.
  const elsewhere = text.startsWith('file:') ? `file:${path}` : text;
  return attachTo(findOrCreate(location, options), { url: elsewhere }, text);
}
