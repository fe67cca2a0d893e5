import { finalMix, HASH_PADDING, KeyHash } from '../../../records/hash.ts';
import { Scratch } from '../../../verbs/index.ts';

const REMEMBERED_MAX = 1024;
const SEAL = 0x5ca1ab1e;

/**
 * The cursor of a walk must be a number, so it is a hash of the separator at which the walk
 * continues. This client remembers the keys of the last cursors that it gave out.
 */
export class Cursors {
  readonly #keys = new Map<number, Uint8Array>();

  /** 44 bits of a hash, and 8 that check them; 0 stands for the beginning. */
  give(key: Uint8Array, seed: number): number {
    const cursor = cursorOf(key, seed);
    if (cursor === 0) return 0;
    this.#keys.delete(cursor);
    this.#keys.set(cursor, key);
    const [oldest] = this.#keys.keys();
    if (this.#keys.size > REMEMBERED_MAX) this.#keys.delete(oldest);
    return cursor;
  }

  recall(cursor: number): Uint8Array | undefined {
    return this.#keys.get(cursor);
  }
}

export function isCursor(cursor: number): boolean {
  if (cursor === 0) return true;
  if (!Number.isSafeInteger(cursor) || cursor < 0) return false;
  return sealed(Math.floor(cursor / 2 ** 40), Math.floor(cursor / 256) | 0) === cursor;
}

export function cursorOf(key: Uint8Array, seed: number): number {
  if (key.length === 0) return 0;
  const words = new Scratch(key.length + 2 * HASH_PADDING);
  words.u8.set(key, 0);
  const hash = new KeyHash();
  hash.compute(words.i32, 0, key.length, seed);
  return sealed(hash.h2 >>> 20, hash.h3);
}

function sealed(high: number, low: number): number {
  const check = 1 + ((finalMix(high ^ finalMix(low + SEAL)) >>> 0) % 255);
  return (high * 2 ** 32 + (low >>> 0)) * 256 + check;
}
