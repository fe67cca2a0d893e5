import { markAsUntransferable } from 'node:worker_threads';
import type { RecordBlock } from '../../indexes/contract.ts';
import { FreeList } from '../../indexes/substrates/free-list.ts';
import type { Request } from '../../indexes/substrates/request.ts';
import { CODEC_ASCII, CODEC_BYTES } from '../../records/codec.ts';
import { HEADER_BYTES, pad8 } from '../../records/layout.ts';
import { Scratch, WordArray } from '../../verbs/index.ts';
import type { Encoding, Entry, Key } from '../api.ts';
import { decodeValue, decodeValueAt, type Format } from '../values.ts';
import type { Namespace } from './namespace.ts';

/** Makes results of the records that a step of a scan or a walk meets. Steps do not overlap. */
export interface ResultBuilder<T> {
  /** Forgets what an error has left. */
  begin(): void;
  /** The request's found record, its key in `outgoing`. */
  add(request: Request, keyBytes: number): void;
  /** The first `count` records of a block; where it is missing they are added one by one. */
  addBlock?(block: RecordBlock, count: number): void;
  /** The results of all that were added since `begin`; the list is the caller's. */
  end(): T[];
}

/** How a store was opened, as far as it matters to what comes back. */
export interface Coding {
  keys: Encoding;
  values: Format;
  /** The keys that the calls are about, if not all. */
  namespace?: Namespace | undefined;
}

export function entryBuilder<V>(as: Coding): ResultBuilder<Entry<V>> {
  const skip = as.namespace?.bytes.length ?? 0;
  return new OneByOne((request, keyBytes) => {
    const entry: Entry<V> = {
      key: decodeKey(request, keyBytes, as.keys, skip),
      value: decodeValue(request, as.values) as V,
      version: request.found.version,
    };
    const { foundExpiry } = request;
    if (foundExpiry === undefined) return entry;
    const { deadline, sliding } = foundExpiry;
    entry.expires = sliding ? { ttlMs: deadline, sliding } : { expiresAt: deadline };
    return entry;
  });
}

/** Most idle builders that a store keeps, about 10 KiB each: enough for 64 scans in flight. */
const KEPT_MAX = 64;

/** Each step of a scan takes one: over a network, steps of many scans are in flight together. */
export type Builders<T> = FreeList<ResultBuilder<T>>;

export function builders<T>(make: () => ResultBuilder<T>): Builders<T> {
  return new FreeList(make, KEPT_MAX);
}

/** Keys as bytes, for `clear` and `count`. */
export function rawKeyBuilder(namespace?: Namespace): ResultBuilder<Uint8Array> {
  const skip = namespace?.bytes.length ?? 0;
  return new OneByOne((request, keyBytes) => foundKey(request, keyBytes, skip));
}

export function keyBuilders({ keys, namespace }: Coding): Builders<Key> {
  if (namespace === undefined) return builders(() => new KeysTogether(keys));
  const skip = namespace.bytes.length;
  return builders(
    () => new OneByOne((request, keyBytes) => decodeKey(request, keyBytes, keys, skip)),
  );
}

export function valueBuilders<V>(values: Format): Builders<V> {
  return builders(() => new ValuesTogether(values));
}

export function pairBuilders<V>(as: Coding): Builders<[Key, V]> {
  if (as.namespace === undefined) return builders(() => new PairsTogether<V>(as));
  const { keys, values, namespace } = as;
  const skip = namespace.bytes.length;
  return builders(
    () =>
      new OneByOne((request, keyBytes) => [
        decodeKey(request, keyBytes, keys, skip),
        decodeValue(request, values) as V,
      ]),
  );
}

/** Makes one result of each record. */
export function buildersOf<T>(resultOf: (request: Request, keyBytes: number) => T): Builders<T> {
  return builders(() => new OneByOne(resultOf));
}

/** The bytes of the key that a step met, without the first `skip`. */
export function foundKey({ outgoing }: Request, keyBytes: number, skip = 0): Uint8Array {
  return outgoing.u8.slice(HEADER_BYTES + skip, HEADER_BYTES + keyBytes);
}

/**
 * The key that a walk met, without the first `skip` bytes; `auto` is a string when the bytes are
 * well-formed UTF-8.
 */
