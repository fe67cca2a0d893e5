import { basename } from 'node:path';
import { hasCode, StepwellError } from '../errors.ts';
import type { ClientSettings, Index, IndexKind, IndexParameters } from '../indexes/contract.ts';
import {
  findOrCreateStore,
  INDEX_KINDS,
  kindNamed,
  kindOf,
  openIndex,
  unpackParameters,
} from '../indexes/kinds.ts';
import type { BoundSettings } from '../pool/bound.ts';
import { type CatalogEntry, type Made, STORE_NAME_BYTES } from '../pool/catalog.ts';
import { CLIENT_NAME_BYTES } from '../pool/clients/membership.ts';
import type { OpenStore } from '../pool/open-stores.ts';
import type { Pool } from '../pool/pool.ts';
import type { Operation } from '../verbs/index.ts';
import { checkSignal } from './abortable.ts';
import type { IndexChoice, OpenOptions } from './api.ts';
import { checkFlag, checkFunction, invalid, shown, unsupported } from './arguments.ts';
import { lifetimeOf } from './calls/expiry.ts';
import {
  BoundedStore,
  boundSettings,
  refuseDelegation,
  refuseOtherBound,
} from './eviction/bounded-store.ts';
import { type IndexWish, indexWish, shownParameters } from './index-choice.ts';
import { nearSettingsOf, provingIndex } from './near/near-settings.ts';
import { checkOpenOptions } from './open-options.ts';
import { formatOf } from './values.ts';

/** An attempt fails only if another client drops the new store. */
const MAKES_MAX = 10;
const HOTSPOTS_MAX = 2 ** 24;
/**
 * Settings of a new client. The cost of a round trip decides whether a search saves READs or round
 * trips, and whether a hotspot buffer is worth its memory.
 */
const SETTINGS = {
  'at once': { readsAtOnce: true },
  network: { hotspots: 65_536 },
} satisfies Record<string, ClientSettings>;

/** Estimated bytes of a record in a bounded store, with its share of the index. */
const BYTES_PER_RECORD = 512;
const BOUNDED_BYTES_MIN = 64 * 1024;

export function checkClientOptions(options: OpenOptions): void {
  checkOpenOptions(options);
  clientName(options);
  const { keys = 'auto' } = options;
  if (keys !== 'auto' && keys !== 'utf8' && keys !== 'bytes') {
    throw invalid(`keys is auto, utf8 or bytes: ${shown(keys)}`);
  }
  formatOf(options.values);
  checkSignal(options.signal);
  lifetimeOf(options);
  nearSettingsOf(options);
  boundSettings(options);
  for (const name of ['create', 'delegation', 'readOnly'] as const) checkFlag(name, options[name]);
  checkWaits(options);
  for (const name of ['clock', 'chance'] as const) {
    if (options[name] !== undefined) checkFunction(name, options[name]);
  }
}

function checkWaits({ hotspots = 0, lockTimeoutMs = 1 }: OpenOptions): void {
  const isCount = Number.isInteger(hotspots) && hotspots >= 0 && hotspots <= HOTSPOTS_MAX;
  if (!isCount) throw invalid(`hotspots is an integer of 0..${HOTSPOTS_MAX}: ${shown(hotspots)}`);
  if (typeof lockTimeoutMs === 'number' && lockTimeoutMs >= 1) return;
  throw invalid(`lockTimeoutMs is a number of at least 1: ${shown(lockTimeoutMs)}`);
}

export function clientName({ client }: OpenOptions): string {
  if (client !== undefined && typeof client !== 'string') {
    throw invalid('a client name is a string');
  }
  const name = client ?? basename(process.argv[1] ?? 'node');
  return Buffer.from(name).subarray(0, CLIENT_NAME_BYTES).toString('utf8');
}

/** An open store; `pool.stores.close` closes it. */
export interface StoreInPool extends OpenedStore {
  store: OpenStore;
}

/** A client's open store, which its handles share. */
export interface OpenedStore {
  index: Index;
  /** Undefined for a store without a bound. */
  bounded: BoundedStore | undefined;
}

/**
 * Finds or creates the store that the options name, and opens its index, unless the client has it
 * open and `known` tells which it is. `trips` says what a round trip costs.
 */
