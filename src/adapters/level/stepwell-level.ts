import {
  type AbstractDatabaseOptions,
  AbstractIterator,
  AbstractKeyIterator,
  AbstractLevel,
  AbstractValueIterator,
} from 'abstract-level';
import { StepwellError } from '../../errors.ts';
import type { ChimeParameters, OpenOptions, PoolHandle, Store, Value } from '../../store/api.ts';
import { openSync } from '../../store/open.ts';
import { poolOf } from '../../store/places/pool-place.ts';
import { type Data, type Format, fromStore, toStore } from './formats.ts';
import { drive, type IteratorOptions, keys, pairs, values } from './iterators.ts';
import { type LevelRange, rangeOf } from './ranges.ts';

/** Which store, and how it is made when it does not exist; see `OpenOptions`. */
export interface StepwellLevelOptions<K, V>
  extends AbstractDatabaseOptions<K, V>,
    Pick<OpenOptions, 'store' | 'size' | 'regionSize' | 'maxClients' | 'client'> {
  /** Parameters of a store that is created. */
  chime?: ChimeParameters;
}

type StoreOptions = Omit<
  StepwellLevelOptions<never, never>,
  keyof AbstractDatabaseOptions<never, never>
>;

interface Encodings {
  keyEncoding: Format;
  valueEncoding: Format;
}

type BatchOperation = { type: 'put'; key: Data; value: Data } | { type: 'del'; key: Data };

/**
 * A store on the ordered index behind the interface of abstract-level (https://github.com/Level),
 * so that whatever is written for `level` runs on a store that many processes share.
 *
 * What it declares of itself (`db.supports`):
 * - `implicitSnapshots` and `explicitSnapshots` false: an iterator sees each key that is present
 *   throughout exactly once, with a value current at some moment, but no moment of the whole store.
 * - `atomicBatch` false (a property of this adapter): a batch is its operations one after the
 *   other. Each is atomic; others may see some of them done and others not, and when one fails, or
 *   the process dies, those before it stay. Operations on one key keep their order.
 * - `permanence` false for `memory:` pools, which live as long as this object or another client.
 *
 * Errors of the store are StepwellErrors with their own codes (SW_POOL_FULL, …); those of the
 * interface have abstract-level's (LEVEL_DATABASE_NOT_OPEN, …), with the store's as `cause`.
 */
export class StepwellLevel<K = string, V = string> extends AbstractLevel<
  string | Buffer | Uint8Array,
  K,
  V
