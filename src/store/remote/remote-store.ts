import { type InspectOptions, inspect } from 'node:util';
import { StepwellError } from '../../errors.ts';
import {
  ALWAYS,
  type Condition,
  IF_ABSENT,
  IF_PRESENT,
  IF_VERSION,
  REFUSED,
  REPLACED,
} from '../../indexes/contract.ts';
import type { Request } from '../../indexes/substrates/request.ts';
import { measureStore } from '../administration/statistics.ts';
import type {
  AsyncStore,
  Entry,
  Key,
  KeyPage,
  OpenOptions,
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
import type { WriteKind } from '../calls/full-pool.ts';
import { checkRange, parseInteger } from '../calls/integers.ts';
import { isRange } from '../calls/key-range.ts';
import { checkEntries, checkKeys } from '../calls/many-keys.ts';
import { checkPage, RecordWalk } from '../calls/record-walk.ts';
import { gathered, type SortedEntries, sortedLoad } from '../calls/sorted-load.ts';
import { inspected } from '../inspected.ts';
import type { AsyncScan, RangeBounds, RangeOptions, ScanOptions } from '../ordered-api.ts';
import { checkClientOptions } from '../store-in-pool.ts';
import type { RemoteSettings } from '../store-settings.ts';
import { credentialsOf, parseRemote } from './address.ts';
import { gather } from './gather-page.ts';
import { RemoteMany } from './remote-many.ts';
import { RemoteOrdered } from './remote-scan.ts';
import type { Session } from './session.ts';
import { SessionOpener } from './session-opener.ts';

/** Opens a store in a pool on memory nodes; see `open`. */
export async function openRemote<V extends Value>(
  url: string,
  options: OpenOptions,
): Promise<AsyncStore<V>> {
  checkClientOptions(options);
  const location = parseRemote(url);
  const named = { ...options, store: options.store ?? location.store };
  if (location.store !== undefined && named.store !== location.store) {
    throw new StepwellError(
      'SW_INVALID_ARGUMENT',
      `the URL names the store ${location.store}, the options ${named.store}`,
    );
  }
  const opener = new SessionOpener(location, credentialsOf(location, options), named);
  const session = await opener.open();
  return new RemoteStore<V>(opener, session, {
    name: named.store ?? 'default',
    url: location.url,
    keys: options.keys ?? 'auto',
    values: options.values ?? 'auto',
    delegation: options.delegation ?? false,
  });
}

/** A store on memory nodes: many operations in flight, over one session after the other. */
export class RemoteStore<V extends Value> implements AsyncStore<V> {
  readonly #opener: SessionOpener;
  readonly #settings: RemoteSettings;
  readonly #versions = new FirstVersions();
  readonly #many: RemoteMany<V>;
  readonly #ordered: RemoteOrdered<V>;
  #session: Session;
  #opening: Promise<Session> | undefined;
  #closed = false;

  constructor(opener: SessionOpener, session: Session, settings: RemoteSettings) {
    this.#opener = opener;
    this.#session = session;
    this.#settings = settings;
    const found = (request: Request, from: Session) => this.#found(request, from);
    this.#many = new RemoteMany(this.#versions, found, settings.delegation);
    const host = { refuseClosed: () => this.#refuseClosed(), session: () => this.#live() };
    this.#ordered = new RemoteOrdered(host, session, settings);
  }

  get name(): string {
    return this.#settings.name;
  }

  get url(): string {
    return this.#settings.url;
  }

  get handle(): PoolHandle {
    return { url: this.#settings.url, store: this.name };
  }

  get sync(): Store<V> {
    throw new StepwellError('SW_UNSUPPORTED', 'a store over a network has no synchronous calls');
  }

  /**
   * The session, or a new one when it is over: calls that were under way have failed with it, later
   * ones go on under a new incarnation.
   */
  async #live(): Promise<Session> {
    this.#refuseClosed();
    if (!this.#session.over) return this.#session;
    this.#opening ??= this.#reopen().finally(() => {
      this.#opening = undefined;
    });
    const session = await this.#opening;
    this.#refuseClosed();
    return session;
  }

  async #reopen(): Promise<Session> {
    const session = await this.#opener.open(this.#session);
    if (this.#closed) await session.close();
    else this.#session = session;
    return session;
  }

  async #perform<T>(
    prepare: (request: Request, session: Session) => void,
    operate: (request: Request, session: Session) => Promise<T>,
  ): Promise<T> {
    this.#refuseClosed();
    const session = this.#session.over ? await this.#live() : this.#session;
    return session.perform(
      (request) => prepare(request, session),
      (request) => operate(request, session),
    );
  }

  /** A search; what `result` makes of the found record, or undefined. */
  #search<T>(key: Key, result: (request: Request, session: Session) => T | Promise<T>) {
    return this.#perform(
      (request, { index }) => request.setKey(key, index.hashSeed),
      async (request, session) => {
        const found = await session.run(session.index.search(request));
        return found ? await result(request, session) : undefined;
      },
    );
  }

  async #complete(request: Request, { index, pool }: Session): Promise<void> {
    if (request.foundChained) await pool.run(index.records.complete(request));
    else index.records.check(request);
  }

  async #found(request: Request, session: Session): Promise<V> {
    await this.#complete(request, session);
    return decodeValue(request, this.#settings.values) as V;
  }

  async get(key: Key): Promise<V | undefined> {
    return this.#search(key, (request, session) => this.#found(request, session));
  }

  async getEntry(key: Key): Promise<Entry<V> | undefined> {
    return this.#search(key, async (request, session) => {
      const value = await this.#found(request, session);
      return { key, value, version: request.foundVersion };
    });
  }

  async has(key: Key): Promise<boolean> {
    return (await this.#search(key, () => true)) ?? false;
  }

  async put(key: Key, value: Value): Promise<void> {
    await this.#write(key, value, ALWAYS, 0, false);
  }

  async insert(key: Key, value: Value): Promise<boolean> {
    return (await this.#write(key, value, IF_ABSENT, 0, false)).written;
  }

  async update(key: Key, value: Value): Promise<boolean> {
    return (await this.#write(key, value, IF_PRESENT, 0, false)).written;
  }

  async write(
    key: Key,
    value: Value,
    options: { when?: WriteCondition; previous?: boolean } = {},
  ): Promise<WriteResult<V>> {
    const { condition, previous } = conditionOf(options);
    const outcome = await this.#write(key, value, condition, 0, previous);
    return { written: outcome.written, previous: outcome.previous };
  }

  async compareAndSet(key: Key, version: number, value: Value): Promise<number | undefined> {
    const expected = versionOf(version);
    const { written, version: stored } = await this.#write(key, value, IF_VERSION, expected, false);
    return written ? stored : undefined;
  }

  async compareAndDelete(key: Key, version: number): Promise<boolean> {
    return (await this.#remove(key, () => true, versionOf(version))) ?? false;
  }

  async #write(
    key: Key,
    value: Value,
    condition: Condition,
    expected: number,
    wantsPrevious: boolean,
  ) {
    return this.#retry(() =>
      this.#perform(
        (request, { index }) => {
          const version = this.#versions.next();
          index.records.encode(request, key, value, index.hashSeed, version);
        },
        async (request, session) => {
          const outcome = await session.run(session.index.write(request, condition, expected));
          const found = outcome === REPLACED || (outcome === REFUSED && request.foundAt >= 0);
          const version = request.outgoingVersion;
          const previous = wantsPrevious && found ? await this.#found(request, session) : undefined;
          return { written: outcome !== REFUSED, previous, version };
        },
      ),
    );
  }

  /** A write that is run again when something can be done about a full pool. */
  #retry<T>(write: () => Promise<T>, kind?: WriteKind): Promise<T> {
    return this.#session.retry(write, kind);
  }

  async delete(key: Key): Promise<boolean> {
    return (await this.#remove(key, () => true)) ?? false;
  }

  async take(key: Key): Promise<V | undefined> {
    return this.#remove(key, (request, session) => this.#found(request, session));
  }

  #remove<T>(
    key: Key,
    result: (request: Request, session: Session) => T | Promise<T>,
    expected?: number,
  ) {
    return this.#retry(
      () =>
        this.#perform(
          (request, { index }) => request.setKey(key, index.hashSeed),
          async (request, session) => {
            const removed = await session.run(session.index.remove(request, expected));
            return removed ? await result(request, session) : undefined;
          },
        ),
      'deletion',
    );
  }

  increment(key: Key, by?: number): Promise<number>;
  increment(key: Key, by: bigint): Promise<bigint>;
  async increment(key: Key, by: number | bigint = 1): Promise<number | bigint> {
    checkIncrement(by);
    const sum = await this.#retry(() => this.#add(key, BigInt(by), typeof by === 'number'));
    return typeof by === 'number' ? Number(sum) : sum;
  }

  #add(key: Key, by: bigint, safe: boolean): Promise<bigint> {
    let sum = 0n;
    return this.#perform(
      (request, { index }) => request.setKey(key, index.hashSeed, 32),
      async (request, session) => {
        const { index } = session;
        const compute = (present: boolean) => {
          const old = present ? parseInteger(decodeValue(request, 'utf8') as string) : 0n;
          sum = checkRange(old + by, safe);
          index.records.encodeValue(request, sum.toString(), this.#versions.next());
        };
        await session.run(index.modify(request, compute));
        return sum;
      },
    );
  }

  async getMany(
    keys: readonly Key[],
    options: { maxBytes?: number } = {},
  ): Promise<(V | undefined)[]> {
    checkKeys(keys);
    const maxBytes = maxBytesIn(options);
    return this.#many.get(await this.#live(), [...keys], maxBytes);
  }

  /** An entry that is refused ends it; entries before may have been stored. */
  async putMany(entries: Iterable<readonly [Key, Value]>): Promise<void> {
    checkEntries(entries);
    await this.#many.put(await this.#live(), entries);
  }

  async deleteMany(keys: readonly Key[]): Promise<number> {
    checkKeys(keys);
    return this.#many.delete(await this.#live(), [...keys]);
  }

  async read<T>(key: Key, use: (bytes: Uint8Array) => T): Promise<T | undefined> {
    checkCallback(use);
    return this.#search(key, async (request, session) => {
      await this.#complete(request, session);
      const { found, foundValueAt, foundValueBytes } = request;
      return use(found.u8.subarray(foundValueAt, foundValueAt + foundValueBytes));
    });
  }

  entries(): AsyncIterableIterator<[Key, V]>;
  entries(range: ScanOptions): AsyncScan<[Key, V]>;
  entries(range?: ScanOptions): AsyncIterableIterator<[Key, V]> {
    return range === undefined
      ? this.#walk(({ key, value }) => [key, value])
      : this.#ordered.entries(range);
  }

  keys(): AsyncIterableIterator<Key>;
  keys(range: ScanOptions): AsyncScan<Key>;
  keys(range?: ScanOptions): AsyncIterableIterator<Key> {
    return range === undefined ? this.#walk(({ key }) => key) : this.#ordered.keys(range);
  }

  values(): AsyncIterableIterator<V>;
  values(range: ScanOptions): AsyncScan<V>;
  values(range?: ScanOptions): AsyncIterableIterator<V> {
    return range === undefined ? this.#walk(({ value }) => value) : this.#ordered.values(range);
  }

  [Symbol.asyncIterator](): AsyncIterableIterator<[Key, V]> {
    return this.entries();
  }

  async *#walk<T>(select: (entry: Entry<V>) => T): AsyncIterableIterator<T> {
    const session = await this.#live();
    const walk = new RecordWalk<V>(session.index, this.#settings);
    while (!walk.done) {
      this.#refuseClosed();
      for (const entry of await session.runOne(() => walk.entries())) {
        this.#refuseClosed();
        yield select(entry);
      }
    }
  }

  scan(range?: ScanOptions): AsyncScan<[Key, V]>;
  scan(cursor: number, count?: number): Promise<Page<V>>;
  scan(from: ScanOptions | number = {}, count = 10): AsyncScan<[Key, V]> | Promise<Page<V>> {
    return isRange(from) ? this.#ordered.entries(from) : this.#page(from, count);
  }

  async #page(cursor: number, count: number): Promise<Page<V>> {
    checkPage(cursor, count);
    const session = await this.#live();
    const walk = new RecordWalk<V>(session.index, this.#settings, cursor);
    const entries = await gather(session, walk, count, () => walk.entries());
    return { cursor: walk.cursor, entries };
  }

  async scanKeys(cursor: number, count = 10, options: { prefix?: Key } = {}): Promise<KeyPage> {
    checkPage(cursor, count);
    const prefix = prefixIn(options);
    const session = await this.#live();
    const walk = new RecordWalk<V>(session.index, this.#settings, cursor, prefix);
    const keys = await gather(session, walk, count, () => walk.keys());
    return { cursor: walk.cursor, keys };
  }

  async first(bounds: RangeBounds = {}): Promise<Entry<V> | undefined> {
    return this.#ordered.first(bounds, false);
  }

  async last(bounds: RangeBounds = {}): Promise<Entry<V> | undefined> {
    return this.#ordered.first(bounds, true);
  }

  async count(bounds: RangeBounds = {}): Promise<number> {
    return this.#ordered.count(bounds);
  }

  async loadSorted(entries: SortedEntries): Promise<number> {
    const all = await gathered(entries);
    const session = await this.#live();
    const refuse = () => this.#refuseClosed();
    return session.runOne(() =>
      sortedLoad(session.index, this.name, all, this.#versions.next(), refuse),
    );
  }

  async size(): Promise<number> {
    const session = await this.#live();
    return (await session.runOne(() => session.index.shape())).records;
  }

  async clear(range?: RangeOptions): Promise<void> {
    if (range !== undefined) return this.#ordered.clear(range, (keys) => this.deleteMany(keys));
    const session = await this.#live();
    const walk = new RecordWalk<V>(session.index, this.#settings);
    while (!walk.done) await this.deleteMany(await session.runOne(() => walk.keys()));
  }

  async stats(): Promise<StoreStats> {
    const session = await this.#live();
    const traffic = session.fabric.traffic.snapshot();
    const { pool } = session.pool;
    return { traffic, ...(await session.runOne(() => measureStore(pool, session.index))) };
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.#session.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  [inspect.custom](_depth: number, options: InspectOptions): string {
    const { manifest } = this.#session.index;
    return inspected('AsyncStore', this, manifest.name, this.#closed, options);
  }

  #refuseClosed(): void {
    if (this.#closed) throw new StepwellError('SW_CLOSED', `store ${this.name} has been closed`);
  }
}
