/**
 * Any byte string is a key, the empty one too. A string is its UTF-8 bytes. At most 65,535 bytes.
 */
export type Key = string | Uint8Array;

/** A string is its UTF-8 bytes; at most 64 MiB. */
export type Value = string | Uint8Array;

/**
 * How values come back. `auto` (the default) returns what was put: a string for a string, bytes for
 * bytes. `utf8` and `bytes` always decode so, whichever client wrote the value.
 */
export type Encoding = 'auto' | 'utf8' | 'bytes';
