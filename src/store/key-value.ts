/**
 * Any byte string of at most 65,535 bytes, even an empty one. A string stands for its UTF-8 bytes.
 */
export type Key = string | Uint8Array;

/** At most 64 MiB. A string stands for its UTF-8 bytes. */
export type Value = string | Uint8Array;

/**
 * How values come back. `auto` (the default) returns what was put: a string for a string, bytes for
 * bytes. `utf8` always returns a string and `bytes` always bytes, whichever client wrote the value.
 */
export type Encoding = 'auto' | 'utf8' | 'bytes';

/** The type that a key or value is read as; with `auto` it is known only at run time. */
export type Decoded<E extends Encoding> = E extends 'utf8'
  ? string
  : E extends 'bytes'
    ? Uint8Array
    : Value;

/**
 * Formats in which a store keeps values of any type. `json` is text, also for other clients. `v8`
 * is Node's structured clone: Maps, Sets, Dates, bigints, typed arrays, circular references; only
 * Node reads it. `msgpack` is MessagePack, which other languages read; needs the peer `msgpackr`.
 */
export type ValueFormat = 'json' | 'v8' | 'msgpack';

/**
 * A custom format. An error that it throws becomes the `cause` of SW_INVALID_VALUE (`encode`) or
 * SW_UNDECODABLE (`decode`). All clients of a store should use the same one.
 */
export interface ValueCodec<V> {
  /** Text or bytes that `decode` understands; text is stored as its UTF-8 bytes. */
  encode(value: V): Value;
  /** A copy of what was stored, which the codec may keep. */
  decode(bytes: Uint8Array): V;
}

/**
 * A value that callers share, such as one from a near cache: plain data is read-only at every
 * level. Maps, dates and other values that are not plain data are left as they are.
 */
export type Shared<V> = 0 extends 1 & V
  ? V
  : // biome-ignore lint/suspicious/noExplicitAny: of whatever parameters
    V extends Value | Date | ReadonlyMap<any, any> | ReadonlySet<any> | ((...args: any[]) => any)
    ? V
    : V extends object
      ? { readonly [P in keyof V]: Shared<V[P]> }
      : V;

/** The type that a store accepts for values that it returns as `V`. */
export type Written<V> = [V] extends [Value] ? Value : V;
