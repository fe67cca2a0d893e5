import { type InspectOptions, inspect } from 'node:util';
import { publish } from '../../diagnostics.ts';
import { StepwellError } from '../../errors.ts';
import type { RemotePool } from '../../pool/remote-pool.ts';
import { type Operation, runWithin, waitFor } from '../../verbs/index.ts';
import { eitherSignal, refuseAborted, unlessAborted, untilAborted } from '../abortable.ts';
import type { AsyncStore, Entry, Key, OpenOptions, PoolHandle, Store, Value } from '../api.ts';
import { checkBatch, checkFunction, invalid, unsupported } from '../arguments.ts';
import {
  type CallForwarder,
  type CallName,
  forwardCalls,
  type PromisedCalls,
} from '../calls/call-names.ts';
import { lifetimeOf } from '../calls/expiry.ts';
import { planScan, type RangeScan, type ScanPlan } from '../calls/range-scan.ts';
import {
  type Builders,
  keyBuilders,
  pairBuilders,
  valueBuilders,
} from '../calls/result-builders.ts';
import { gathered, type SortedEntries } from '../calls/sorted-load.ts';
import { StoreCalls } from '../calls/store-calls.ts';
import { type CloseListener, Closing } from '../closing.ts';
import { nearSettingsOf } from '../near/near-settings.ts';
import type { AsyncScan, RangeBounds, ScanOptions } from '../ordered-api.ts';
import { checkClientOptions } from '../store-in-pool.ts';
import {
  type AnyNamespaceOptions,
  inNamespace,
  inspected,
  type RemoteSettings,
} from '../store-settings.ts';
import { formatOf } from '../values.ts';
import { credentialsOf, parseRemote } from './address.ts';
import { RemoteClients, type Session } from './remote-clients.ts';

/** Opens a store in a pool on memory nodes, by a client of this thread; see `open`. */
export async function openRemote<V>(
  url: string,
  options: OpenOptions,
  clients = RemoteClients.ofThread(),
): Promise<RemoteStore<V>> {
  checkClientOptions(options);
  const location = parseRemote(url);
  const named = { ...options, store: options.store ?? location.store };
  if (location.store !== undefined && named.store !== location.store) {
    throw invalid(`the URL names the store ${location.store}, the options ${named.store}`);
  }
  const credentials = credentialsOf(location, options);
  const session = await clients.open(location, credentials, named);
  if (!options.readOnly) session.sweepExpired();
  const store = named.store ?? 'default';
  publish('open', () => ({ url: location.url, store }));
  return new RemoteStore<V>(session, {
    name: store,
    url: location.url,
    keys: options.keys ?? 'auto',
    values: formatOf(options.values),
    lifetime: lifetimeOf(options),
    delegation: options.delegation ?? false,
    readOnly: options.readOnly,
    near: nearSettingsOf(options),
  });
}

/** A session and the calls of the store in it. */
interface OpenSession {
  session: Session;
  calls: StoreCalls<unknown>;
}

function callWithin(
  { session, calls }: OpenSession,
  name: CallName | 'keysIn',
  args: unknown[],
): Operation<unknown> {
  const call = calls[name] as (...args: unknown[]) => Operation<unknown>;
  return runWithin(session.pool.fabric, call.apply(calls, args));
}

/** `forwardCalls` adds these. */
export interface RemoteStore<V> extends PromisedCalls<V> {}

/**
 * A store on memory nodes, with many operations in flight. When a session ends, calls use the next.
 */
// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: `forwardCalls` adds the calls
export class RemoteStore<V> implements AsyncStore<V, Key, Value>, CallForwarder {
  readonly #settings: RemoteSettings;
  readonly #closing: Closing;
  /** The store that this one is a view of. */
  readonly #parent: RemoteStore<unknown> | undefined;
  readonly #pairs: Builders<[Key, V]>;
  readonly #keys: Builders<Key>;
  readonly #values: Builders<V>;
  /** The calls in the session that was used last. */
  #open: OpenSession;
  #closed = false;

