import { HASH_PADDING } from '../../records/hash.ts';

/** A key where it stands in memory: `bytes` of it from byte `at` on. */
export interface KeyBytes {
  readonly u8: Uint8Array;
  readonly at: number;
  readonly bytes: number;
}

/** A key with zeros up to the next 16 bytes: it can be hashed where it stands. */
export interface PaddedKey extends KeyBytes {
  /** The same memory; `at` is a multiple of 4. */
  readonly i32: Int32Array;
}

/** Bytes of a key and of the zeros behind it. */
export function paddedBytes(bytes: number): number {
  return Math.ceil(bytes / HASH_PADDING) * HASH_PADDING;
}

/** A key's bytes as a string of a character for each: such strings compare as the bytes do. */
export function textOfKey(key: Uint8Array): string {
  return Buffer.from(key.buffer, key.byteOffset, key.length).latin1Slice(0, key.length);
}
