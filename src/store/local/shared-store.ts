import { type InspectOptions, inspect } from 'node:util';
import type { Index } from '../../indexes/contract.ts';
import type { LocalPool } from '../../pool/local-pool.ts';
import type {
  AsyncStore,
  BoundedIncrement,
  BoundedOptions,
  ClientCounters,
  Entry,
  ExpiryOptions,
  Key,
  KeyPage,
  Page,
  PoolHandle,
  RecordMetadata,
  ReplaceOptions,
  Store,
  StoreStats,
  Value,
  WriteOptions,
  WriteResult,
} from '../api.ts';
import { checkBatch, checkFunction } from '../arguments.ts';
import { planScan, type RangeScan, refuseAborted, type ScanPlan } from '../calls/range-scan.ts';
import { type RecordWalk, WalkIterator } from '../calls/record-walk.ts';
import {
  keyBuilder,
  pairBuilder,
  type ResultBuilder,
  valueBuilder,
} from '../calls/result-builders.ts';
import { StoreCalls } from '../calls/store-calls.ts';
import { type CloseListener, Closing } from '../closing.ts';
import { inspected } from '../inspected.ts';
import type { CopiedRecord, Decide } from '../internal-calls.ts';
import type { RangeBounds, RangeOptions, Scan, ScanOptions } from '../ordered-api.ts';
import type { OpenedStore } from '../store-in-pool.ts';
import { type AnyNamespaceOptions, inNamespace, type StoreSettings } from '../store-settings.ts';
import type { LocalAttachment } from './local-client.ts';
import { PromisedStore } from './promised-store.ts';

/** The store on a fabric whose verbs finish at once: every call runs its operation to the end. */
export class SharedStore<V> implements Store<V, Key, Value> {
  readonly #pool: LocalPool;
  readonly #attachment: LocalAttachment;
  readonly #calls: StoreCalls<V>;
  readonly #settings: StoreSettings;
  readonly #index: Index;
  readonly #opened: OpenedStore;
  readonly #closing: Closing;
  /** Each for all scans, whose steps end before the call that they are of. */
  readonly #pairs: ResultBuilder<[Key, V]>;
  readonly #keys: ResultBuilder<Key>;
  readonly #values: ResultBuilder<V>;
  #promised: PromisedStore<V> | undefined;

  constructor(
    attachment: LocalAttachment,
    opened: OpenedStore,
    settings: StoreSettings,
    closing = new Closing(),
  ) {
    this.#pool = attachment.pool;
    this.#closing = closing;
    const { index, bounded } = opened;
    this.#opened = opened;
    this.#index = index;
    this.#settings = settings;
    this.#attachment = attachment;
    this.#calls = new StoreCalls<V>(
      this.#attachment,
      index,
      { ...settings, delegation: false },
      bounded,
    );
    this.#pairs = pairBuilder(settings);
    this.#keys = keyBuilder(settings);
    this.#values = valueBuilder(settings.values);
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

  get async(): AsyncStore<V, Key, Value> {
    this.#promised ??= new PromisedStore<V>(this);
    return this.#promised;
  }

  /**
   * For programs that are operations themselves; `pool` runs them.
   *
   * @internal
   */
  get operations(): StoreCalls<V> {
    return this.#calls;
  }

  /** @internal */
  get pool(): LocalPool {
    return this.#pool;
  }

  get(key: Key): V | undefined {
    return this.#pool.run(this.#calls.get(key));
  }

  getEntry(key: Key): Entry<V> | undefined {
    return this.#pool.run(this.#calls.getEntry(key));
  }

  has(key: Key): boolean {
    return this.#pool.run(this.#calls.has(key));
  }

  set(key: Key, value: Value, options?: ExpiryOptions): void {
    this.#pool.run(this.#calls.set(key, value, options));
  }

  insert(key: Key, value: Value, options?: ExpiryOptions): boolean {
    return this.#pool.run(this.#calls.insert(key, value, options));
  }

  update(key: Key, value: Value, options?: ExpiryOptions): boolean {
    return this.#pool.run(this.#calls.update(key, value, options));
  }

  write(key: Key, value: Value, options?: WriteOptions): WriteResult<V> {
    return this.#pool.run(this.#calls.write(key, value, options));
  }

  expire(key: Key, options?: ExpiryOptions): boolean {
    return this.#pool.run(this.#calls.expire(key, options));
  }

  ttl(key: Key): number | undefined {
    return this.#pool.run(this.#calls.ttl(key));
  }

