import { invariant, StepwellError } from '../errors.ts';
import { type BoundSettings, makeBound } from '../pool/bound.ts';
import type { CatalogEntry, Made } from '../pool/catalog.ts';
import type { Pool } from '../pool/pool.ts';
import type { Operation } from '../verbs/index.ts';
import { CHIME } from './chime/chime.ts';
import type { Index, IndexKind, IndexManifest, IndexParameters } from './contract.ts';
import { HOPSCOTCH } from './hopscotch/hopscotch.ts';
import { HSTORE } from './hstore/hstore.ts';
import { OWN_KINDS } from './own-kinds.ts';
import { RACE } from './race/race.ts';
import { SEPHASH } from './sephash/sephash.ts';
import { SHARD } from './shard/shard.ts';

/** Functions: an index is loaded when its kind is first used (LAZY in scripts/bundle.ts). */
const KINDS: Readonly<Record<string, () => IndexKind>> = {
  race: () => RACE,
  sephash: () => SEPHASH,
  shard: () => SHARD,
  chime: () => CHIME,
  hstore: () => HSTORE,
  hopscotch: () => HOPSCOTCH,
};

/** Every kind of index that a store can have. */
export const INDEX_KINDS: readonly IndexKind[] = [
  ...Object.values(KINDS).map(onFirstUse),
  ...OWN_KINDS,
];

export const INDEX_NAMES: readonly string[] = [
  ...Object.keys(KINDS),
  ...OWN_KINDS.map(({ manifest }) => manifest.name),
];

function onFirstUse(kind: () => IndexKind): IndexKind {
  return {
    get manifest() {
      return kind().manifest;
    },
    get parameterNames() {
      return kind().parameterNames;
    },
    get flags() {
      return kind().flags;
    },
    parameters: (...wishes) => kind().parameters(...wishes),
    create: (pool, parameters, catalog) => kind().create(pool, parameters, catalog),
    open: (pool, parameters, catalog, root) => kind().open(pool, parameters, catalog, root),
  };
}

/** Raises SW_INVALID_ARGUMENT for a name that no index has. */
export function kindNamed(name: string): IndexKind {
  const kind = knownKind(name);
  if (kind) return kind;
  const why = `no index is called ${name}; there is ${INDEX_NAMES.join(', ')}`;
  throw new StepwellError('SW_INVALID_ARGUMENT', why);
}

/** Undefined for the index of a later version, or of another build. */
export function knownKind(name: string): IndexKind | undefined {
  return INDEX_KINDS[INDEX_NAMES.indexOf(name)];
}

/** Raises SW_UNSUPPORTED for a store whose index this program does not have. */
export function kindOf({ kind: name, name: store }: Pick<CatalogEntry, 'kind' | 'name'>) {
  const kind = knownKind(name);
  if (kind) return kind;
  const why = `store ${store} has the index ${name}, which this program does not have`;
  const remedy = 'use the version of Stepwell, or the build --with that index, that made the store';
  throw new StepwellError('SW_UNSUPPORTED', `${why}; ${remedy}`);
}

/** The parameters of an index as the catalog keeps them, and back. */
export function packParameters(kind: IndexKind, parameters: IndexParameters): number[] {
  return kind.parameterNames.map((name) => parameters[name]);
}

export function unpackParameters(kind: IndexKind, packed: readonly number[]): IndexParameters {
  return Object.fromEntries(kind.parameterNames.map((name, i) => [name, packed[i]]));
}

/** As `findOrCreateStore`, without whether the store is new. */
export function* createStore(
  pool: Pool,
  name: string,
  kind: IndexKind,
  parameters: IndexParameters,
): Operation<CatalogEntry> {
  return (yield* findOrCreateStore(pool, name, kind, parameters)).entry;
}

/** Finds the store `name`, or creates it with an index of this kind, and maybe with a bound. */
export function findOrCreateStore(
  pool: Pool,
  name: string,
  kind: IndexKind,
  parameters: IndexParameters,
  bound?: BoundSettings,
): Operation<Made> {
  const { catalog, allocator, membership, stores } = pool;
  const { clientsMax } = membership;
  return catalog.findOrCreate(
    name,
    kind.manifest.name,
    packParameters(kind, parameters),
    (id) => stores.making(id, () => kind.create(pool, parameters, id)),
    bound && ((id) => stores.making(id, () => makeBound(allocator, clientsMax, id, bound))),
  );
}

/** Opens the index of a store. */
export function* openIndex(pool: Pool, entry: CatalogEntry): Operation<Index> {
  const kind = kindOf(entry);
  const parameters = unpackParameters(kind, entry.parameters);
  // A store that was made since the pool was raised may have parameters for a larger one.
  yield* pool.chunks.learnMaximum();
  refuseDamaged(pool, kind, parameters, entry.name);
  refuseBlind(pool, kind.manifest);
  return yield* kind.open(pool, parameters, entry.id, entry.root);
}

/** Raises SW_UNSUPPORTED. */
export function refuseBlind({ membership }: Pool, { name, locks }: IndexManifest): void {
  const { blindness } = membership;
  if (!locks || blindness === undefined) return;
  const why = `the lock of a client that died would stay, because ${blindness}`;
  throw new StepwellError('SW_UNSUPPORTED', `the index ${name} cannot be used here: ${why}`);
}

/**
 * Parameters tell how large tables and buffers are: those of the catalog are believed only where a
 * creator could have asked for them. Raises SW_POOL_CORRUPT.
 */
function refuseDamaged(pool: Pool, kind: IndexKind, parameters: IndexParameters, store: string) {
  const { bytesMax: bytes, stripe } = pool.layout;
  try {
    const made = kind.parameters(parameters, bytes, parameters.seed, stripe);
    const isSame = kind.parameterNames.every((name) => made[name] === parameters[name]);
    invariant(isSame, `the parameters of store ${store} contradict one another`);
  } catch (cause) {
    const why = `the catalog's parameters of store ${store} are damaged`;
    throw new StepwellError('SW_POOL_CORRUPT', why, { cause });
  }
}
