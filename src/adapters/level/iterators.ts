import type { AsyncStore, Key, Value } from '../../store/api.ts';
import type { AsyncScan } from '../../store/ordered-api.ts';
import { type Data, type Format, fromStore, toStore } from './formats.ts';
import { type LevelRange, rangeOf } from './ranges.ts';

/** What abstract-level hands to the private methods that make iterators. */
export interface IteratorOptions extends LevelRange {
  keys: boolean;
  values: boolean;
  keyEncoding: Format;
  valueEncoding: Format;
  signal?: AbortSignal;
}

type Pair = [key: Data | undefined, value: Data | undefined];

/**
 * A scan, and what becomes of each thing that it hands out. It is begun before the iterator: that
 * one belongs to its database as soon as its base class is made, and has to be closed with it.
 */
export interface Source<To> {
  next(): Promise<To | undefined>;
  nextMany(size: number): Promise<To[]>;
  seek(target: Data): void;
  close(): Promise<unknown>;
}

/** Looks at the signal after each read as well: abstract-level does so only before. */
function source<From, To>(
  scan: AsyncScan<From>,
  signal: AbortSignal | undefined,
  convert: (from: From) => To,
): Source<To> {
  return {
    async next() {
      const { done, value } = await scan.next();
      if (signal?.aborted) throw new AbortError();
      return done ? undefined : convert(value);
    },
    async nextMany(size) {
      const found = await scan.nextMany(size);
      if (signal?.aborted) throw new AbortError();
      return found.map(convert);
    },
    seek: (target) => scan.seek(toStore(target)),
    close: () => scan.return(),
  };
}

/** The error that abstract-level has for this, and does not export. */
class AbortError extends Error {
  override readonly name = 'AbortError';
  readonly code = 'LEVEL_ABORTED';

  constructor() {
    super('Operation has been aborted');
  }
}

/** Of entries. Reads no values when none are asked for. */
export function pairs(store: AsyncStore<Value>, options: IteratorOptions): Source<Pair> {
  const { signal, keyEncoding, valueEncoding } = options;
  const range = rangeOf(options);
  const key = (data: Key) => fromStore(data, keyEncoding);
  const value = (data: Value) => fromStore(data, valueEncoding);
  if (!options.values) return source(store.keys(range), signal, (k) => [key(k), undefined]);
  if (!options.keys) return source(store.values(range), signal, (v) => [undefined, value(v)]);
  return source(store.scan(range), signal, ([k, v]) => [key(k), value(v)]);
}

export function keys(store: AsyncStore<Value>, options: IteratorOptions): Source<Data> {
  const { keyEncoding, signal } = options;
  return source(store.keys(rangeOf(options)), signal, (key) => fromStore(key, keyEncoding));
}

export function values(store: AsyncStore<Value>, options: IteratorOptions): Source<Data> {
  const { valueEncoding, signal } = options;
  return source(store.values(rangeOf(options)), signal, (data) => fromStore(data, valueEncoding));
}

/** Makes the iterator hand out what the source has. */
export function drive<I extends object, To>(iterator: I, source: Source<To>): I {
  return Object.assign(iterator, {
    _next: () => source.next(),
    _nextv: (size: number) => source.nextMany(size),
    _seek: (target: Data) => source.seek(target),
    _close: () => source.close(),
  });
}
