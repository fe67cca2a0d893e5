import { type InspectOptions, inspect } from 'node:util';
import type { LocalPool } from '../../pool/local-pool.ts';
import { eitherSignal, refuseAborted, untilAborted } from '../abortable.ts';
import type {
  AsyncStore,
  BoundedIncrement,
  BoundedOptions,
  ClientCounters,
  Entry,
  ExpiryOptions,
  Key,
  KeyPage,
  NamespaceOptions,
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
import {
  type CallForwarder,
  type CallName,
  forwardCalls,
  type PromisedCalls,
} from '../calls/call-names.ts';
import { planScan, type RangeScan, type ScanPlan } from '../calls/range-scan.ts';
import { type RecordWalk, WalkIterator } from '../calls/record-walk.ts';
import {
  type Builders,
  keyBuilders,
  pairBuilders,
  valueBuilders,
} from '../calls/result-builders.ts';
import { gathered, type SortedEntries } from '../calls/sorted-load.ts';
import { StoreCalls } from '../calls/store-calls.ts';
import { type CloseListener, Closing } from '../closing.ts';
import type { CopiedRecord, Decide, StatesRead } from '../internal-calls.ts';
import type { AsyncScan, RangeBounds, RangeOptions, Scan, ScanOptions } from '../ordered-api.ts';
import type { OpenedStore } from '../store-in-pool.ts';
import {
  type AnyNamespaceOptions,
  inNamespace,
  inspected,
  type StoreSettings,
} from '../store-settings.ts';
import type { LocalAttachment } from './local-client.ts';

/** The store on a fabric whose verbs finish at once: every call runs its operation to the end. */
export class SharedStore<V> implements Store<V, Key, Value> {
  readonly #pool: LocalPool;
  readonly #attachment: LocalAttachment;
  readonly #calls: StoreCalls<V>;
  readonly #settings: StoreSettings;
  readonly #opened: OpenedStore;
  readonly #closing: Closing;
  readonly #pairs: Builders<[Key, V]>;
  readonly #keys: Builders<Key>;
  readonly #values: Builders<V>;
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
    this.#settings = settings;
    this.#attachment = attachment;
    this.#calls = new StoreCalls<V>(attachment, index, settings, bounded);
    this.#pairs = pairBuilders(settings);
    this.#keys = keyBuilders(settings);
    this.#values = valueBuilders(settings.values);
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
  readStates(from: string, to: string, limit: number): StatesRead {
    return this.#pool.run(this.#calls.readStates(from, to, limit));
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

  #scan<T>(range: ScanOptions, part: 'records' | 'keys', builders: Builders<T>): Scan<T> {
    this.#attachment.refuseClosed();
    const plan = planScan(this.#opened.index, range, part, builders, this.#settings);
    return new SharedScan(this.#attachment, this.#calls, plan);
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

  first(bounds?: RangeBounds): [Key, V] | undefined {
    return this.#pool.run(this.#calls.first(bounds));
  }

  last(bounds?: RangeBounds): [Key, V] | undefined {
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

  clear(range?: RangeOptions): number {
    return this.#pool.run(this.#calls.clear(range));
  }

  // biome-ignore lint/suspicious/noExplicitAny: the overloads of the interface say of what type
  namespace(prefix: Key, options?: AnyNamespaceOptions): SharedStore<any> {
    this.#attachment.refuseClosed();
    const settings = inNamespace(this.#settings, prefix, options);
    const view = { ...settings, onClose: () => {} };
    const closing = new Closing(this.#closing);
    return new SharedStore(this.#attachment.view(), this.#opened, view, closing);
  }

  /** Does not count the verbs of the statistics themselves. */
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
    // No call is in flight, so there is nothing to wait for.
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
    const { manifest } = this.#opened.index;
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
    if (this.#signal?.aborted) this.#scan.end();
    refuseAborted('the scan', this.#signal);
  }
}

/** `forwardCalls` adds these. */
export interface PromisedStore<V> extends PromisedCalls<V> {}

/**
 * A store's calls, returning promises. On shared memory a verb takes nanoseconds, so the operation
 * runs at once, on the caller's stack, and its outcome is wrapped in a promise. Fabrics with real
 * latencies have a store of their own.
 */
// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: `forwardCalls` adds the calls
export class PromisedStore<V> implements AsyncStore<V, Key, Value>, CallForwarder {
  readonly sync: Store<V, Key, Value>;

  /** Once it is aborted, calls are refused. On shared memory no call waits. */
  readonly #signal: AbortSignal | undefined;

  constructor(store: Store<V, Key, Value>, signal?: AbortSignal) {
    this.sync = store;
    this.#signal = signal;
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

  async call(name: CallName, args: unknown[]): Promise<unknown> {
    refuseAborted(name, this.#signal);
    if (name === 'size') return this.sync.size;
    const call = this.sync[name] as (...args: unknown[]) => unknown;
    return call.apply(this.sync, args);
  }

  entries(): AsyncIterableIterator<[Key, V]>;
  entries(range: ScanOptions): AsyncScan<[Key, V]>;
  entries(range?: ScanOptions): AsyncIterableIterator<[Key, V]> {
    if (range === undefined) return promised(this.sync.entries(), this.#signal);
    return new PromisedScan(this.sync.entries(untilAborted(range, this.#signal)));
  }

  keys(): AsyncIterableIterator<Key>;
  keys(range: ScanOptions): AsyncScan<Key>;
  keys(range?: ScanOptions): AsyncIterableIterator<Key> {
    if (range === undefined) return promised(this.sync.keys(), this.#signal);
    return new PromisedScan(this.sync.keys(untilAborted(range, this.#signal)));
  }

  values(): AsyncIterableIterator<V>;
  values(range: ScanOptions): AsyncScan<V>;
  values(range?: ScanOptions): AsyncIterableIterator<V> {
    if (range === undefined) return promised(this.sync.values(), this.#signal);
    return new PromisedScan(this.sync.values(untilAborted(range, this.#signal)));
  }

  [Symbol.asyncIterator](): AsyncIterableIterator<[Key, V]> {
    return this.entries();
  }

  async forEach(use: (value: V, key: Key, store: this) => unknown): Promise<void> {
    checkFunction('the argument of forEach', use);
    for await (const [key, value] of this) await use(value, key, this);
  }

  scan(range: ScanOptions = {}): AsyncScan<[Key, V]> {
    return new PromisedScan(this.sync.scan(untilAborted(range, this.#signal)));
  }

  async loadSorted(entries: SortedEntries): Promise<number> {
    refuseAborted('loadSorted', this.#signal);
    const all = (await gathered(entries)) as Iterable<readonly [Key, Value]>;
    return this.sync.loadSorted(all);
  }

  // biome-ignore lint/suspicious/noExplicitAny: the overloads of the interface say of what type
  namespace(prefix: Key, options?: AnyNamespaceOptions): AsyncStore<any, Key, any> {
    const { async: all } = this.sync.namespace(prefix, options as NamespaceOptions);
    return this.#signal ? all.withSignal(this.#signal) : all;
  }

  withSignal(signal: AbortSignal): AsyncStore<V, Key, Value> {
    return new PromisedStore<V>(this.sync, eitherSignal(signal, this.#signal));
  }

  /** @internal */
  beforeClose(listener: CloseListener): () => void {
    return this.sync.beforeClose(listener);
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

forwardCalls(PromisedStore, StoreCalls);

async function* promised<T>(
  items: Iterable<T>,
  signal: AbortSignal | undefined,
): AsyncIterableIterator<T> {
  refuseAborted('the walk', signal);
  for (const item of items) {
    yield item;
    refuseAborted('the walk', signal);
  }
}

/** After this many records the event loop turns: awaiting a settled promise does not let it. */
const RECORDS_PER_TURN = 1024;

/** A scan that runs at once, behind promises. */
class PromisedScan<T> implements AsyncScan<T> {
  readonly #scan: Scan<T>;
  #sinceTurn = 0;

  constructor(scan: Scan<T>) {
    this.#scan = scan;
  }

  async next(): Promise<IteratorResult<T, undefined>> {
    // Before the turn, so that overlapping calls get their records in order.
    const step = this.#scan.next();
    await this.#turn(1);
    return step;
  }

  async nextMany(size: number): Promise<T[]> {
    const records = this.#scan.nextMany(size);
    await this.#turn(records.length);
    return records;
  }

  seek(key: Key): void {
    this.#scan.seek(key);
  }

  async return(): Promise<IteratorResult<T, undefined>> {
    return this.#scan.return();
  }

  [Symbol.asyncIterator](): AsyncScan<T> {
    return this;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#scan.return();
  }

  #turn(records: number): Promise<void> | undefined {
    this.#sinceTurn += records;
    if (this.#sinceTurn < RECORDS_PER_TURN) return undefined;
    this.#sinceTurn = 0;
    return new Promise((resolve) => setImmediate(resolve));
  }
}
