import { StepwellError } from '../../errors.ts';
import type { Index, OrderedIndex } from '../../indexes/contract.ts';
import {
  entryTaker,
  KeyTaker,
  PairTaker,
  rawKeyTaker,
  type Taker,
  valueTaker,
} from '../administration/takers.ts';
import type { Encoding, Entry, Key, Value } from '../api.ts';
import { type ScanHost, SharedScan } from '../local/shared-scan.ts';
import type { RangeBounds, RangeOptions, Scan, ScanOptions } from '../ordered-api.ts';
import { boundsOnly, rangeOf } from './key-range.ts';
import { RangeCount } from './range-count.ts';
import { type Part, RangeScan } from './range-scan.ts';

/** Keys that `clear` removes together. */
export const CLEAR_BATCH = 256;

interface Settings {
  name: string;
  keys: Encoding;
  values: Encoding;
}

/** The calls of a store that need order. Each raises SW_UNSUPPORTED on an index without. */
export class OrderedCalls<V extends Value> {
  readonly #index: Index;
  readonly #settings: Settings;
  readonly #host: ScanHost;
  /** Each for all scans, whose steps end before the call that they are of. */
  readonly #pairs: Taker<[Key, V]>;
  readonly #keys: Taker<Key>;
  readonly #values: Taker<V>;

  constructor(index: Index, settings: Settings, host: ScanHost) {
    this.#index = index;
    this.#settings = settings;
    this.#host = host;
    this.#pairs = new PairTaker(settings);
    this.#keys = new KeyTaker(settings.keys);
    this.#values = valueTaker(settings.values);
  }

  entries(options: ScanOptions): Scan<[Key, V]> {
    return this.#scan(options, 'records', this.#pairs);
  }

  keys(options: ScanOptions): Scan<Key> {
    return this.#scan(options, 'keys', this.#keys);
  }

  values(options: ScanOptions): Scan<V> {
    return this.#scan(options, 'records', this.#values);
  }

  /** The first record of the range in its direction. */
  first(bounds: RangeBounds, reverse: boolean): Entry<V> | undefined {
    const range = boundsOnly(bounds);
    const taker = entryTaker<V>(this.#settings);
    return this.#scan({ ...range, reverse, limit: 1 }, 'records', taker).next().value;
  }

  count(bounds: RangeBounds): number {
    const counting = new RangeCount(this.#ordered(), boundsOnly(bounds));
    this.#host.refuseClosed();
    while (!counting.done) this.#host.runOne(() => counting.step());
    return counting.count;
  }

  /** Hands the keys of a range to `remove`, some at a time. */
  clear(options: RangeOptions, remove: (keys: Uint8Array[]) => void): void {
    const scan = this.#scan(options, 'keys', rawKeyTaker());
    for (;;) {
      const keys = scan.nextMany(CLEAR_BATCH);
      if (keys.length === 0) return;
      remove(keys);
    }
  }

  #scan<T>(options: ScanOptions, part: Part, taker: Taker<T>): Scan<T> {
    this.#host.refuseClosed();
    return new SharedScan(this.#host, this.#range(options, part, taker), options.signal);
  }

  #range<T>(options: ScanOptions, part: Part, taker: Taker<T>): RangeScan<T> {
    const index = this.#ordered();
    const { range, limit } = rangeOf(options);
    return new RangeScan(index, range, limit, taker, part);
  }

  #ordered(): OrderedIndex {
    const { name, ordered } = this.#index.manifest;
    if (ordered) return this.#index as OrderedIndex;
    const why = `store ${this.#settings.name} has the index ${name}, whose keys have no order`;
    throw new StepwellError(
      'SW_UNSUPPORTED',
      `${why}; create it with the index chime or hstore for ranges`,
    );
  }
}
