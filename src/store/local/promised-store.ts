import { type InspectOptions, inspect } from 'node:util';
import { eitherSignal, refuseAborted, untilAborted } from '../abortable.ts';
import type { AsyncStore, Key, NamespaceOptions, PoolHandle, Store, Value } from '../api.ts';
import { checkFunction } from '../arguments.ts';
import {
  type CallForwarder,
  type CallName,
  forwardCalls,
  type PromisedCalls,
} from '../calls/call-names.ts';
import { gathered, type SortedEntries } from '../calls/sorted-load.ts';
import type { CloseListener } from '../closing.ts';
import type { AsyncScan, Scan, ScanOptions } from '../ordered-api.ts';
import type { AnyNamespaceOptions } from '../store-settings.ts';

/** `forwardCalls` adds these. */
export interface PromisedStore<V> extends PromisedCalls<V> {}

/**
 * The names of a store, returning promises. On shared memory a verb takes nanoseconds, so the
 * operation runs at once, on the caller's stack, and its outcome is handed over as a promise; a
 * fabric with real latencies has a store of its own.
 */
// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: `forwardCalls` adds the calls
export class PromisedStore<V> implements AsyncStore<V, Key, Value>, CallForwarder {
  readonly sync: Store<V, Key, Value>;

  /** Aborted, it has calls refused: on shared memory none waits. */
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

forwardCalls(PromisedStore);

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

/** Records after which the event loop turns: a promise that is settled already never lets it. */
const RECORDS_PER_TURN = 1024;

/** A scan that runs at once, behind promises. */
class PromisedScan<T> implements AsyncScan<T> {
  readonly #scan: Scan<T>;
  #sinceTurn = 0;

  constructor(scan: Scan<T>) {
    this.#scan = scan;
  }

  async next(): Promise<IteratorResult<T, undefined>> {
    // Before the turn: calls that do not wait for one another get their records in order.
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
