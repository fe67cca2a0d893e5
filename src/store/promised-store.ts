import type {
  AsyncStore,
  Entry,
  Key,
  Page,
  PoolHandle,
  Store,
  StoreStats,
  Value,
  WriteCondition,
  WriteResult,
} from './api.ts';

/**
 * The names of a store, returning promises. On shared memory a verb takes nanoseconds, so the
 * operation runs at once, on the caller's stack, and its outcome is handed over as a promise; a
 * fabric with real latencies has a store of its own.
 */
export class PromisedStore<V extends Value> implements AsyncStore<V> {
  readonly sync: Store<V>;

  constructor(store: Store<V>) {
    this.sync = store;
  }

  get name(): string {
    return this.sync.name;
  }

  get url(): string {
    return this.sync.url;
  }

  get handle(): PoolHandle {
    return this.sync.handle;
  }

  async get(key: Key): Promise<V | undefined> {
    return this.sync.get(key);
  }

  async getEntry(key: Key): Promise<Entry<V> | undefined> {
    return this.sync.getEntry(key);
  }

  async has(key: Key): Promise<boolean> {
    return this.sync.has(key);
  }

  async put(key: Key, value: Value): Promise<void> {
    this.sync.put(key, value);
  }

  async insert(key: Key, value: Value): Promise<boolean> {
    return this.sync.insert(key, value);
  }

  async update(key: Key, value: Value): Promise<boolean> {
    return this.sync.update(key, value);
  }

  async write(
    key: Key,
    value: Value,
    options?: { when?: WriteCondition; previous?: boolean },
  ): Promise<WriteResult<V>> {
    return this.sync.write(key, value, options);
  }

  async delete(key: Key): Promise<boolean> {
    return this.sync.delete(key);
  }

  async take(key: Key): Promise<V | undefined> {
    return this.sync.take(key);
  }

  async compareAndSet(key: Key, version: number, value: Value): Promise<number | undefined> {
    return this.sync.compareAndSet(key, version, value);
  }

  increment(key: Key, by?: number): Promise<number>;
  increment(key: Key, by: bigint): Promise<bigint>;
  async increment(key: Key, by: number | bigint = 1): Promise<number | bigint> {
    return this.sync.increment(key, by as number);
  }

  async getMany(keys: readonly Key[]): Promise<(V | undefined)[]> {
    return this.sync.getMany(keys);
  }

  async putMany(entries: Iterable<readonly [Key, Value]>): Promise<void> {
    this.sync.putMany(entries);
  }

  async deleteMany(keys: readonly Key[]): Promise<number> {
    return this.sync.deleteMany(keys);
  }

  async read<T>(key: Key, use: (bytes: Uint8Array) => T): Promise<T | undefined> {
    return this.sync.read(key, use);
  }

  async *entries(): AsyncIterableIterator<[Key, V]> {
    yield* this.sync.entries();
  }

  async *keys(): AsyncIterableIterator<Key> {
    yield* this.sync.keys();
  }

  async *values(): AsyncIterableIterator<V> {
    yield* this.sync.values();
  }

  [Symbol.asyncIterator](): AsyncIterableIterator<[Key, V]> {
    return this.entries();
  }

  async scan(cursor: number, count?: number): Promise<Page<V>> {
    return this.sync.scan(cursor, count);
  }

  async size(): Promise<number> {
    return this.sync.size;
  }

  async clear(): Promise<void> {
    this.sync.clear();
  }

  async stats(): Promise<StoreStats> {
    return this.sync.stats();
  }

  async close(): Promise<void> {
    this.sync.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.sync.close();
  }
}
