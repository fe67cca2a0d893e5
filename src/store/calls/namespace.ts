import type { KeyBound, KeyRange } from '../../indexes/contract.ts';
import type { Request } from '../../indexes/substrates/request.ts';
import { checkKey } from '../../records/codec.ts';
import { HEADER_BYTES } from '../../records/layout.ts';
import type { Key } from '../api.ts';
import { keyBytes, prefixRange } from '../keys.ts';
import { rangeOf } from './key-range.ts';

/** The keys of a store that begin with a prefix. Callers see them without it. */
export class Namespace {
  readonly bytes: Uint8Array;
  readonly #text: string | undefined;
  readonly #all: KeyRange;

  /** Raises SW_INVALID_KEY. */
  constructor(prefix: Key, outer?: Namespace) {
    checkKey(prefix);
    const whole = outer === undefined ? prefix : outer.key(prefix);
    checkKey(whole);
    this.bytes = keyBytes(whole);
    this.#text = typeof whole === 'string' ? whole : undefined;
    this.#all = rangeOf(prefixRange(this.bytes)).range;
  }

  /** The key in the store. Returns an invalid key unchanged: encoding refuses it. */
  key(key: Key): Key {
    if (typeof key === 'string' && this.#text !== undefined) return this.#text + key;
    if (typeof key !== 'string' && !(key instanceof Uint8Array)) return key;
    checkKey(key);
    return Buffer.concat([this.bytes, keyBytes(key)]);
  }

  /** Whether the key that a walk met, in `outgoing`, begins with the prefix. */
  has({ outgoing: { u8 } }: Request, keyBytes: number): boolean {
    const { bytes } = this;
    if (keyBytes < bytes.length) return false;
    for (let i = 0; i < bytes.length; i++) if (u8[HEADER_BYTES + i] !== bytes[i]) return false;
    return true;
  }

  /** The range in the store. */
  within({ lower, upper, ...rest }: KeyRange): KeyRange {
    const inStore = (bound: KeyBound): KeyBound => ({
      ...bound,
      key: keyBytes(this.key(bound.key)),
    });
    return {
      ...rest,
      lower: lower ? inStore(lower) : this.#all.lower,
      upper: upper ? inStore(upper) : this.#all.upper,
    };
  }
}
