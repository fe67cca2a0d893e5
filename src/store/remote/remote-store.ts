import { type InspectOptions, inspect } from 'node:util';
import { publish } from '../../diagnostics.ts';
import { StepwellError } from '../../errors.ts';
import type { RemotePool } from '../../pool/remote-pool.ts';
import { type Operation, runWithin, waitFor } from '../../verbs/index.ts';
import { AbortableAttachment, eitherSignal, unlessAborted, untilAborted } from '../abortable.ts';
import type { AsyncStore, Entry, Key, OpenOptions, PoolHandle, Store, Value } from '../api.ts';
import { checkFunction } from '../arguments.ts';
import {
  type CallForwarder,
  type CallName,
  forwardCalls,
  type PromisedCalls,
} from '../calls/call-names.ts';
import { lifetimeOf } from '../calls/expiry.ts';
import { orderedIndex, planScan } from '../calls/range-scan.ts';
import {
  keyBuilder,
  pairBuilder,
  type ResultBuilder,
  valueBuilder,
} from '../calls/result-builders.ts';
import { gathered, type SortedEntries } from '../calls/sorted-load.ts';
import { StoreCalls } from '../calls/store-calls.ts';
import { type CloseListener, Closing } from '../closing.ts';
import { inspected } from '../inspected.ts';
import type { AsyncScan, ScanOptions } from '../ordered-api.ts';
import { checkClientOptions } from '../store-in-pool.ts';
import { type AnyNamespaceOptions, inNamespace, type RemoteSettings } from '../store-settings.ts';
import { formatOf } from '../values.ts';
import { credentialsOf, parseRemote } from './address.ts';
import { RemoteClients } from './remote-clients.ts';
import { type OperationName, RemoteOperations } from './remote-operations.ts';
import { type OpenSession, RemoteScan } from './remote-scan.ts';
import type { Session } from './session.ts';
import { SessionOpener } from './session-opener.ts';
import { type SessionSource, Sessions, SessionsOfView } from './sessions.ts';

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
    throw new StepwellError(
      'SW_INVALID_ARGUMENT',
      `the URL names the store ${location.store}, the options ${named.store}`,
    );
  }
  const opener = new SessionOpener(location, credentialsOf(location, options), named, clients);
  const store = named.store ?? 'default';
  const sessions = new Sessions(opener, await opener.open(), store, options.readOnly ?? false);
  publish('open', () => ({ url: location.url, store }));
  return new RemoteStore<V>(sessions, {
    name: store,
    url: location.url,
    keys: options.keys ?? 'auto',
    values: formatOf(options.values),
    lifetime: lifetimeOf(options),
    delegation: options.delegation ?? false,
    readOnly: options.readOnly,
  });
}

/** `forwardCalls` adds these. */
export interface RemoteStore<V> extends PromisedCalls<V> {}

/** A store on memory nodes: many operations in flight, over one session after the other. */
// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: `forwardCalls` adds the calls
export class RemoteStore<V> implements AsyncStore<V, Key, Value>, CallForwarder {
  readonly #sessions: SessionSource;
  readonly #settings: RemoteSettings;
  readonly #closing: Closing;
  /** The calls in the session that was used last. */
  #open: OpenSession;
  #closed = false;

  constructor(sessions: SessionSource, settings: RemoteSettings, closing = new Closing()) {
    this.#sessions = sessions;
    this.#settings = settings;
    this.#closing = closing;
    this.#open = this.#callsIn(sessions.current);
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
    throw new StepwellError('SW_UNSUPPORTED', 'a store over a network has no synchronous calls');
  }

