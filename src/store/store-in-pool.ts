import { basename } from 'node:path';
import { StepwellError } from '../errors.ts';
import type { Index, IndexKind } from '../indexes/contract.ts';
import { createStore, delegate, kindNamed, kindOf, openIndex } from '../indexes/kinds.ts';
import { type CatalogEntry, STORE_NAME_BYTES } from '../pool/catalog.ts';
import { CLIENT_NAME_BYTES } from '../pool/clients/membership.ts';
import type { OpenStore } from '../pool/open-stores.ts';
import type { Pool } from '../pool/pool.ts';
import type { Operation } from '../verbs/index.ts';
import type { OpenOptions } from './api.ts';
import { invalid, shown } from './calls/arguments.ts';
import { checkOpenOptions } from './option-names.ts';

/** Each further one means that another client has dropped the store that was made. */
const MAKES_MAX = 10;

export function checkClientOptions(options: OpenOptions): void {
  checkOpenOptions(options);
  clientName(options);
  for (const key of ['keys', 'values'] as const) {
    const encoding = options[key] ?? 'auto';
    if (encoding === 'auto' || encoding === 'utf8' || encoding === 'bytes') continue;
    throw invalid(`${key} is auto, utf8 or bytes: ${shown(encoding)}`);
  }
  const { delegation = false } = options;
  if (typeof delegation === 'boolean') return;
  throw invalid(`delegation is true or false: ${shown(delegation)}`);
}

export function clientName({ client }: OpenOptions): string {
  if (client !== undefined && typeof client !== 'string') {
    throw new StepwellError('SW_INVALID_ARGUMENT', 'a client name is a string');
  }
  const name = client ?? basename(process.argv[1] ?? 'node');
  return Buffer.from(name).subarray(0, CLIENT_NAME_BYTES).toString('utf8');
}

/** A store that is open, until `pool.stores.close`. */
export interface StoreInPool {
  store: OpenStore;
  index: Index;
}

/**
 * Finds or creates the store that the options name, and opens its index, unless the client has it
 * open and `known` tells which it is.
 */
export function* openStore(
  pool: Pool,
  options: OpenOptions,
  known: (store: OpenStore) => Index | undefined = () => undefined,
): Operation<StoreInPool> {
  const name = checkStoreName(options.store ?? 'default');
  const { entry, store } = yield* findOrMake(pool, name, options);
  try {
    refuseOtherKind(entry, options.index);
    const index = known(store) ?? (yield* openIndex(pool, entry));
    refuseOtherShape(entry.name, index, options);
    if (options.delegation) refuseAlone(entry.name, index, delegate(index));
    return { store, index };
  } catch (error) {
    pool.stores.close(store);
    throw error;
  }
}

/** Raises SW_INVALID_ARGUMENT. */
export function checkStoreName(name: unknown): string {
  const valid = typeof name === 'string' && name !== '' && name.isWellFormed();
  if (!valid || Buffer.byteLength(name) > STORE_NAME_BYTES) {
    throw new StepwellError('SW_INVALID_ARGUMENT', `a store name has 1..${STORE_NAME_BYTES} bytes`);
  }
  return name;
}

function* findOrMake(
  pool: Pool,
  name: string,
  options: OpenOptions,
): Operation<{ entry: CatalogEntry; store: OpenStore }> {
  // What a new store would be like is looked at also when the store is there.
  const make = options.create === false ? undefined : makerOf(pool, name, options);
  for (let attempt = 0; attempt < MAKES_MAX; attempt++) {
    const found = yield* pool.stores.open(name);
    if (found !== undefined) return found;
    if (make === undefined) throw new StepwellError('SW_STORE_NOT_FOUND', `no store ${name}`);
    // What is left of dropped stores is for new ones, unless a client that is gone still holds it.
    yield* pool.recovering(() => true);
    const made = yield* make();
    const opened = yield* pool.stores.open(name);
    if (opened?.entry.id !== made.id) pool.stores.abandon(made.id);
    if (opened !== undefined) return opened;
  }
  throw new StepwellError('SW_CONTENTION', `store ${name} is dropped again and again`);
}

function makerOf(pool: Pool, name: string, options: OpenOptions): () => Operation<CatalogEntry> {
  const kind = kindNamed(options.index ?? 'race');
  const { regionBytes, regionsMax } = pool.layout.parameters;
  const seed = Math.floor(Math.random() * 2 ** 32);
  const wishes = wishesFor(kind.manifest.name, options);
  refuseUnknown(kind, wishes);
  const { stripe } = pool.layout;
  const parameters = kind.parameters(wishes, regionBytes * regionsMax, seed, stripe);
  return () => createStore(pool, name, kind, parameters);
}

/** What the options say about the parameters of an index of this name. */
function wishesFor(
  name: string,
  options: OpenOptions,
): Readonly<Record<string, number | undefined>> {
  return (options as Record<string, Record<string, number> | undefined>)[name] ?? {};
}

/** A mistyped parameter would otherwise leave the default in place for ever. */
function refuseUnknown({ manifest, parameterNames }: IndexKind, wishes: object): void {
  const unknown = Object.keys(wishes).find((name) => !parameterNames.includes(name));
  if (unknown === undefined) return;
  const names = parameterNames.filter((name) => name !== 'seed').join(', ');
  throw new StepwellError(
    'SW_INVALID_ARGUMENT',
    `the index ${manifest.name} has no parameter ${unknown}; there is ${names}`,
  );
}

function refuseAlone(store: string, { manifest }: Index, delegates: boolean): void {
  if (delegates) return;
  const why = `store ${store} has the index ${manifest.name}, which has no delegation`;
  throw new StepwellError('SW_UNSUPPORTED', `${why}; shard, chime and hopscotch have`);
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