> {
  readonly #location: string | PoolHandle;
  /** Where the store is found again: a `memory:` pool lives while its handle is held. */
  #handle: PoolHandle | undefined;
  #open: Store<Value> | undefined;

  /**
   * @param location `shm:NAME`, `file:PATH`, `memory:`, or the `handle` of an open pool. It is
   *   opened when first used, or by `open()`.
   */
  constructor(location: string | PoolHandle, options?: StepwellLevelOptions<K, V>) {
    super(manifestOf(location), options as AbstractDatabaseOptions<K, V>);
    this.#location = location;
    if (location !== 'memory:') this.#handle = location;
  }

  get location(): string | PoolHandle {
    return this.#location;
  }

  /** The store below, while the database is open. Raises SW_CLOSED. */
  get store(): Store<Value> {
    if (this.#open !== undefined) return this.#open;
    throw new StepwellError('SW_CLOSED', 'the database is not open');
  }

  /** @internal */
  async _open(
    options: StoreOptions & { createIfMissing: boolean; errorIfExists: boolean },
  ): Promise<void> {
    const { createIfMissing, errorIfExists } = options;
    const { store = this.#store, chime, size, regionSize, maxClients, client } = options;
    const index = { kind: 'chime', ...chime } as const;
    const wanted = { store, index, size, regionSize, maxClients, client };
    const existing = this.#find(wanted);
    if (existing !== undefined && errorIfExists) {
      existing.close();
      throw new StepwellError('SW_POOL_EXISTS', `store ${store} exists at ${this.#name}`);
    }
    if (existing === undefined && !createIfMissing) {
      throw new StepwellError(
        'SW_STORE_NOT_FOUND',
        `store ${store} at ${this.#name} does not exist`,
      );
    }
    this.#open = existing ?? openSync(this.#location, wanted);
    this.#handle = this.#open.handle;
  }

  #find(wanted: OpenOptions): Store<Value> | undefined {
    if (this.#handle === undefined) return undefined;
    try {
      return openSync(this.#handle, { ...wanted, create: false });
    } catch (error) {
      const { code } = error as StepwellError;
      if (code === 'SW_POOL_NOT_FOUND' || code === 'SW_STORE_NOT_FOUND') return undefined;
      throw error;
    }
  }

  /** The store that is opened when the options name none. */
  get #store(): string {
    const place = this.#location;
    return (typeof place === 'object' ? place.store : undefined) ?? 'default';
  }

  get #name(): string {
    const pool = poolOf(this.#location);
    return typeof pool === 'string' ? pool : 'memory:';
  }

  /** @internal */
  async _close(): Promise<void> {
    this.#open?.close();
    this.#open = undefined;
  }

  /** @internal */
  async _get(key: Data, options: Encodings): Promise<Data | undefined> {
    return this._getSync(key, options);
  }

  /** @internal */
  _getSync(key: Data, { valueEncoding }: Encodings): Data | undefined {
    const value = this.store.get(toStore(key));
    return value === undefined ? undefined : fromStore(value, valueEncoding);
  }

  /** @internal */
  async _getMany(keys: Data[], { valueEncoding }: Encodings): Promise<(Data | undefined)[]> {
    return this.store
      .getMany(keys.map(toStore))
      .map((value) => (value === undefined ? undefined : fromStore(value, valueEncoding)));
  }

  /** @internal */
  async _has(key: Data): Promise<boolean> {
    return this.store.has(toStore(key));
  }

  /** @internal */
  async _hasMany(keys: Data[]): Promise<boolean[]> {
    return keys.map((key) => this.store.has(toStore(key)));
  }

  /** @internal */
  async _put(key: Data, value: Data): Promise<void> {
    this.store.set(toStore(key), toStore(value));
  }

  /** @internal */
  async _del(key: Data): Promise<void> {
    this.store.delete(toStore(key));
  }

  /**
   * Runs of the same type go together; a later operation on a key wins over an earlier one.
   *
   * @internal
   */
  async _batch(operations: BatchOperation[]): Promise<void> {
    let puts: [Data, Data][] = [];
    let deletions: Data[] = [];
    const flush = () => {
      if (puts.length > 0) this.store.setMany(puts);
      if (deletions.length > 0) this.store.deleteMany(deletions);
      puts = [];
      deletions = [];
    };
    for (const operation of operations) {
      const isPut = operation.type === 'put';
      if (isPut ? deletions.length > 0 : puts.length > 0) flush();
      if (isPut) puts.push([toStore(operation.key), toStore(operation.value)]);
      else deletions.push(toStore(operation.key));
    }
    flush();
  }

  /** @internal */
  async _clear(range: LevelRange): Promise<void> {
    this.store.clear(rangeOf(range));
  }

  /** @internal */
  _iterator(options: IteratorOptions): AbstractIterator<this, K, V> {
    const source = pairs(this.store.async, options);
    return drive(new AbstractIterator(this, options as object), source);
  }

  /** @internal */
  _keys(options: IteratorOptions): AbstractKeyIterator<this, K> {
    const source = keys(this.store.async, options);
    return drive(new AbstractKeyIterator(this, options as object), source);
  }

  /** @internal */
  _values(options: IteratorOptions): AbstractValueIterator<this, K, V> {
    const source = values(this.store.async, options);
    return drive(new AbstractValueIterator(this, options as object), source);
  }
}

function manifestOf(location: unknown) {
  const isHandle = typeof location === 'object' && location !== null;
  if (!isHandle && (typeof location !== 'string' || location === '')) {
    throw new StepwellError('SW_INVALID_URL', 'the location is a pool URL or a handle');
  }
  const outlives = location !== 'memory:' && !isHandle;
  return {
    encodings: { utf8: true, buffer: true, view: true },
    has: true,
    getSync: true,
    seek: true,
    createIfMissing: true,
    errorIfExists: true,
    implicitSnapshots: false,
    explicitSnapshots: false,
    atomicBatch: false,
    permanence: outlives,
    signals: { iterators: true },
  };
}