  /** A call begins at once when the session is there, so that it has the caller's bytes. */
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
    return this.#sessions.current.over ? this.live().then(run) : run(this.#calls());
  }

  /**
   * A call as a part of another operation, in the session that there is when the part begins.
   *
   * @internal
   */
  *within(name: OperationName, args: unknown[]): Operation<unknown> {
    this.refuseClosed();
    if (this.#sessions.current.over) yield* waitFor(this.live());
    const { session, calls } = this.#calls();
    const call = calls[name] as (...args: unknown[]) => Operation<unknown>;
    return yield* runWithin(session.pool.fabric, call.apply(calls, args));
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
    return this.#sessions.current.pool;
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
    return this.#scan(range, 'keys', keyBuilder(this.#settings));
  }

  values(): AsyncIterableIterator<V>;
  values(range: ScanOptions): AsyncScan<V>;
  values(range?: ScanOptions): AsyncIterableIterator<V> {
    if (range === undefined) return this.#walk(({ value }) => value);
    return this.#scan(range, 'records', valueBuilder<V>(this.#settings.values));
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
    return this.#scan(range, 'records', pairBuilder<V>(this.#settings));
  }

  #scan<T>(
    options: ScanOptions,
    part: 'records' | 'keys',
    builder: ResultBuilder<T>,
  ): AsyncScan<T> {
    this.refuseClosed();
    // The store's index stays of one kind, whatever session is open.
    orderedIndex(this.#sessions.current.index, this.name);
    const { namespace, signal } = this.#settings;
    return new RemoteScan(this, planScan(untilAborted(options, signal), part, builder, namespace));
  }

  async loadSorted(entries: SortedEntries): Promise<number> {
    const load = async () => this.call('loadSorted', [await gathered(entries)]) as Promise<number>;
    return unlessAborted('loadSorted', this.#settings.signal, load);
  }

  // biome-ignore lint/suspicious/noExplicitAny: the overloads of the interface say of what type
  namespace(prefix: Key, options?: AnyNamespaceOptions): AsyncStore<any, Key, any> {
    this.refuseClosed();
    const settings = inNamespace(this.#settings, prefix, options);
    const sessions = new SessionsOfView(this.#sessions, () => this.refuseClosed());
    return new RemoteStore(sessions, settings, new Closing(this.#closing));
  }

  withSignal(signal: AbortSignal): AsyncStore<V, Key, Value> {
    this.refuseClosed();
    const settings = { ...this.#settings, signal: eitherSignal(signal, this.#settings.signal) };
    const close = () => this.close();
    return new RemoteStore<V>(
      new SessionsOfView(this.#sessions, () => this.refuseClosed(), close),
      settings,
      new Closing(this.#closing),
    );
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
    // Without a session nothing is given back: the others find out that this client is gone.
    if (announced && !this.#sessions.current.over) await announced;
    await this.#sessions.close();
    const { namespace, signal } = this.#settings;
    if (!namespace && !signal) publish('close', () => ({ url: this.url, store: this.name }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  [inspect.custom](_depth: number, options: InspectOptions): string {
    const { manifest } = this.#sessions.current.index;
    return inspected('AsyncStore', this, manifest.name, this.#closed, options);
  }

  /** @internal */
  refuseClosed(): void {
    if (this.#closed) throw new StepwellError('SW_CLOSED', `store ${this.name} has been closed`);
    this.#sessions.refuseClosed();
  }

  /**
   * The session, or a new one when it is over, and the calls in it.
   *
   * @internal
   */
  async live(): Promise<OpenSession> {
    this.refuseClosed();
    await this.#sessions.live();
    this.refuseClosed();
    return this.#calls();
  }

  #calls(): OpenSession {
    const { current } = this.#sessions;
    if (this.#open.session !== current) this.#open = this.#callsIn(current);
    return this.#open;
  }

  #callsIn(session: Session): OpenSession {
    const { index, bounded } = session;
    const { signal } = this.#settings;
    const attachment = signal ? new AbortableAttachment(session, signal) : session;
    return { session, calls: new StoreCalls<unknown>(attachment, index, this.#settings, bounded) };
  }
}

forwardCalls(RemoteStore);