  constructor(session: Session, settings: RemoteSettings, parent?: RemoteStore<unknown>) {
    this.#settings = settings;
    this.#parent = parent;
    this.#closing = new Closing(parent === undefined ? undefined : parent.#closing);
    this.#open = this.#callsIn(session);
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
    return { url: this.#settings.url, store: this.name };
  }

  get sync(): Store<V, Key, Value> {
    throw unsupported('a store over a network has no synchronous calls');
  }

  /** Begins the call at once if a session is open: the caller may change its bytes afterwards. */
  async call(name: CallName | 'loadSorted', args: unknown[]): Promise<unknown> {
    this.refuseClosed();
    const { signal } = this.#settings;
    if (signal !== undefined) return unlessAborted(name, signal, () => this.#begin(name, args));
    return this.#begin(name, args);
  }

  #begin(name: CallName | 'loadSorted', args: unknown[]): Promise<unknown> {
    const run = ({ session, calls }: OpenSession) => {
      const call = calls[name] as (...args: unknown[]) => Operation<unknown>;
      return session.pool.run(call.apply(calls, args));
    };
    const latest = this.#latest();
    return latest.session.over ? this.live().then(run) : run(latest);
  }

  /**
   * Runs a call as a part of another operation, in the session that is open when the part begins.
   *
   * @internal
   */
  within(name: CallName | 'keysIn', args: unknown[]): Operation<unknown> {
    this.refuseClosed();
    const latest = this.#latest();
    return latest.session.over ? this.#withinNext(name, args) : callWithin(latest, name, args);
  }

  *#withinNext(name: CallName | 'keysIn', args: unknown[]): Operation<unknown> {
    return yield* callWithin(yield* waitFor(this.live()), name, args);
  }

  /**
   * For programs that are operations themselves; `pool` runs them.
   *
   * @internal
   */
  get operations(): RemoteOperations {
    return new RemoteOperations(this);
  }

  /** @internal */
  get pool(): RemotePool {
    return this.#latest().session.pool;
  }

  entries(): AsyncIterableIterator<[Key, V]>;
  entries(range: ScanOptions): AsyncScan<[Key, V]>;
  entries(range?: ScanOptions): AsyncIterableIterator<[Key, V]> {
    if (range === undefined) return this.#walk(({ key, value }) => [key, value]);
    return this.scan(range);
  }

  keys(): AsyncIterableIterator<Key>;
  keys(range: ScanOptions): AsyncScan<Key>;
  keys(range?: ScanOptions): AsyncIterableIterator<Key> {
    if (range === undefined) return this.#walk(({ key }) => key);
    return this.#scan(range, 'keys', this.#keys);
  }

  values(): AsyncIterableIterator<V>;
  values(range: ScanOptions): AsyncScan<V>;
  values(range?: ScanOptions): AsyncIterableIterator<V> {
    if (range === undefined) return this.#walk(({ value }) => value);
    return this.#scan(range, 'records', this.#values);
  }

  [Symbol.asyncIterator](): AsyncIterableIterator<[Key, V]> {
    return this.entries();
  }

  async *#walk<T>(select: (entry: Entry<V>) => T): AsyncIterableIterator<T> {
    const unlessOver = <R>(act: () => Promise<R>) =>
      unlessAborted('the walk', this.#settings.signal, act);
    const { session, calls } = await unlessOver(() => this.live());
    const walk = (calls as StoreCalls<V>).newWalk();
    const next = () => session.pool.run(walk.entries());
    while (!walk.done) {
      this.refuseClosed();
      for (const entry of await unlessOver(next)) {
        this.refuseClosed();
        yield select(entry);
      }
    }
  }

  async forEach(use: (value: V, key: Key, store: this) => unknown): Promise<void> {
    this.refuseClosed();
    checkFunction('the argument of forEach', use);
    for await (const [key, value] of this) await use(value, key, this);
  }

  scan(range: ScanOptions = {}): AsyncScan<[Key, V]> {
    return this.#scan(range, 'records', this.#pairs);
  }

