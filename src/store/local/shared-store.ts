import { type InspectOptions, inspect } from 'node:util';
import { StepwellError } from '../../errors.ts';
import {
  ALWAYS,
  type Condition,
  IF_ABSENT,
  IF_PRESENT,
  IF_VERSION,
  type Index,
  type Outcome,
  REFUSED,
  REPLACED,
} from '../../indexes/contract.ts';
import type { Request } from '../../indexes/substrates/request.ts';
import type { OpenStore } from '../../pool/open-stores.ts';
import type { Pool } from '../../pool/pool.ts';
import type { Operation } from '../../verbs/index.ts';
import { storeStats } from '../administration/statistics.ts';
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
import {
  checkCallback,
  checkIncrement,
  conditionOf,
  maxBytesIn,
  prefixIn,
  versionOf,
} from '../calls/arguments.ts';
import { decodeValue } from '../calls/decoding.ts';
import { FirstVersions } from '../calls/first-versions.ts';
import { FullPool } from '../calls/full-pool.ts';
import { checkRange, parseInteger } from '../calls/integers.ts';
import { isRange } from '../calls/key-range.ts';
import { checkKeys, eachEntry, KEPT_REQUEST_BYTES, ManyKeys } from '../calls/many-keys.ts';
import { OrderedCalls } from '../calls/ordered-calls.ts';
import { checkPage, PageOfWalk, RecordWalk, WalkIterator } from '../calls/record-walk.ts';
import { sortedLoad } from '../calls/sorted-load.ts';
import { inspected } from '../inspected.ts';
import type { RangeBounds, RangeOptions, Scan, ScanOptions } from '../ordered-api.ts';
import type { StoreSettings } from '../store-settings.ts';
import { PromisedStore } from './promised-store.ts';

/** The store on a fabric whose verbs finish at once: every call runs its operation to the end. */
export class SharedStore<V extends Value> implements Store<V> {
  readonly #pool: Pool;
  readonly #index: Index;
  readonly #store: OpenStore;
  readonly #settings: StoreSettings;
  /** The request that the last call used; calls nest only inside a read's callback. */
  #idle: Request | undefined;
  readonly #many: ManyKeys<V>;
  readonly #ordered: OrderedCalls<V>;
  readonly #full: FullPool;
  readonly #versions = new FirstVersions();
  #promised: PromisedStore<V> | undefined;
  #closed = false;

