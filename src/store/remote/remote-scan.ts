import { StepwellError } from '../../errors.ts';
import { isOrdered, type OrderedIndex } from '../../indexes/contract.ts';
import {
  entryTaker,
  KeyTaker,
  PairTaker,
  rawKeyTaker,
  type Taker,
  valueTaker,
} from '../administration/takers.ts';
import type { Encoding, Entry, Key, Value } from '../api.ts';
import { checkBatch } from '../calls/arguments.ts';
import { boundsOnly, keyBytes, rangeOf } from '../calls/key-range.ts';
import { CLEAR_BATCH } from '../calls/ordered-calls.ts';
import { RangeCount } from '../calls/range-count.ts';
import { type Part, RangeScan } from '../calls/range-scan.ts';
import type { AsyncScan, RangeBounds, ScanOptions } from '../ordered-api.ts';
import type { Session } from './session.ts';

/** The store that a scan is of. */
export interface RemoteScanHost {
  /** Raises SW_CLOSED. */
  refuseClosed(): void;
  session(): Promise<Session>;
}

/** A scan whose steps are operations over the network; calls wait for one another. */
export class RemoteScan<T> implements AsyncScan<T> {
  readonly #host: RemoteScanHost;
  readonly #begin: (index: OrderedIndex) => RangeScan<T>;
  readonly #signal: AbortSignal | undefined;
  #session: Session | undefined;
  #scan: RangeScan<T> | undefined;
  #sought: Uint8Array | undefined;
  #over = false;
  #last: Promise<unknown> = Promise.resolve();

  constructor(
    host: RemoteScanHost,
    begin: (index: OrderedIndex) => RangeScan<T>,
    signal: AbortSignal | undefined,
  ) {
    this.#host = host;
    this.#begin = begin;
    this.#signal = signal;
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
    const taking = this.#last.then(() => this.#takeNow(size));
    this.#last = taking.catch(() => {});
    return taking;
  }

  async #takeNow(size: number): Promise<T[]> {
    this.#refuse();
    if (this.#over) return [];
    const { session, scan } = await this.#opened();
    const taken = scan.takeMany(size);
    while (taken.length < size && !scan.done) {
      await session.runOne(() => scan.step());
      for (const value of scan.takeMany(size - taken.length)) taken.push(value);
    }
    return taken;
  }

  async #opened(): Promise<{ session: Session; scan: RangeScan<T> }> {
    this.#session ??= await this.#host.session();
    this.#scan ??= this.#begin(this.#session.index as OrderedIndex);
    if (this.#sought) this.#scan.seek(this.#sought);
    this.#sought = undefined;
    return { session: this.#session, scan: this.#scan };
  }

  seek(key: Key): void {
    this.#refuse();
    const bytes = keyBytes(key);
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
    this.#host.refuseClosed();
    const signal = this.#signal;
    if (signal === undefined || !signal.aborted) return;
    this.#over = true;
    const cause: unknown = signal.reason;
    throw new StepwellError('SW_ABORTED', 'the scan was aborted by its signal', { cause });
  }
}

/** The calls of a store over the network that need order. */
export class RemoteOrdered<V extends Value> {
  readonly #host: RemoteScanHost;
  readonly #name: string;
  /** Of the store's index, which stays of one kind whatever session is open. */
  readonly #ordered: boolean;
  readonly #settings: { keys: Encoding; values: Encoding };

  constructor(
    host: RemoteScanHost,
    { index }: Session,
    settings: { name: string; keys: Encoding; values: Encoding },
  ) {
    this.#host = host;
    this.#ordered = isOrdered(index);
    this.#name = `store ${settings.name} has the index ${index.manifest.name}`;
    this.#settings = settings;
  }

  entries(options: ScanOptions): AsyncScan<[Key, V]> {
    return this.#scan(options, 'records', new PairTaker(this.#settings));
  }

  keys(options: ScanOptions): AsyncScan<Key> {
    return this.#scan(options, 'keys', new KeyTaker(this.#settings.keys));
  }

  values(options: ScanOptions): AsyncScan<V> {
    return this.#scan(options, 'records', valueTaker<V>(this.#settings.values));
  }

  /** Hands the keys of a range to `remove`, some at a time. */
  async clear(
    options: ScanOptions,
    remove: (keys: Uint8Array[]) => Promise<unknown>,
  ): Promise<void> {
    const scan = this.#scan(options, 'keys', rawKeyTaker());
    for (;;) {
      const keys = await scan.nextMany(CLEAR_BATCH);
      if (keys.length === 0) return;
      await remove(keys);
    }
  }

  /** The first record of the range in its direction. */
  async first(bounds: RangeBounds, reverse: boolean): Promise<Entry<V> | undefined> {
    const taker = entryTaker<V>(this.#settings);
    const options = { ...boundsOnly(bounds), reverse, limit: 1 };
    return (await this.#scan(options, 'records', taker).next()).value;
  }

  async count(bounds: RangeBounds): Promise<number> {
    this.#refuseUnordered();
    const session = await this.#host.session();
    const counting = new RangeCount(session.index as OrderedIndex, boundsOnly(bounds));
    while (!counting.done) await session.runOne(() => counting.step());
    return counting.count;
  }

  #refuseUnordered(): void {
    this.#host.refuseClosed();
    if (this.#ordered) return;
    throw new StepwellError(
      'SW_UNSUPPORTED',
      `${this.#name}, whose keys have no order; chime and hstore keep them in order`,
    );
  }

  #scan<T>(options: ScanOptions, part: Part, taker: Taker<T>): AsyncScan<T> {
    this.#refuseUnordered();
    const { range, limit } = rangeOf(options);
    const begin = (index: OrderedIndex) => new RangeScan(index, range, limit, taker, part);
    return new RemoteScan(this.#host, begin, options.signal);
  }
}
