import type { Request } from '../../../indexes/substrates/request.ts';
import { HEADER_BYTES } from '../../../records/layout.ts';
import type { Encoding, Entry, Key, Value } from '../../api.ts';
import { decodeKey, decodeValue } from '../decoding.ts';
import { FoundKeys } from './found-keys.ts';

/** What a scan makes of the records that a step meets. Steps do not overlap. */
export interface Taker<T> {
  begin(): void;
  /** The request's found record, its key in `outgoing`. */
  add(request: Request, keyBytes: number): void;
  /** What was made of all that were added since `begin`; the list is the caller's. */
  end(): T[];
}

/** Something of each record by itself. */
export class EachTaker<T> implements Taker<T> {
  readonly #take: (request: Request, keyBytes: number) => T;
  #taken: T[] = [];

  constructor(take: (request: Request, keyBytes: number) => T) {
    this.#take = take;
  }

  begin(): void {
    this.#taken = [];
  }

  add(request: Request, keyBytes: number): void {
    this.#taken.push(this.#take(request, keyBytes));
  }

  end(): T[] {
    const taken = this.#taken;
    this.#taken = [];
    return taken;
  }
}

export function valueTaker<V extends Value>(values: Encoding): Taker<V> {
  return new EachTaker((request) => decodeValue(request, values) as V);
}

export function entryTaker<V extends Value>(as: {
  keys: Encoding;
  values: Encoding;
}): Taker<Entry<V>> {
  return new EachTaker((request, keyBytes) => ({
    key: decodeKey(request, keyBytes, as.keys),
    value: decodeValue(request, as.values) as V,
    version: request.foundVersion,
  }));
}

/** Keys as bytes, for a clearing. */
export function rawKeyTaker(): Taker<Uint8Array> {
  return new EachTaker(foundKey);
}

/** The bytes of the key that a step met. */
export function foundKey({ outgoing }: Request, keyBytes: number): Uint8Array {
  return outgoing.u8.slice(HEADER_BYTES, HEADER_BYTES + keyBytes);
}

export class KeyTaker implements Taker<Key> {
  readonly #keys: FoundKeys;

  constructor(keys: Encoding) {
    this.#keys = new FoundKeys(keys);
  }

  begin(): void {
    this.#keys.begin();
  }

  add(request: Request, keyBytes: number): void {
    this.#keys.add(request, keyBytes);
  }

  end(): Key[] {
    return this.#keys.end();
  }
}

export class PairTaker<V extends Value> implements Taker<[Key, V]> {
  readonly #keys: FoundKeys;
  readonly #as: Encoding;
  #values: V[] = [];

  constructor({ keys, values }: { keys: Encoding; values: Encoding }) {
    this.#keys = new FoundKeys(keys);
    this.#as = values;
  }

  begin(): void {
    this.#keys.begin();
    this.#values = [];
  }

  add(request: Request, keyBytes: number): void {
    this.#values.push(decodeValue(request, this.#as) as V);
    this.#keys.add(request, keyBytes);
  }

  end(): [Key, V][] {
    const keys = this.#keys.end();
    const values = this.#values;
    this.#values = [];
    const pairs: [Key, V][] = [];
    for (let i = 0; i < keys.length; i++) pairs.push([keys[i], values[i]]);
    return pairs;
  }
}