export function* openStore(
  pool: Pool,
  options: OpenOptions,
  known: (store: OpenStore) => OpenedStore | undefined = () => undefined,
  trips: 'at once' | 'network' = 'at once',
): Operation<StoreInPool> {
  const name = checkStoreName(options.store ?? 'default');
  const wish = indexWish(options.index);
  const bound = boundSettings(options);
  const mayMake = options.create !== false && !options.readOnly;
  const make = mayMake ? makerOf(pool, name, wish, options) : undefined;
  const { entry, store } = yield* findOrMake(pool, name, make);
  try {
    if (wish) refuseOtherKind(entry, wish);
    const open = known(store);
    const index = open ? open.index : yield* openIndex(pool, entry);
    const bounded = open ? open.bounded : yield* BoundedStore.open(pool, index);
    if (wish) refuseOtherParameters(entry, wish);
    if (bound) refuseOtherBound(entry.name, bounded?.bound, bound);
    if (bounded) refuseDelegation(options);
    if (nearSettingsOf(options)) provingIndex(entry.name, index, options);
    configure(entry.name, index, options, open === undefined ? SETTINGS[trips] : {});
    return { store, index, bounded };
  } catch (error) {
    pool.stores.close(store);
    throw error;
  }
}

/** Handles of one store share its index, so the options of the last one opened count. */
function configure(
  store: string,
  index: Index,
  { delegation, hotspots, lockTimeoutMs }: OpenOptions,
  defaults: ClientSettings,
): void {
  if (delegation) refuseWithout('delegation', store, index);
  if (hotspots) refuseWithout('hotspots', store, index);
  index.configure?.({
    delegation: delegation || undefined,
    hotspots: hotspots ?? defaults.hotspots,
    readsAtOnce: defaults.readsAtOnce,
    lockTimeoutMs,
  });
}

function refuseWithout(what: 'delegation' | 'hotspots', store: string, { manifest }: Index): void {
  if (manifest[what]) return;
  const why = `store ${store} has the index ${manifest.name}, which has no ${what}`;
  const others = INDEX_KINDS.filter((kind) => kind.manifest[what]);
  const names = others.map((kind) => kind.manifest.name).join(', ');
  throw unsupported(`${why}: ${names} have`);
}

/** Raises SW_INVALID_ARGUMENT. */
export function checkStoreName(name: unknown): string {
  const valid = typeof name === 'string' && name !== '' && name.isWellFormed();
  if (!valid || Buffer.byteLength(name) > STORE_NAME_BYTES) {
    throw invalid(`a store name has 1..${STORE_NAME_BYTES} bytes`);
  }
  return name;
}

/** Whether the options of `create` ask for a store, not only for a pool. */
export function namesStore({ store, index }: OpenOptions): boolean {
  return store !== undefined || index !== undefined;
}

/**
 * Raises an error of `create`, unless there is a pool that it may use: it makes a store, and the
 * options name no sizes. Returns that the pool is not new.
 */
export function refuseUnlessThere(error: unknown, options: OpenOptions): false {
  const { size, regionSize, maxClients } = options;
  const mayBeThere = namesStore(options) && (size ?? regionSize ?? maxClients) === undefined;
  if (mayBeThere && hasCode(error, 'SW_POOL_EXISTS')) return false;
  throw error;
}

/** For a new pool that is removed because its store cannot be made: others may have opened it. */
export function refuseUnlessBusy(error: unknown): void {
  if (!hasCode(error, 'SW_POOL_BUSY')) throw error;
}

/**
 * Makes the store that the options name.
 *
 * @throws StepwellError SW_STORE_EXISTS when there is one: of two clients that make it at once one
 *   succeeds.
 */
export function* makeStore(pool: Pool, options: OpenOptions): Operation<void> {
  const name = checkStoreName(options.store ?? 'default');
  const make = makerOf(pool, name, indexWish(options.index), options);
  yield* pool.recovering(() => true);
  const { entry, isNew } = yield* make();
  if (isNew) {
    pool.stores.abandon(entry.id);
    return;
  }
  const why = `store ${name} is there already, with the index ${kindOf(entry).manifest.name}`;
  throw new StepwellError('SW_STORE_EXISTS', why);
}

function* findOrMake(
  pool: Pool,
  name: string,
  make: (() => Operation<Made>) | undefined,
): Operation<{ entry: CatalogEntry; store: OpenStore }> {
  for (let attempt = 0; attempt < MAKES_MAX; attempt++) {
    const found = yield* pool.stores.open(name);
    if (found !== undefined) return found;
    if (make === undefined) throw new StepwellError('SW_STORE_NOT_FOUND', `no store ${name}`);
    // A new store can use the memory of dropped ones, unless a dead client still holds it.
    yield* pool.recovering(() => true);
    const { entry: made } = yield* make();
    const opened = yield* pool.stores.open(name);
    if (opened?.entry.id !== made.id) pool.stores.abandon(made.id);
    if (opened !== undefined) return opened;
  }
  throw new StepwellError('SW_CONTENTION', `store ${name} is dropped again and again`);
}

