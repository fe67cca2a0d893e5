import type { Encoding, Key, OpenOptions, Value, ValueCodec, ValueFormat } from '../api.ts';

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

/** The options of `open`, whichever they are. */
// biome-ignore lint/suspicious/noExplicitAny: of whatever type the caller's values are
export type AnyOptions = OpenOptions | CodecOptions<any, Key>;

type EncodingOf<T extends Value> = string | Uint8Array extends T
  ? Encoding
  : 'auto' | (T extends string ? 'utf8' : 'bytes');
