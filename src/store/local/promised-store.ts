import { type InspectOptions, inspect } from 'node:util';
import type {
  AsyncStore,
  Entry,
  Key,
  KeyPage,
  Page,
  PoolHandle,
  Store,
  StoreStats,
  Value,
  WriteCondition,
  WriteResult,
} from '../api.ts';
import { isRange } from '../calls/key-range.ts';
import { gathered, type SortedEntries } from '../calls/sorted-load.ts';
import type { AsyncScan, RangeBounds, RangeOptions, ScanOptions } from '../ordered-api.ts';
import { PromisedScan } from './promised-scan.ts';

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

  async compareAndDelete(key: Key, version: number): Promise<boolean> {
    return this.sync.compareAndDelete(key, version);
  }

  increment(key: Key, by?: number): Promise<number>;
  increment(key: Key, by: bigint): Promise<bigint>;
  async increment(key: Key, by: number | bigint = 1): Promise<number | bigint> {
    return this.sync.increment(key, by as number);
  }

  async getMany(keys: readonly Key[], options?: { maxBytes?: number }): Promise<(V | undefined)[]> {
    return this.sync.getMany(keys, options);
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

  entries(): AsyncIterableIterator<[Key, V]>;
  entries(range: ScanOptions): AsyncScan<[Key, V]>;
  entries(range?: ScanOptions): AsyncIterableIterator<[Key, V]> {
    if (range === undefined) return promised(this.sync.entries());
    return new PromisedScan(this.sync.entries(range));
  }

  keys(): AsyncIterableIterator<Key>;
  keys(range: ScanOptions): AsyncScan<Key>;
  keys(range?: ScanOptions): AsyncIterableIterator<Key> {
    if (range === undefined) return promised(this.sync.keys());
    return new PromisedScan(this.sync.keys(range));
  }

  values(): AsyncIterableIterator<V>;
  values(range: ScanOptions): AsyncScan<V>;
  values(range?: ScanOptions): AsyncIterableIterator<V> {
    if (range === undefined) return promised(this.sync.values());
    return new PromisedScan(this.sync.values(range));
  }

  [Symbol.asyncIterator](): AsyncIterableIterator<[Key, V]> {
    return this.entries();
  }

  scan(range?: ScanOptions): AsyncScan<[Key, V]>;
  scan(cursor: number, count?: number): Promise<Page<V>>;
  scan(from: ScanOptions | number = {}, count?: number): AsyncScan<[Key, V]> | Promise<Page<V>> {
    return isRange(from) ? new PromisedScan(this.sync.scan(from)) : this.#page(from, count);
  }

  async #page(cursor: number, count?: number): Promise<Page<V>> {
    return this.sync.scan(cursor, count);
  }

  async scanKeys(cursor: number, count?: number, options?: { prefix?: Key }): Promise<KeyPage> {
    return this.sync.scanKeys(cursor, count, options);
  }

  async first(bounds?: RangeBounds): Promise<Entry<V> | undefined> {
    return this.sync.first(bounds);
  }

  async last(bounds?: RangeBounds): Promise<Entry<V> | undefined> {
    return this.sync.last(bounds);
  }

  async count(bounds?: RangeBounds): Promise<number> {
    return this.sync.count(bounds);
  }

  async loadSorted(entries: SortedEntries): Promise<number> {
    return this.sync.loadSorted(await gathered(entries));
  }

  async size(): Promise<number> {
    return this.sync.size;
  }

  async clear(range?: RangeOptions): Promise<void> {
    this.sync.clear(range);
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

  [inspect.custom](_depth: number, options: InspectOptions): string {
    return `Async${inspect(this.sync, options)}`;
  }
}

async function* promised<T>(items: Iterable<T>): AsyncIterableIterator<T> {
  yield* items;
}
