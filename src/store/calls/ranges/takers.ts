import type { RecordBlock } from '../../../indexes/contract.ts';
import type { Request } from '../../../indexes/substrates/request.ts';
import { HEADER_BYTES } from '../../../records/layout.ts';
import type { Expiry } from '../../../records/times.ts';
import type { Encoding, Entry, Key } from '../../api.ts';
import type { Format } from '../../values/value-format.ts';
import { decodeKey, decodeValue } from '../decoding.ts';
import { FoundKeys } from './found-keys.ts';
import { FoundValues } from './found-values.ts';
import type { Namespace } from './namespace.ts';

/** What a scan makes of the records that a step meets. Steps do not overlap. */
export interface Taker<T> {
  begin(): void;
  /** The request's found record, its key in `outgoing`. */
  add(request: Request, keyBytes: number): void;
  /** The first `count` records of a block; where it is missing they are added one by one. */
  addBlock?(block: RecordBlock, count: number): void;
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

/** How a store was opened, as far as it matters to what comes back. */
export interface Coding {
  keys: Encoding;
  values: Format;
  namespace?: Namespace | undefined;
}

export function valueTaker<V>(values: Format): Taker<V> {
  return new ValueTaker(values);
}

export function entryTaker<V>(as: Coding): Taker<Entry<V>> {
  const skip = as.namespace?.bytes.length ?? 0;
  return new EachTaker((request, keyBytes) => {
    const entry: Entry<V> = {
      key: decodeKey(request, keyBytes, as.keys, skip),
      value: decodeValue(request, as.values) as V,
      version: request.foundVersion,
    };
    const { foundExpiry } = request;
    if (foundExpiry !== undefined) entry.expires = expiresAs(foundExpiry);
    return entry;
  });
}

function expiresAs({ deadline, sliding }: Expiry): Entry<never>['expires'] {
  return sliding ? { ttlMs: deadline, sliding } : { expiresAt: deadline };
}

/** Keys as bytes, for a clearing. */
export function rawKeyTaker(namespace?: Namespace): Taker<Uint8Array> {
  const skip = namespace?.bytes.length ?? 0;
  return new EachTaker((request, keyBytes) => foundKey(request, keyBytes, skip));
}

export function keyTaker({ keys, namespace }: Coding): Taker<Key> {
  if (namespace === undefined) return new KeyTaker(keys);
  const skip = namespace.bytes.length;
  return new EachTaker((request, keyBytes) => decodeKey(request, keyBytes, keys, skip));
}

export function pairTaker<V>(as: Coding): Taker<[Key, V]> {
  if (as.namespace === undefined) return new PairTaker<V>(as);
  const { keys, values, namespace } = as;
  const skip = namespace.bytes.length;
  return new EachTaker((request, keyBytes) => [
    decodeKey(request, keyBytes, keys, skip),
    decodeValue(request, values) as V,
  ]);
}

/** The bytes of the key that a step met, without the first `skip`. */
export function foundKey({ outgoing }: Request, keyBytes: number, skip = 0): Uint8Array {
  return outgoing.u8.slice(HEADER_BYTES + skip, HEADER_BYTES + keyBytes);
}

class KeyTaker implements Taker<Key> {
  readonly #keys: FoundKeys;

  constructor(keys: Encoding) {
    this.#keys = new FoundKeys(keys);
  }

  begin(): void {
    this.#keys.begin();
  }

  add({ outgoing }: Request, keyBytes: number): void {
    this.#keys.add(outgoing, HEADER_BYTES, keyBytes);
  }

  addBlock(block: RecordBlock, count: number): void {
    this.#keys.addBlock(block, count);
  }

  end(): Key[] {
    return this.#keys.end();
  }
}

class PairTaker<V> implements Taker<[Key, V]> {
  readonly #keys: FoundKeys;
  readonly #values: FoundValues<V>;

  constructor({ keys, values }: Coding) {
    this.#keys = new FoundKeys(keys);
    this.#values = new FoundValues(values);
  }

  begin(): void {
    this.#keys.begin();
    this.#values.begin();
  }

  add(request: Request, keyBytes: number): void {
    this.#values.add(request);
    this.#keys.add(request.outgoing, HEADER_BYTES, keyBytes);
  }

  addBlock(block: RecordBlock, count: number): void {
    this.#values.addBlock(block, count);
    this.#keys.addBlock(block, count);
  }

  end(): [Key, V][] {
    const keys = this.#keys.end();
    const values = this.#values.end();
    const pairs: [Key, V][] = [];
    for (let i = 0; i < keys.length; i++) pairs.push([keys[i], values[i]]);
    return pairs;
  }
}

class ValueTaker<V> implements Taker<V> {
  readonly #values: FoundValues<V>;

  constructor(values: Format) {
    this.#values = new FoundValues(values);
  }

  begin(): void {
    this.#values.begin();
  }

  add(request: Request): void {
    this.#values.add(request);
  }

  addBlock(block: RecordBlock, count: number): void {
    this.#values.addBlock(block, count);
  }

  end(): V[] {
    return this.#values.end();
  }
}
