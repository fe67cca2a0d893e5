import type { Encoding, Key, OpenOptions, Value } from '../api.ts';

/** What a key or a value comes back as: `auto` tells only at run time. */
export type Decoded<E extends Encoding> = E extends 'utf8'
  ? string
  : E extends 'bytes'
    ? Uint8Array
    : Value;

/** The options of `open` with encodings that the type of the store follows. */
export interface EncodedOptions<V extends Encoding, K extends Encoding> extends OpenOptions {
  values?: V;
  keys?: K;
}

/**
 * The options of `open` when the caller says what the values are, as in `open<string>(url)`. With
 * `auto` that is a promise of the caller's, whom no other client of the store must contradict.
 */
export interface TypedOptions<V extends Value, K extends Key> extends OpenOptions {
  values?: EncodingOf<V>;
  keys?: EncodingOf<K>;
}

type EncodingOf<T extends Value> = string | Uint8Array extends T
  ? Encoding
  : 'auto' | (T extends string ? 'utf8' : 'bytes');