  metadata(key: Key): RecordMetadata | undefined {
    return this.#pool.run(this.#calls.metadata(key));
  }

  compareAndSet(
    key: Key,
    version: number,
    value: Value,
    options?: ReplaceOptions,
  ): number | undefined {
    return this.#pool.run(this.#calls.compareAndSet(key, version, value, options));
  }

  compareAndDelete(key: Key, version: number): boolean {
    return this.#pool.run(this.#calls.compareAndDelete(key, version));
  }

  delete(key: Key): boolean {
    return this.#pool.run(this.#calls.delete(key));
  }

  take(key: Key): V | undefined {
    return this.#pool.run(this.#calls.take(key));
  }

  increment(key: Key, by?: number, options?: ExpiryOptions): number;
  increment(key: Key, by: bigint, options?: ExpiryOptions): bigint;
  increment(key: Key, by?: number | bigint, options?: ExpiryOptions): number | bigint {
    return this.#pool.run(this.#calls.increment(key, by, options));
  }

  incrementWithin(key: Key, by: number, options: BoundedOptions<number>): BoundedIncrement<number>;
  incrementWithin(key: Key, by: bigint, options: BoundedOptions<bigint>): BoundedIncrement<bigint>;
  incrementWithin(
    key: Key,
    by: number | bigint,
    options: BoundedOptions<number> | BoundedOptions<bigint>,
  ): BoundedIncrement<never> {
    return this.#pool.run(this.#calls.incrementWithin(key, by, options)) as BoundedIncrement<never>;
  }

  swap(key: Key, value: Value, options?: Omit<WriteOptions, 'when' | 'previous'>): V | undefined {
    return this.#pool.run(this.#calls.swap(key, value, options));
  }

  append(key: Key, value: Value, options?: ExpiryOptions): number {
    return this.#pool.run(this.#calls.append(key, value, options));
  }

  /** @internal */
  changeState<T>(name: string, decide: Decide<T>): T {
    return this.#pool.run(this.#calls.changeState(name, decide));
  }

  /** @internal */
  copyPage(cursor: number, count: number): { cursor: number; records: CopiedRecord[] } {
    return this.#pool.run(this.#calls.copyPage(cursor, count));
  }

  /** @internal */
  putCopies(copies: readonly CopiedRecord[]): void {
    this.#pool.run(this.#calls.putCopies(copies));
  }

  getMany(keys: readonly Key[], options?: { maxBytes?: number }): (V | undefined)[] {
    return this.#pool.run(this.#calls.getMany(keys, options));
  }

  setMany(entries: Iterable<readonly [Key, Value]>, options?: ExpiryOptions): void {
    this.#pool.run(this.#calls.setMany(entries, options));
  }

  deleteMany(keys: readonly Key[]): number {
    return this.#pool.run(this.#calls.deleteMany(keys));
  }

  read<T>(key: Key, use: (bytes: Uint8Array) => T): T | undefined {
    return this.#pool.run(this.#calls.read(key, use));
  }

  entries(): IterableIterator<[Key, V]>;
  entries(range: ScanOptions): Scan<[Key, V]>;
  entries(range?: ScanOptions): IterableIterator<[Key, V]> {
    if (range === undefined) return this.#walk(({ key, value }) => [key, value]);
    return this.#scan(range, 'records', this.#pairs);
  }

  keys(): IterableIterator<Key>;
  keys(range: ScanOptions): Scan<Key>;
  keys(range?: ScanOptions): IterableIterator<Key> {
    if (range === undefined) return this.#walk(({ key }) => key);
    return this.#scan(range, 'keys', this.#keys);
  }

  values(): IterableIterator<V>;
  values(range: ScanOptions): Scan<V>;
  values(range?: ScanOptions): IterableIterator<V> {
    if (range === undefined) return this.#walk(({ value }) => value);
    return this.#scan(range, 'records', this.#values);
  }

  [Symbol.iterator](): IterableIterator<[Key, V]> {
    return this.entries();
  }

  forEach(use: (value: V, key: Key, store: this) => void): void {
    this.#attachment.refuseClosed();
    checkFunction('the argument of forEach', use);
    for (const [key, value] of this.entries()) use(value, key, this);
  }

  #walk<T>(select: (entry: Entry<V>) => T): IterableIterator<T> {
    const read = (walk: RecordWalk<V>) => this.#pool.run(walk.entries());
    return new WalkIterator(() => this.#calls.newWalk(), read, select);
  }

