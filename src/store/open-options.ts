import type { Encoding, Key, OpenOptions, Value, ValueCodec, ValueFormat } from './api.ts';
import { checkFlag, checkFunction, checkOptions } from './arguments.ts';
import type { CheckOptions } from './reports.ts';

/**
 * The options of `open` without `values`: the type of the store is that of texts. At run time it is
 * `auto`, so bytes that another client has stored come back as bytes.
 */
export interface TextOptions<K extends Encoding> extends Omit<OpenOptions, 'values'> {
  values?: undefined;
  keys?: K;
}

/** The options of `open` with encodings that the type of the store follows. */
export interface EncodedOptions<V extends Encoding, K extends Encoding> extends OpenOptions {
  values?: V;
  keys?: K;
}

/**
 * The options of `open` when the caller says what the values are, as in `open<string>(url)`. With
 * `auto` that is a promise of the caller's, which no other client of the store may break.
 */
export interface TypedOptions<V extends Value, K extends Key> extends OpenOptions {
  values?: EncodingOf<V>;
  keys?: EncodingOf<K>;
}

/**
 * The options of `open` for values of any type: `open<Session>(url, { values: 'json' })`. What
 * another client wrote is not checked against the type.
 */
export interface CodecOptions<V, K extends Key> extends Omit<OpenOptions, 'values'> {
  /** SW_UNSUPPORTED for `msgpack` where the package msgpackr is not installed. */
  values: ValueFormat | ValueCodec<V>;
  keys?: EncodingOf<K>;
}

// biome-ignore lint/suspicious/noExplicitAny: of whatever type the caller's values are
export type AnyCodec = ValueCodec<any>;

/** The same with a near cache, whose objects callers share. */
export interface NearOptions<V, K extends Key> extends CodecOptions<V, K> {
  nearCache: NonNullable<OpenOptions['nearCache']>;
}

/** Any options of `open`. */
// biome-ignore lint/suspicious/noExplicitAny: of whatever type the caller's values are
export type AnyOptions = OpenOptions | CodecOptions<any, Key>;

type EncodingOf<T extends Value> = string | Uint8Array extends T
  ? Encoding
  : 'auto' | (T extends string ? 'utf8' : 'bytes');

/** The compiler finds what is missing in this list. */
const OPEN: Readonly<Record<keyof OpenOptions, true>> = {
  size: true,
  regionSize: true,
  maxClients: true,
  store: true,
  create: true,
  index: true,
  keys: true,
  values: true,
  delegation: true,
  hotspots: true,
  lockTimeoutMs: true,
  nearCache: true,
  ttlMs: true,
  sliding: true,
  clock: true,
  readOnly: true,
  chance: true,
  maxRecords: true,
  maxBytes: true,
  eviction: true,
  client: true,
  secret: true,
  tls: true,
  timeoutMs: true,
  signal: true,
};

/** Option names of `open`, `create` and `inspect`. */
export const OPEN_OPTIONS: readonly string[] = Object.keys(OPEN);

/** Raises SW_INVALID_ARGUMENT for a value that is not an object, and for an unknown option. */
export function checkOpenOptions(options: unknown): void {
  checkOptions(options, OPEN_OPTIONS);
}

/** The option of `destroy` and `dropStore`. Raises SW_INVALID_ARGUMENT. */
export function forceIn(options: { force?: boolean }): boolean {
  checkOptions(options, [...OPEN_OPTIONS, 'force']);
  const { force = false } = options;
  checkFlag('force', force);
  return force;
}

/** Raises SW_INVALID_ARGUMENT. */
export function checkCheckOptions(options: CheckOptions): void {
  checkOptions(options, [...OPEN_OPTIONS, 'onProgress', 'sweep']);
  if (options.onProgress !== undefined) checkFunction('onProgress', options.onProgress);
  checkFlag('sweep', options.sweep);
}
