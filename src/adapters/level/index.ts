import {
  type AbstractDatabaseOptions,
  AbstractIterator,
  AbstractKeyIterator,
  AbstractLevel,
  AbstractValueIterator,
} from 'abstract-level';
import { StepwellError } from '../../errors.ts';
import type {
  AsyncStore,
  ChimeParameters,
  Key,
  OpenOptions,
  PoolHandle,
  Store,
  Value,
} from '../../store/api.ts';
import { openSync } from '../../store/open.ts';
import type { AsyncScan, RangeOptions } from '../../store/ordered-api.ts';
import { poolOf } from '../../store/places/pool-place.ts';

/** Which store, and how to create it if it does not exist; see `OpenOptions`. */
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
 * so that code written for `level` runs on a store that many processes share.
 *
 * Its capabilities (`db.supports`):
 * - `implicitSnapshots` and `explicitSnapshots` false: an iterator sees each key that is present
 *   throughout exactly once, with a value from some moment of the scan: not a consistent cut.
 * - `atomicBatch` false (a property of this adapter): a batch runs its operations in sequence. Each
 *   is atomic, but other clients can see half a batch, and if an operation fails or the process
 *   dies, the earlier ones stay. Operations on one key keep their order.
 * - `permanence` false for `memory:` pools, which live as long as this object or another client.
 *
 * The store raises StepwellErrors with their own codes (SW_POOL_FULL, …). The interface raises
 * abstract-level's (LEVEL_DATABASE_NOT_OPEN, …), with the store's error as `cause`.
 */
export class StepwellLevel<K = string, V = string> extends AbstractLevel<
  string | Buffer | Uint8Array,
  K,
  V
> {
  readonly #location: string | PoolHandle;
  /** Reopens the same store: a `memory:` pool lives while its handle is held. */
  #handle: PoolHandle | undefined;
  #open: Store<Value> | undefined;

  /**
   * @param location `shm:NAME`, `file:PATH`, `memory:`, or the `handle` of an open pool. It is
   *   opened on first use, or by `open()`.
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

  /** The store to open if the options name none. */
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
   * Executes each run of puts or deletions as one call, so operations on a key keep their order.
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

/** What abstract-level hands to the private methods that make iterators. */
interface IteratorOptions extends LevelRange {
  keys: boolean;
  values: boolean;
  keyEncoding: Format;
  valueEncoding: Format;
  signal?: AbortSignal;
}

type Pair = [key: Data | undefined, value: Data | undefined];

/**
 * A scan with its items converted for abstract-level. It starts before the iterator is constructed:
 * the base class registers the iterator with its database, which must then close it.
 */
interface Source<To> {
  next(): Promise<To | undefined>;
  nextMany(size: number): Promise<To[]>;
  seek(target: Data): void;
  close(): Promise<unknown>;
}

/** Also checks the signal after each read: abstract-level checks it only before. */
function source<From, To>(
  scan: AsyncScan<From>,
  signal: AbortSignal | undefined,
  convert: (from: From) => To,
): Source<To> {
  return {
    async next() {
      const { done, value } = await scan.next();
      if (signal?.aborted) throw new AbortError();
      return done ? undefined : convert(value);
    },
    async nextMany(size) {
      const found = await scan.nextMany(size);
      if (signal?.aborted) throw new AbortError();
      return found.map(convert);
    },
    seek: (target) => scan.seek(toStore(target)),
    close: () => scan.return(),
  };
}

/** abstract-level's error for an aborted operation, which it does not export. */
class AbortError extends Error {
  override readonly name = 'AbortError';
  readonly code = 'LEVEL_ABORTED';

  constructor() {
    super('Operation has been aborted');
  }
}

/** A source of entries; it reads no values if the caller wants none. */
function pairs(store: AsyncStore<Value>, options: IteratorOptions): Source<Pair> {
  const { signal, keyEncoding, valueEncoding } = options;
  const range = rangeOf(options);
  const key = (data: Key) => fromStore(data, keyEncoding);
  const value = (data: Value) => fromStore(data, valueEncoding);
  if (!options.values) return source(store.keys(range), signal, (k) => [key(k), undefined]);
  if (!options.keys) return source(store.values(range), signal, (v) => [undefined, value(v)]);
  return source(store.scan(range), signal, ([k, v]) => [key(k), value(v)]);
}

function keys(store: AsyncStore<Value>, options: IteratorOptions): Source<Data> {
  const { keyEncoding, signal } = options;
  return source(store.keys(rangeOf(options)), signal, (key) => fromStore(key, keyEncoding));
}

function values(store: AsyncStore<Value>, options: IteratorOptions): Source<Data> {
  const { valueEncoding, signal } = options;
  return source(store.values(rangeOf(options)), signal, (data) => fromStore(data, valueEncoding));
}

/** Makes the iterator return the source's items. */
function drive<I extends object, To>(iterator: I, source: Source<To>): I {
  return Object.assign(iterator, {
    _next: () => source.next(),
    _nextv: (size: number) => source.nextMany(size),
    _seek: (target: Data) => source.seek(target),
    _close: () => source.close(),
  });
}

/** A range as abstract-level passes it to a database; a limit of -1 means no limit. */
interface LevelRange {
  gte?: Data;
  gt?: Data;
  lte?: Data;
  lt?: Data;
  reverse: boolean;
  limit: number;
}

/** If both are given, the inclusive bound wins, as in other databases behind this interface. */
function rangeOf({ gte, gt, lte, lt, reverse, limit }: LevelRange): RangeOptions {
  const range: RangeOptions = { reverse, limit: limit < 0 ? Number.POSITIVE_INFINITY : limit };
  if (gte !== undefined) range.gte = toStore(gte);
  else if (gt !== undefined) range.gt = toStore(gt);
  if (lte !== undefined) range.lte = toStore(lte);
  else if (lt !== undefined) range.lt = toStore(lt);
  return range;
}

/** How abstract-level passes data: as text, a Buffer or a Uint8Array. */
type Format = 'utf8' | 'buffer' | 'view';
type Data = string | Uint8Array;

/**
 * Replaces each lone surrogate by U+FFFD, as other databases behind this interface do; the store
 * would refuse such text.
 */
function toStore(data: Data): Data {
  return typeof data !== 'string' || data.isWellFormed() ? data : data.toWellFormed();
}

/** A key or value of the store in the requested format; not copied if it has that format. */
function fromStore(data: Key | Value, format: Format): Data {
  if (format === 'utf8') return typeof data === 'string' ? data : asBuffer(data).toString('utf8');
  if (typeof data === 'string') return Buffer.from(data);
  return format === 'buffer' ? asBuffer(data) : data;
}

function asBuffer({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength);
}
