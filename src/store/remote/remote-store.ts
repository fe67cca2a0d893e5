import { type InspectOptions, inspect } from 'node:util';
import { StepwellError } from '../../errors.ts';
import type { Operation } from '../../verbs/index.ts';
import type { AsyncStore, Entry, Key, OpenOptions, PoolHandle, Store, Value } from '../api.ts';
import {
  type CallForwarder,
  type CallName,
  forwardCalls,
  type PromisedCalls,
} from '../calls/call-names.ts';
import { lifetimeOf } from '../calls/expiry.ts';
import { ExpirySweep, runTurns } from '../calls/expiry-sweep.ts';
import { orderedIndex, planScan } from '../calls/ranges/scan-plan.ts';
import { gathered, type SortedEntries } from '../calls/ranges/sorted-load.ts';
import { KeyTaker, PairTaker, type Taker, valueTaker } from '../calls/ranges/takers.ts';
import { StoreCalls } from '../calls/store-calls.ts';
import { inspected } from '../inspected.ts';
import type { AsyncScan, ScanOptions } from '../ordered-api.ts';
import { checkClientOptions } from '../store-in-pool.ts';
import type { RemoteSettings } from '../store-settings.ts';
import { credentialsOf, parseRemote } from './address.ts';
import { RemoteClients } from './remote-clients.ts';
import { type OpenSession, RemoteScan } from './remote-scan.ts';
import type { Session } from './session.ts';
import { SessionOpener } from './session-opener.ts';

/** Opens a store in a pool on memory nodes, by a client of this thread; see `open`. */
export async function openRemote<V extends Value>(
  url: string,
  options: OpenOptions,
  clients = RemoteClients.ofThread(),
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
  const opener = new SessionOpener(location, credentialsOf(location, options), named, clients);
  const session = await opener.open();
  return new RemoteStore<V>(opener, session, {
    name: named.store ?? 'default',
    url: location.url,
    keys: options.keys ?? 'auto',
    values: options.values ?? 'auto',
    lifetime: lifetimeOf(options),
    delegation: options.delegation ?? false,
  });
}

/** `forwardCalls` adds these. */
export interface RemoteStore<V extends Value> extends PromisedCalls<V> {}

/** A store on memory nodes: many operations in flight, over one session after the other. */
// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: `forwardCalls` adds the calls
export class RemoteStore<V extends Value> implements AsyncStore<V>, CallForwarder {
  readonly #opener: SessionOpener;
  readonly #settings: RemoteSettings;
  #open: OpenSession;
  #opening: Promise<OpenSession> | undefined;
  #closed = false;

  constructor(opener: SessionOpener, session: Session, settings: RemoteSettings) {
    this.#opener = opener;
    this.#settings = settings;
    this.#open = this.#callsIn(session);
    this.#sweepExpired();
  }

  /** Takes expired records out as long as the store is open; not while it has no session. */
  #sweepExpired(): void {
    let of = this.#open.session;
    let sweep = new ExpirySweep(of, of.index);
    runTurns(sweep.pause, async () => {
      const { session } = this.#open;
      if (this.#closed) return undefined;
      if (session !== of) sweep = new ExpirySweep(session, session.index);
      of = session;
      if (!session.over) await session.pool.run(sweep.turn());
      return sweep.pause;
    });
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

  /** A call begins at once when the session is there, so that it has the caller's bytes. */
  async call(name: CallName | 'loadSorted', args: unknown[]): Promise<unknown> {
    this.refuseClosed();
    const { session, calls } = this.#open.session.over ? await this.live() : this.#open;
    const call = calls[name] as (...args: unknown[]) => Operation<unknown>;
    return session.pool.run(call.apply(calls, args));
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
    return this.#scan(range, 'keys', new KeyTaker(this.#settings.keys));
  }

  values(): AsyncIterableIterator<V>;
  values(range: ScanOptions): AsyncScan<V>;
  values(range?: ScanOptions): AsyncIterableIterator<V> {
    if (range === undefined) return this.#walk(({ value }) => value);
    return this.#scan(range, 'records', valueTaker<V>(this.#settings.values));
  }

  [Symbol.asyncIterator](): AsyncIterableIterator<[Key, V]> {
    return this.entries();
  }

  async *#walk<T>(select: (entry: Entry<V>) => T): AsyncIterableIterator<T> {
    const { session, calls } = await this.live();
    const walk = (calls as StoreCalls<V>).newWalk();
    while (!walk.done) {
      this.refuseClosed();
      for (const entry of await session.pool.run((calls as StoreCalls<V>).entriesOf(walk))) {
        this.refuseClosed();
        yield select(entry);
      }
    }
  }

  async forEach(use: (value: V, key: Key, store: this) => unknown): Promise<void> {
    for await (const [key, value] of this) await use(value, key, this);
  }

  scan(range: ScanOptions = {}): AsyncScan<[Key, V]> {
    return this.#scan(range, 'records', new PairTaker<V>(this.#settings));
  }

  #scan<T>(options: ScanOptions, part: 'records' | 'keys', taker: Taker<T>): AsyncScan<T> {
    this.refuseClosed();
    // The store's index stays of one kind, whatever session is open.
    orderedIndex(this.#open.session.index, this.name);
    return new RemoteScan(this, planScan(options, part, taker));
  }

  async loadSorted(entries: SortedEntries): Promise<number> {
    return this.call('loadSorted', [await gathered(entries)]) as Promise<number>;
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.#open.session.close();
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
  }

  /**
   * The session, or a new one when it is over: calls that were under way have failed with it, later
   * ones go on under a new incarnation.
   *
   * @internal
   */
  async live(): Promise<OpenSession> {
    this.refuseClosed();
    if (!this.#open.session.over) return this.#open;
    this.#opening ??= this.#reopen().finally(() => {
      this.#opening = undefined;
    });
    const open = await this.#opening;
    this.refuseClosed();
    return open;
  }

  async #reopen(): Promise<OpenSession> {
    const session = await this.#opener.open(this.#open.session);
    const open = this.#callsIn(session);
    if (this.#closed) await session.close();
    else this.#open = open;
    return open;
  }

  #callsIn(session: Session): OpenSession {
    return { session, calls: new StoreCalls<Value>(session, session.index, this.#settings) };
  }
}

forwardCalls(RemoteStore);