function decodeKey({ outgoing }: Request, keyBytes: number, as: Encoding, skip: number): Key {
  return decodeKeyAt(outgoing, HEADER_BYTES + skip, keyBytes - skip, as);
}

function decodeKeyAt(from: Scratch, at: number, keyBytes: number, as: Encoding): Key {
  const end = at + keyBytes;
  if (as === 'bytes') return from.u8.slice(at, end);
  const text = from.buffer.utf8Slice(at, end);
  if (as === 'utf8' || !text.includes('\ufffd')) return text;
  const bytes = from.u8.slice(at, end);
  return Buffer.from(text).equals(bytes) ? text : bytes;
}

/** Something of each record by itself. */
class OneByOne<T> implements ResultBuilder<T> {
  readonly #resultOf: (request: Request, keyBytes: number) => T;
  #results: T[] = [];

  constructor(resultOf: (request: Request, keyBytes: number) => T) {
    this.#resultOf = resultOf;
  }

  begin(): void {
    this.#results = [];
  }

  add(request: Request, keyBytes: number): void {
    this.#results.push(this.#resultOf(request, keyBytes));
  }

  end(): T[] {
    const results = this.#results;
    this.#results = [];
    return results;
  }
}

/** As much memory as Node's pool of small Buffers has at once. */
const SHARED_BYTES = 8192;

/**
 * Memory that short byte keys and values share, as small Buffers of Node do. A view of it takes
 * half the time of an array of its own, and leaves half as much to collect.
 */
class SharedBytes {
  #memory = new ArrayBuffer(0);
  #words = new WordArray(this.#memory);
  #end = 0;

  /** A copy of the bytes at `at`, a multiple of 8, in memory that is padded to 8 bytes. */
  copy(from: Float64Array, at: number, bytes: number): Uint8Array {
    const padded = pad8(bytes);
    if (this.#end + padded > this.#memory.byteLength) this.#renew(padded);
    const start = this.#end;
    this.#end = start + padded;
    const words = this.#words;
    for (let to = start >> 3, source = at >> 3; to < this.#end >> 3; to++) {
      words[to] = from[source++];
    }
    return new Uint8Array(this.#memory, start, bytes);
  }

  /** A value that is transferred to another thread would take the others along. */
  #renew(least: number): void {
    this.#memory = new ArrayBuffer(Math.max(SHARED_BYTES, least));
    this.#words = new WordArray(this.#memory);
    this.#end = 0;
    markAsUntransferable(this.#memory);
  }
}

const FIRST_KEYS = 256;
/**
 * Keys or texts that are decoded together at most: the engine keeps the long string for as long as
 * one that was cut from it is in use.
 */
const TOGETHER_BYTES = 4096;
/** In four bytes at once: what no ASCII character has. */
const NOT_ASCII = 0x80808080 | 0;

/**
 * Keys that are decoded together: strings that are cut from a longer one take a fifth of the time.
 * Their bytes stand one behind the other, each key padded to words.
 */
class KeysTogether implements ResultBuilder<Key> {
  readonly #as: Encoding;
  readonly #shared = new SharedBytes();
  readonly #bytes: Scratch;
  #at = new Int32Array(FIRST_KEYS);
  #length = new Int32Array(FIRST_KEYS);
  #count = 0;
  #end = 0;
  /** All words of the keys that are not decoded yet, put together: whether they are ASCII. */
  #bits = 0;
  #decoded: Key[] = [];

  constructor(as: Encoding) {
    this.#as = as;
    this.#bytes = new Scratch(as === 'bytes' ? 0 : pad8(TOGETHER_BYTES + 1));
  }

  begin(): void {
    this.#decoded = [];
    this.#forgetBytes();
  }

  addBlock({ words, keyAt, keyBytes }: RecordBlock, count: number): void {
    for (let i = 0; i < count; i++) this.#add(words, keyAt[i], keyBytes[i]);
  }

  add({ outgoing }: Request, keyBytes: number): void {
    this.#add(outgoing, HEADER_BYTES, keyBytes);
  }

  /** The key that stands in `words`, zero-padded to 8 bytes. */
  #add(words: Scratch, keyAt: number, keyBytes: number): void {
    if (this.#as === 'bytes') {
      this.#decoded.push(this.#shared.copy(words.f64, keyAt, keyBytes));
      return;
    }
    if (this.#end + keyBytes > TOGETHER_BYTES || this.#count === FIRST_KEYS) this.#decode();
    if (keyBytes > TOGETHER_BYTES) {
      this.#decoded.push(decodeKeyAt(words, keyAt, keyBytes, this.#as));
      return;
    }
    const first = this.#end >> 2;
    const count = pad8(keyBytes) >> 2;
    const to = this.#bytes.i32;
    const from = words.i32;
    const source = keyAt >> 2;
    let bits = this.#bits;
    for (let i = 0; i < count; i++) {
      const word = from[source + i];
      to[first + i] = word;
      bits |= word;
    }
    this.#bits = bits;
    this.#at[this.#count] = this.#end;
    this.#length[this.#count++] = keyBytes;
    this.#end += 4 * count;
  }

  end(): Key[] {
    this.#decode();
    const decoded = this.#decoded;
    this.#decoded = [];
    return decoded;
  }

  #decode(): void {
    const count = this.#count;
    const together = (this.#bits & NOT_ASCII) === 0;
    const text = together && count > 1 ? this.#bytes.buffer.latin1Slice(0, this.#end) : undefined;
    for (let i = 0; i < count; i++) {
      const at = this.#at[i];
      const bytes = this.#length[i];
      if (text !== undefined) this.#decoded.push(text.slice(at, at + bytes));
      else this.#decoded.push(decodeKeyAt(this.#bytes, at, bytes, this.#as));
    }
    this.#forgetBytes();
  }

  #forgetBytes(): void {
    this.#count = 0;
    this.#end = 0;
    this.#bits = 0;
  }
}

/** ASCII texts are cut from one string, as keys are; short byte values share memory. */
class ValuesTogether<V> implements ResultBuilder<V> {
  readonly #as: Format;
  readonly #isBytes: boolean;
  readonly #isText: boolean;
  readonly #texts: Scratch;
  readonly #shared = new SharedBytes();
  #values: V[] = [];