/** Checks the options of a new store, even if the store exists. */
function makerOf(
  pool: Pool,
  name: string,
  wish: IndexWish | undefined,
  options: OpenOptions,
): () => Operation<Made> {
  const { kind, wishes } = wish ?? { kind: kindNamed('race'), wishes: {} };
  const bound = boundSettings(options);
  if (bound) refuseDelegation(options);
  const seed = Math.floor(Math.random() * 2 ** 32);
  const { stripe, bytesMax } = pool.layout;
  const bytes = bytesFor(kind, bytesMax, bound);
  const parameters = kind.parameters({ ...wishes, ...wishesFor(kind, bound) }, bytes, seed, stripe);
  return () => findOrCreateStore(pool, name, kind, parameters, bound);
}

/** Evicting from an index whose items stand in it takes room there for when they were used. */
function wishesFor({ parameterNames }: IndexKind, bound: BoundSettings | undefined) {
  return bound !== undefined && parameterNames.includes('accessWords') ? { accessWords: 1 } : {};
}

/** An index that cannot resize online gets the size that its store's bound requires. */
function bytesFor({ manifest }: IndexKind, poolBytes: number, bound?: BoundSettings): number {
  if (manifest.onlineResize || bound === undefined) return poolBytes;
  const { unit, limit } = bound;
  const wanted = unit === 'records' ? BYTES_PER_RECORD * limit : 2 * limit;
  return Math.min(poolBytes, Math.max(BOUNDED_BYTES_MIN, wanted));
}

/** Options of `open` that describe a store to make. */
export type StoreOptions = Pick<OpenOptions, 'index' | 'maxRecords' | 'maxBytes' | 'eviction'>;

/**
 * Options that make a store like this one in a pool of any size: parameters that follow from the
 * size of its own pool are left out. Raises SW_STORE_NOT_FOUND and SW_UNSUPPORTED.
 */
export function* optionsOfStore(pool: Pool, name: string): Operation<StoreOptions> {
  yield* pool.chunks.learnMaximum();
  const opened = yield* pool.stores.open(name);
  if (opened === undefined) throw new StepwellError('SW_STORE_NOT_FOUND', `no store ${name}`);
  const { entry, store } = opened;
  try {
    const kind = kindOf(entry);
    const bound = yield* pool.catalog.boundOf(entry.id);
    const chosen = chosenParameters(pool, kind, unpackParameters(kind, entry.parameters), bound);
    const isPlain = Object.keys(chosen).length === 0;
    const index = (isPlain ? entry.kind : { kind: entry.kind, ...chosen }) as IndexChoice;
    if (bound === undefined) return { index };
    const { unit, limit, eviction } = bound;
    return { index, [unit === 'records' ? 'maxRecords' : 'maxBytes']: limit, eviction };
  } finally {
    pool.stores.close(store);
  }
}

/** Parameters of an index that follow neither from the others nor from its pool's size. */
function chosenParameters(
  { layout }: Pool,
  kind: IndexKind,
  { seed: _, without: __, ...parameters }: IndexParameters,
  bound: BoundSettings | undefined,
): Record<string, number | boolean> {
  const { stripe, bytesMax, parameters: sizes } = layout;
  const implied = wishesFor(kind, bound);
  const all = Object.entries(parameters).filter(([name]) => !(name in implied));
  let fewest = all;
  // The pool may have grown before or after the store was made.
  const atFirst = sizes.regionBytes * sizes.regionsMax;
  for (let size = bytesMax; size >= atFirst; size -= stripe * sizes.regionBytes) {
    const bytes = bytesFor(kind, size, bound);
    let chosen = all;
    for (const one of all) {
      const others = chosen.filter((other) => other !== one);
      const wishes = { ...Object.fromEntries(others), ...implied };
      const made = kind.parameters(wishes, bytes, 0, stripe);
      if (all.every(([name, value]) => made[name] === value)) chosen = others;
    }
    if (chosen.length < fewest.length) fewest = chosen;
  }
  return shownParameters(kind, Object.fromEntries(fewest));
}

function refuseOtherKind(entry: CatalogEntry, { kind }: IndexWish): void {
  const [is, wanted] = [kindOf(entry), kind].map(({ manifest }) => manifest.name);
  if (wanted !== is) throw mismatch(entry.name, `the index ${is}`, wanted);
}

function mismatch(store: string, is: string, wanted: unknown): StepwellError {
  const message = `store ${store} exists with ${is}, not ${wanted}`;
  return new StepwellError('SW_STORE_MISMATCH', message);
}

function refuseOtherParameters({ name: store, parameters: packed }: CatalogEntry, wish: IndexWish) {
  const { kind, wishes } = wish;
  const parameters = unpackParameters(kind, packed);
  const differs = (name: string) => wishes[name] !== undefined && wishes[name] !== parameters[name];
  const name = Object.keys(wishes).find(differs);
  if (name === undefined) return;
  const is = shownParameters(kind, parameters)[name];
  const wanted = shownParameters(kind, { [name]: Number(wishes[name]) })[name];
  throw mismatch(store, `${name} ${is}`, wanted);
}