  #scan<T>(options: ScanOptions, part: 'records' | 'keys', builders: Builders<T>): AsyncScan<T> {
    this.refuseClosed();
    const range = untilAborted(options, this.#settings.signal);
    // Every session of the store has an index of the same kind.
    const { index } = this.#open.session;
    return new RemoteScan(this, planScan(index, range, part, builders, this.#settings));
  }

  async loadSorted(entries: SortedEntries): Promise<number> {
    const load = async () => this.call('loadSorted', [await gathered(entries)]) as Promise<number>;
    return unlessAborted('loadSorted', this.#settings.signal, load);
  }

  // biome-ignore lint/suspicious/noExplicitAny: the overloads of the interface say of what type
  namespace(prefix: Key, options?: AnyNamespaceOptions): AsyncStore<any, Key, any> {
    this.refuseClosed();
    const settings = inNamespace(this.#settings, prefix, options);
    return new RemoteStore(this.#open.session, { ...settings, closesStore: false }, this);
  }

  withSignal(signal: AbortSignal): AsyncStore<V, Key, Value> {
    this.refuseClosed();
    const either = eitherSignal(signal, this.#settings.signal);
    const settings = { ...this.#settings, signal: either, closesStore: true };
    return new RemoteStore<V>(this.#open.session, settings, this);
  }

  /** @internal */
  beforeClose(listener: CloseListener): () => void {
    return this.#closing.listen(listener);
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    const announced = this.#closing.announce();
    // A listener may have closed it.
    if (this.#closed) return;
    this.#closed = true;
    const { session } = this.#latest();
    // Without a session listeners can give nothing back: other clients notice that this one is
    // gone.
    if (announced && !session.over) await announced;
    if (this.#parent === undefined) {
      await session.latest.close();
      publish('close', () => ({ url: this.url, store: this.name }));
    } else if (this.#settings.closesStore) {
      await this.#parent.close();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  [inspect.custom](_depth: number, options: InspectOptions): string {
    const { manifest } = this.#open.session.index;
    return inspected('AsyncStore', this, manifest.name, this.#closed, options);
  }

  /** @internal */
  refuseClosed(): void {
    if (this.#closed) throw new StepwellError('SW_CLOSED', `store ${this.name} has been closed`);
    this.#parent?.refuseClosed();
  }

  /**
   * The session, or a new one if it is over, and the calls in it.
   *
   * @internal
   */
  async live(): Promise<OpenSession> {
    this.refuseClosed();
    const { session } = this.#latest();
    if (session.over) await session.follow();
    this.refuseClosed();
    return this.#latest();
  }

  #latest(): OpenSession {
    const { latest } = this.#open.session;
    if (this.#open.session !== latest) this.#open = this.#callsIn(latest);
    return this.#open;
  }

  #callsIn(session: Session): OpenSession {
    const { index, bounded } = session;
    const { signal } = this.#settings;
    const attachment = signal ? session.withSignal(signal) : session;
    return { session, calls: new StoreCalls<unknown>(attachment, index, this.#settings, bounded) };
  }
}

forwardCalls(RemoteStore, StoreCalls);

/** A scan whose steps are operations over the network. Each call waits for the one before. */
class RemoteScan<T> implements AsyncScan<T> {
  readonly #store: RemoteStore<unknown>;
  readonly #plan: ScanPlan<T>;
  /** A scan stays with the session in which it began. */
  #open: OpenSession | undefined;
  #scan: RangeScan<T> | undefined;
  #sought: Uint8Array | undefined;
  #over = false;
  #last: Promise<unknown> = Promise.resolve();

  constructor(store: RemoteStore<unknown>, plan: ScanPlan<T>) {
    this.#store = store;
    this.#plan = plan;
  }

  async next(): Promise<IteratorResult<T, undefined>> {
    const [value] = await this.#take(1);
    return value === undefined ? { done: true, value: undefined } : { done: false, value };
  }

  async nextMany(size: number): Promise<T[]> {
    checkBatch(size);
    return this.#take(size);
  }

  #take(size: number): Promise<T[]> {
    return unlessAborted('the scan', this.#plan.signal, () => {
      const taking = this.#last.then(() => this.#takeNow(size));
      this.#last = taking.catch(() => {});
      return taking;
    });
  }

  async #takeNow(size: number): Promise<T[]> {
    this.#refuse();
    if (this.#over) return [];
    this.#open ??= await this.#store.live();
    const { session, calls } = this.#open;
    this.#scan ??= calls.newScan(this.#plan);
    if (this.#sought) this.#scan.seek(this.#sought);
    this.#sought = undefined;
    return session.pool.run(this.#scan.takeMany(size));
  }

  seek(key: Key): void {
    this.#refuse();
    const bytes = this.#plan.place(key);
    this.#last = this.#last.then(() => {
      this.#sought = bytes;
    });
  }

  async return(): Promise<IteratorResult<T, undefined>> {
    this.#over = true;
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): AsyncScan<T> {
    return this;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#over = true;
  }

  #refuse(): void {
    this.#store.refuseClosed();
    const { signal } = this.#plan;
    if (signal?.aborted) this.#over = true;
    refuseAborted('the scan', signal);
  }
}

/** `forwardCalls` adds these. */
export interface RemoteOperations extends Pick<StoreCalls<Uint8Array>, CallName> {}

/**
 * The calls of a store on memory nodes as operations, for programs that are operations themselves.
 * Each call runs within its caller's operation; the next call may use another session.
 */
// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: `forwardCalls` adds the calls
export class RemoteOperations implements CallForwarder {
  readonly #store: RemoteStore<unknown>;

  constructor(store: RemoteStore<unknown>) {
    this.#store = store;
  }

  get name(): string {
    return this.#store.name;
  }

  call(name: CallName, args: unknown[]): Operation<unknown> {
    return this.#store.within(name, args);
  }

  keysIn(bounds: RangeBounds, reverse: boolean, limit: number): Operation<Key[]> {
    return this.#store.within('keysIn', [bounds, reverse, limit]) as Operation<Key[]>;
  }
}

forwardCalls(RemoteOperations, StoreCalls);
