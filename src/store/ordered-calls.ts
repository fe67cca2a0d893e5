import { StepwellError } from '../errors.ts';
import type { Index, OrderedIndex } from '../indexes/contract.ts';
import { HEADER_BYTES } from '../records/layout.ts';
import type { Encoding, Entry, Key, Value } from './api.ts';
import { decodeKey, decodeValue } from './decoding.ts';
import { rangeOf } from './key-range.ts';
import type { RangeBounds, RangeOptions, Scan, ScanOptions } from './ordered-api.ts';
import { RangeCount } from './range-count.ts';
import { type Part, RangeScan, type Take } from './range-scan.ts';
import { type ScanHost, SharedScan } from './shared-scan.ts';

/** Keys that `clear` removes together. */
const CLEAR_BATCH = 256;

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
  readonly #key: Take<Key>;
  readonly #value: Take<V>;

  constructor(index: Index, settings: Settings, host: ScanHost) {
    this.#index = index;
    this.#settings = settings;
    this.#host = host;
    this.#key = (request, keyBytes) => decodeKey(request, keyBytes, settings.keys);
    this.#value = (request) => decodeValue(request, settings.values) as V;
  }

  entries(options: ScanOptions): Scan<[Key, V]> {
    return this.#scan(options, 'records', (request, keyBytes) => [
      this.#key(request, keyBytes),
      this.#value(request, keyBytes),
    ]);
  }

  keys(options: ScanOptions): Scan<Key> {
    return this.#scan(options, 'keys', this.#key);
  }

  values(options: ScanOptions): Scan<V> {
    return this.#scan(options, 'records', this.#value);
  }

  /** The first record of the range in its direction. */
  first(bounds: RangeBounds, reverse: boolean): Entry<V> | undefined {
    const { gte, gt, lte, lt, ...rest } = bounds;
    refuseBeyondBounds(rest);
    const scan = this.#scan<Entry<V>>(
      { gte, gt, lte, lt, reverse, limit: 1 },
      'records',
      (request, bytes) => ({
        key: this.#key(request, bytes),
        value: this.#value(request, bytes),
        version: request.foundVersion,
      }),
    );
    return scan.next().value;
  }

  count(bounds: RangeBounds): number {
    const { gte, gt, lte, lt, ...rest } = bounds;
    refuseBeyondBounds(rest);
    const counting = new RangeCount(this.#ordered(), { gte, gt, lte, lt });
    this.#host.refuseClosed();
    while (!counting.done) this.#host.runOne(counting.step());
    return counting.count;
  }

  /** Hands the keys of a range to `remove`, some at a time. */
  clear(options: RangeOptions, remove: (keys: Uint8Array[]) => void): void {
    const scan = this.#scan(options, 'keys', ({ outgoing }, bytes) =>
      outgoing.u8.slice(HEADER_BYTES, HEADER_BYTES + bytes),
    );
    for (;;) {
      const keys = scan.nextMany(CLEAR_BATCH);
      if (keys.length === 0) return;
      remove(keys);
    }
  }

  #scan<T>(options: ScanOptions, part: Part, take: Take<T>): Scan<T> {
    this.#host.refuseClosed();
    return new SharedScan(this.#host, this.#range(options, part, take), options.signal);
  }

  #range<T>(options: ScanOptions, part: Part, take: Take<T>): RangeScan<T> {
    const index = this.#ordered();
    const { range, limit } = rangeOf(options);
    return new RangeScan(index, range, limit, take, part);
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

function refuseBeyondBounds(rest: object): void {
  const [name] = Object.keys(rest);
  if (name === undefined) return;
  throw new StepwellError('SW_INVALID_ARGUMENT', `there is gte, gt, lte and lt here, not ${name}`);
}