  #scan<T>(range: ScanOptions, part: 'records' | 'keys', builder: ResultBuilder<T>): Scan<T> {
    this.#attachment.refuseClosed();
    return new SharedScan(
      this.#attachment,
      this.#calls,
      planScan(range, part, builder, this.#settings.namespace),
    );
  }

  scan(range: ScanOptions = {}): Scan<[Key, V]> {
    return this.#scan(range, 'records', this.#pairs);
  }

  scanPage(cursor: number, count?: number): Page<V> {
    return this.#pool.run(this.#calls.scanPage(cursor, count));
  }

  scanKeys(cursor: number, count?: number, options?: { prefix?: Key }): KeyPage {
    return this.#pool.run(this.#calls.scanKeys(cursor, count, options));
  }

  first(bounds?: RangeBounds): Entry<V> | undefined {
    return this.#pool.run(this.#calls.first(bounds));
  }

  last(bounds?: RangeBounds): Entry<V> | undefined {
    return this.#pool.run(this.#calls.last(bounds));
  }

  count(bounds?: RangeBounds): number {
    return this.#pool.run(this.#calls.count(bounds));
  }

  loadSorted(entries: Iterable<readonly [Key, Value]>): number {
    return this.#pool.run(this.#calls.loadSorted(entries));
  }

  get size(): number {
    return this.#pool.run(this.#calls.size());
  }

  clear(range?: RangeOptions): void {
    this.#pool.run(this.#calls.clear(range));
  }

  // biome-ignore lint/suspicious/noExplicitAny: the overloads of the interface say of what type
  namespace(prefix: Key, options?: AnyNamespaceOptions): SharedStore<any> {
    this.#attachment.refuseClosed();
    const settings = inNamespace(this.#settings, prefix, options);
    const view = { ...settings, onClose: () => {} };
    const closing = new Closing(this.#closing);
    return new SharedStore(this.#attachment.view(), this.#opened, view, closing);
  }

  /** What the statistics themselves read is not counted. */
  stats(): StoreStats {
    return this.#attachment.traffic.uncounted(() => this.#pool.run(this.#calls.stats()));
  }

  counters(): ClientCounters {
    return this.#pool.run(this.#calls.counters());
  }

  /** @internal */
  beforeClose(listener: CloseListener): () => void {
    return this.#closing.listen(listener);
  }

  close(): void {
    if (this.#attachment.closed) return;
    // Calls end where they begin, so nothing is left to wait for.
    this.#closing.announce();
    // A listener may have closed it.
    if (this.#attachment.closed) return;
    this.#attachment.close();
    this.#settings.onClose();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  [inspect.custom](_depth: number, options: InspectOptions): string {
    const { manifest } = this.#index;
    return inspected('Store', this, manifest.name, this.#attachment.closed, options);
  }
}

/** A scan on a fabric whose verbs finish at once. */
class SharedScan<T> implements Scan<T> {
  readonly #pool: LocalPool;
  readonly #attachment: LocalAttachment;
  readonly #scan: RangeScan<T>;
  readonly #signal: AbortSignal | undefined;
  readonly #place: (key: Key) => Uint8Array;

  constructor(attachment: LocalAttachment, calls: StoreCalls<unknown>, plan: ScanPlan<T>) {
    this.#pool = attachment.pool;
    this.#attachment = attachment;
    this.#scan = calls.newScan(plan);
    this.#signal = plan.signal;
    this.#place = plan.place;
  }

  next(): IteratorResult<T, undefined> {
    this.#refuse();
    const scan = this.#scan;
    for (;;) {
      const value = scan.take();
      if (value !== undefined) return { done: false, value };
      if (scan.done) return { done: true, value: undefined };
      this.#pool.run(scan.step());
    }
  }

  nextMany(size: number): T[] {
    checkBatch(size);
    this.#refuse();
    return this.#pool.run(this.#scan.takeMany(size));
  }

  seek(key: Key): void {
    this.#refuse();
    this.#scan.seek(this.#place(key));
  }

  return(): IteratorResult<T, undefined> {
    this.#scan.end();
    return { done: true, value: undefined };
  }

  [Symbol.iterator](): Scan<T> {
    return this;
  }

  [Symbol.dispose](): void {
    this.#scan.end();
  }

  #refuse(): void {
    this.#attachment.refuseClosed();
    refuseAborted(this.#signal, () => this.#scan.end());
  }
}