  constructor(pool: Pool, index: Index, store: OpenStore, settings: StoreSettings) {
    [this.#pool, this.#index, this.#store] = [pool, index, store];
    this.#full = new FullPool(pool, index);
    this.#settings = settings;
    this.#many = new ManyKeys(pool, index, {
      enter: () => this.#enter(),
      foundValue: (request) => this.#foundValue(request),
    });
    this.#ordered = new OrderedCalls(index, settings, {
      refuseClosed: () => this.#refuseClosed(),
      runOne: (operation) => this.#runOne(operation),
    });
  }

  get name(): string {
    return this.#settings.name;
  }

  get url(): string {
    return this.#settings.url;
  }

  get handle(): PoolHandle {
    return this.#settings.handle;
  }

  get async(): AsyncStore<V> {
    this.#promised ??= new PromisedStore<V>(this);
    return this.#promised;
  }

  get(key: Key): V | undefined {
    const request = this.#begin(key);
    try {
      if (!this.#search(request)) return undefined;
      return this.#foundValue(request);
    } finally {
      this.#end(request);
    }
  }

  getEntry(key: Key): Entry<V> | undefined {
    const request = this.#begin(key);
    try {
      if (!this.#search(request)) return undefined;
      return { key, value: this.#foundValue(request), version: request.foundVersion };
    } finally {
      this.#end(request);
    }
  }

  has(key: Key): boolean {
    const request = this.#begin(key);
    try {
      return this.#search(request);
    } finally {
      this.#end(request);
    }
  }

  put(key: Key, value: Value): void {
    this.#write(key, value, ALWAYS, 0, false);
  }

  insert(key: Key, value: Value): boolean {
    return this.#write(key, value, IF_ABSENT, 0, false).written;
  }

  update(key: Key, value: Value): boolean {
    return this.#write(key, value, IF_PRESENT, 0, false).written;
  }

  write(
    key: Key,
    value: Value,
    options: { when?: WriteCondition; previous?: boolean } = {},
  ): WriteResult<V> {
    const { condition, previous } = conditionOf(options);
    const { written, previous: found } = this.#write(key, value, condition, 0, previous);
    return { written, previous: found };
  }

  compareAndSet(key: Key, version: number, value: Value): number | undefined {
    const expected = versionOf(version);
    const { written, version: stored } = this.#write(key, value, IF_VERSION, expected, false);
    return written ? stored : undefined;
  }

  compareAndDelete(key: Key, version: number): boolean {
    return this.#remove(key, () => true, versionOf(version)) ?? false;
  }

  #write(key: Key, value: Value, condition: Condition, expected: number, wantsPrevious: boolean) {
    return this.#full.retry(() => {
      const request = this.#beginWrite(key, value);
      try {
        const outcome = this.#writeIndex(request, condition, expected);
        const found = outcome === REPLACED || (outcome === REFUSED && request.foundAt >= 0);
        return {
          written: outcome !== REFUSED,
          previous: wantsPrevious && found ? this.#foundValue(request) : undefined,
          version: request.outgoingVersion,
        };
      } finally {
        this.#end(request);
      }
    });
  }

  delete(key: Key): boolean {
    return this.#remove(key, () => true) ?? false;
  }

  take(key: Key): V | undefined {
    return this.#remove(key, (request) => this.#foundValue(request));
  }

  /** An index that writes in order to remove may meet a full pool. */
  #remove<T>(key: Key, result: (request: Request) => T, expected?: number): T | undefined {
    return this.#full.retry(() => {
      const request = this.#begin(key);
      try {
        if (!this.#pool.run(this.#index.remove(request, expected))) return undefined;
        return result(request);
      } finally {
        this.#end(request);
      }
    }, 'deletion');
  }

  increment(key: Key, by?: number): number;
  increment(key: Key, by: bigint): bigint;
  increment(key: Key, by: number | bigint = 1): number | bigint {
    checkIncrement(by);
    const sum = this.#full.retry(() => this.#add(key, BigInt(by), typeof by === 'number'));
    return typeof by === 'number' ? Number(sum) : sum;
  }

  #add(key: Key, by: bigint, safe: boolean): bigint {
    const request = this.#begin(key, 32);
    const { records } = this.#index;
    let sum = 0n;
    try {
      const compute = (present: boolean) => {
        const old = present ? parseInteger(decodeValue(request, 'utf8') as string) : 0n;
        sum = checkRange(old + by, safe);
        records.encodeValue(request, sum.toString(), this.#versions.next());
      };
      this.#pool.run(this.#index.modify(request, compute));
      return sum;
    } finally {
      this.#end(request);
    }
  }

  getMany(keys: readonly Key[], options: { maxBytes?: number } = {}): (V | undefined)[] {
    return this.#many.get(keys, maxBytesIn(options));
  }

  /** An entry that is refused ends it; entries before may have been stored. */
  putMany(entries: Iterable<readonly [Key, Value]>): void {
    eachEntry(entries, (key, value) => this.put(key, value));
  }

  deleteMany(keys: readonly Key[]): number {
    checkKeys(keys);
    let removed = 0;
    for (const key of keys) if (this.delete(key)) removed++;
    return removed;
  }

  read<T>(key: Key, use: (bytes: Uint8Array) => T): T | undefined {
    checkCallback(use);
    const request = this.#begin(key);
    try {
      if (!this.#search(request)) return undefined;
      const { foundValueBytes, foundValueAt, foundAt } = request;
      if (request.foundChained) {
        // Not contiguous in the pool: the assembled copy has to do.
        this.#pool.run(this.#index.records.complete(request));
        const at = request.foundValueAt;
        return use(request.found.u8.subarray(at, at + foundValueBytes));
      }
      this.#index.records.check(request);
      const address = this.#index.foundAddress(request) + (foundValueAt - foundAt);
      return use(this.#pool.fabric.window(address, foundValueBytes));
    } finally {
      this.#end(request);
    }
  }

  entries(): IterableIterator<[Key, V]>;
  entries(range: ScanOptions): Scan<[Key, V]>;
  entries(range?: ScanOptions): IterableIterator<[Key, V]> {
    return range === undefined
      ? this.#walk(({ key, value }) => [key, value])
      : this.#ordered.entries(range);
  }

  keys(): IterableIterator<Key>;
  keys(range: ScanOptions): Scan<Key>;
  keys(range?: ScanOptions): IterableIterator<Key> {
    return range === undefined ? this.#walk(({ key }) => key) : this.#ordered.keys(range);
  }

  values(): IterableIterator<V>;
  values(range: ScanOptions): Scan<V>;
  values(range?: ScanOptions): IterableIterator<V> {
    return range === undefined ? this.#walk(({ value }) => value) : this.#ordered.values(range);
  }

  [Symbol.iterator](): IterableIterator<[Key, V]> {
    return this.entries();
  }

  #walk<T>(select: (entry: Entry<V>) => T): IterableIterator<T> {
    const read = (walk: RecordWalk<V>) => this.#runOne(() => walk.entries());
    return new WalkIterator(() => this.#newWalk(), read, select);
  }

  first(bounds: RangeBounds = {}): Entry<V> | undefined {
    return this.#ordered.first(bounds, false);
  }

  last(bounds: RangeBounds = {}): Entry<V> | undefined {
    return this.#ordered.first(bounds, true);
  }

  count(bounds: RangeBounds = {}): number {
    return this.#ordered.count(bounds);
  }

  scan(range?: ScanOptions): Scan<[Key, V]>;
  scan(cursor: number, count?: number): Page<V>;
  scan(from: ScanOptions | number = {}, count = 10): Scan<[Key, V]> | Page<V> {
    return isRange(from) ? this.#ordered.entries(from) : this.#page(from, count);
  }

  scanKeys(cursor: number, count = 10, options: { prefix?: Key } = {}): KeyPage {
    checkPage(cursor, count);
    const walk = this.#newWalk(cursor, prefixIn(options));
    const keys = this.#gather(walk, count, () => walk.keys());
    return { cursor: walk.cursor, keys };
  }

  #page(cursor: number, count: number): Page<V> {
    checkPage(cursor, count);
    const walk = this.#newWalk(cursor);
    const entries = this.#gather(walk, count, () => walk.entries());
    return { cursor: walk.cursor, entries };
  }

  #gather<T>(walk: RecordWalk<V>, count: number, next: () => Operation<T[]>): T[] {
    const page = new PageOfWalk<T>(walk, count);
    while (!page.complete) page.add(this.#runOne(next));
    return page.found;
  }

  #newWalk(cursor?: number, prefix?: Key): RecordWalk<V> {
    this.#refuseClosed();
    return new RecordWalk<V>(this.#index, this.#settings, cursor, prefix);
  }

  loadSorted(entries: Iterable<readonly [Key, Value]>): number {
    const refuse = () => this.#refuseClosed();
    refuse();
    return this.#runOne(() =>
      sortedLoad(this.#index, this.name, entries, this.#versions.next(), refuse),
    );
  }

  get size(): number {
    return this.#runOne(() => this.#index.shape()).records;
  }

  clear(range?: RangeOptions): void {
    if (range !== undefined) {
      this.#ordered.clear(range, (keys) => this.deleteMany(keys));
      return;
    }
    const walk = this.#newWalk();
    while (!walk.done) this.deleteMany(this.#runOne(() => walk.keys()));
  }

  stats(): StoreStats {
    this.#enter();
    try {
      return storeStats(this.#pool, this.#index);
    } finally {
      this.#pool.exit();
    }
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#settings.onClose();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  [inspect.custom](_depth: number, options: InspectOptions): string {
    return inspected('Store', this, this.#index.manifest.name, this.#closed, options);
  }

  #enter(): void {
    this.#refuseClosed();
    this.#pool.enterStore(this.#store);
  }

  #runOne<T>(operation: () => Operation<T>): T {
    this.#enter();
    try {
      return this.#pool.run(operation());
    } finally {
      this.#pool.exit();
    }
  }

  #refuseClosed(): void {
    if (this.#closed) throw new StepwellError('SW_CLOSED', `store ${this.name} has been closed`);
  }

  /** An operation on one key: every `#begin` has its `#end`. */
  #begin(key: Key, valueBound = 0): Request {
    this.#enter();
    const request = this.#request();
    try {
      request.setKey(key, this.#index.hashSeed, valueBound);
    } catch (error) {
      this.#end(request);
      throw error;
    }
    return request;
  }

  #beginWrite(key: Key, value: Value): Request {
    this.#enter();
    const request = this.#request();
    const { records } = this.#index;
    try {
      records.encode(request, key, value, this.#index.hashSeed, this.#versions.next());
    } catch (error) {
      this.#end(request);
      throw error;
    }
    return request;
  }

  #end(request: Request): void {
    this.#pool.exit();
    this.#keep(request);
  }

  #request(): Request {
    const request = this.#idle ?? this.#index.newRequest();
    this.#idle = undefined;
    return request;
  }

  #keep(request: Request): void {
    if (request.mayBeKept(KEPT_REQUEST_BYTES)) this.#idle = request;
  }

  #search(request: Request): boolean {
    return this.#pool.run(this.#index.search(request));
  }

  #writeIndex(request: Request, condition: Condition, expected: number): Outcome {
    return this.#pool.run(this.#index.write(request, condition, expected));
  }

  #foundValue(request: Request): V {
    if (request.foundChained) this.#pool.run(this.#index.records.complete(request));
    else this.#index.records.check(request);
    return decodeValue(request, this.#settings.values) as V;
  }
}