  constructor(as: Format) {
    this.#as = as;
    this.#isText = as === 'utf8' || as === 'auto';
    this.#texts = new Scratch(this.#isText ? TOGETHER_BYTES : 0);
    this.#isBytes = as === 'bytes' || as === 'auto';
  }

  begin(): void {
    this.#values = [];
  }

  add(request: Request): void {
    this.#values.push(decodeValue(request, this.#as) as V);
  }

  addBlock(block: RecordBlock, count: number): void {
    if (this.#isText && this.#addTexts(block, count)) return;
    const { words, valueAt, valueBytes, codec } = block;
    const values = this.#values;
    for (let i = 0; i < count; i++) {
      const isShared = this.#isBytes && (codec[i] === CODEC_BYTES || this.#as === 'bytes');
      const value = isShared
        ? this.#shared.copy(words.f64, valueAt[i], valueBytes[i])
        : decodeValueAt(words, valueAt[i], valueBytes[i], codec[i], this.#as);
      values.push(value as V);
    }
  }

  /** False when some value is no ASCII text, or they are too long. */
  #addTexts({ words, valueAt, valueBytes, codec }: RecordBlock, count: number): boolean {
    const from = words.i32;
    const to = this.#texts.i32;
    let end = 0;
    for (let i = 0; i < count; i++) {
      const length = pad8(valueBytes[i]) >> 2;
      if (codec[i] !== CODEC_ASCII || 4 * (end + length) > TOGETHER_BYTES) return false;
      const source = valueAt[i] >> 2;
      for (let word = 0; word < length; word++) to[end + word] = from[source + word];
      end += length;
    }
    const text = this.#texts.buffer.latin1Slice(0, 4 * end);
    for (let i = 0, at = 0; i < count; i++) {
      this.#values.push(text.slice(at, at + valueBytes[i]) as V);
      at += pad8(valueBytes[i]);
    }
    return true;
  }

  end(): V[] {
    const values = this.#values;
    this.#values = [];
    return values;
  }
}

class PairsTogether<V> implements ResultBuilder<[Key, V]> {
  readonly #keys: KeysTogether;
  readonly #values: ValuesTogether<V>;

  constructor({ keys, values }: Coding) {
    this.#keys = new KeysTogether(keys);
    this.#values = new ValuesTogether(values);
  }

  begin(): void {
    this.#keys.begin();
    this.#values.begin();
  }

  add(request: Request, keyBytes: number): void {
    this.#values.add(request);
    this.#keys.add(request, keyBytes);
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
