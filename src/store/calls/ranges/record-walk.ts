import { type Index, type IndexWalk, isOrdered } from '../../../indexes/contract.ts';
import type { RecordIo } from '../../../indexes/substrates/record-io.ts';
import type { Request } from '../../../indexes/substrates/request.ts';
import { CODEC_BYTES, CODEC_STATE, decodeFrom } from '../../../records/codec.ts';
import type { Operation } from '../../../verbs/index.ts';
import type { Entry, Key } from '../../api.ts';
import { invalid, shown } from '../arguments.ts';
import type { CopiedRecord } from '../changes/copies.ts';
import { rangeOf } from './key-range.ts';
import type { Namespace } from './namespace.ts';
import { prefixRange } from './prefix-range.ts';
import { type Coding, entryTaker, foundKey, rawKeyTaker, type Taker } from './takers.ts';

/** Groups that one page may pass without finding enough records, beside its count. */
const EMPTY_GROUPS_MAX = 64;

/**
 * A walk over a store, whatever fabric runs its steps, one group of buckets at a time. Each step is
 * an operation of its own: between two steps nothing of the pool is held, however long the caller
 * takes.
 */
export class RecordWalk<V> {
  readonly #walk: IndexWalk;
  readonly #records: RecordIo;
  readonly #entries: Taker<Entry<V>>;
  readonly #namespace: Namespace | undefined;

  /** Where keys have no order a prefix spares nothing: the caller leaves out the others. */
  constructor(index: Index, coding: Coding, cursor = 0, wanted?: Key) {
    const { namespace } = coding;
    const prefix = namespace?.key(wanted ?? '') ?? wanted;
    const hinted = prefix !== undefined && isOrdered(index);
    this.#walk = hinted
      ? index.walk(cursor, rangeOf(prefixRange(prefix)).range)
      : index.walk(cursor);
    this.#records = index.records;
    this.#entries = entryTaker(coding);
    this.#namespace = namespace;
  }

  get done(): boolean {
    return this.#walk.done;
  }

  get cursor(): number {
    return this.#walk.cursor;
  }

  /** The records of the next group. */
  entries(): Operation<Entry<V>[]> {
    return this.#step(this.#entries, false);
  }

  /** The keys of the next group. */
  keys(): Operation<Uint8Array[]> {
    return this.#step(rawKeyTaker(this.#namespace), true);
  }

  /** The same with those that have expired. */
  keysToClear(): Operation<Uint8Array[]> {
    return this.#step(rawKeyTaker(this.#namespace), true, true);
  }

  *#step<T>(taker: Taker<T>, keysOnly: boolean, withExpired = false): Operation<T[]> {
    const records = this.#records;
    const namespace = this.#namespace;
    taker.begin();
    yield* this.#walk.next((request, keyBytes) => {
      if (namespace !== undefined && !namespace.has(request, keyBytes)) return;
      if (request.foundCodec === CODEC_STATE) return;
      if (withExpired || !records.isExpired(request)) taker.add(request, keyBytes);
    }, keysOnly);
    return taker.end();
  }
}

/** Records of a walk's next group that have not expired, also those that helpers keep. */
export function* copiesOf(walk: IndexWalk, records: RecordIo): Operation<CopiedRecord[]> {
  const copies: CopiedRecord[] = [];
  yield* walk.next((request, keyBytes) => {
    if (!records.isExpired(request)) copies.push(copyOf(request, keyBytes));
  });
  return copies;
}

function copyOf(request: Request, keyBytes: number): CopiedRecord {
  const { found, contentAt, contentBytes, foundCodec, foundExpiry } = request;
  return {
    key: foundKey(request, keyBytes),
    value: decodeFrom(found, contentAt, contentBytes, CODEC_BYTES) as Uint8Array,
    codec: foundCodec,
    expiry: foundExpiry,
  };
}

/** Goes through a walk a record at a time, synchronously; `read` runs the walk's next step. */
export class WalkIterator<V, T> implements IterableIterator<T> {
  readonly #begin: () => RecordWalk<V>;
  readonly #read: (walk: RecordWalk<V>) => Entry<V>[];
  readonly #select: (entry: Entry<V>) => T;
  #walk: RecordWalk<V> | undefined;
  #entries: Entry<V>[] = [];
  #at = 0;
  #ended = false;

  /** Nothing begins before the first record is asked for. */
  constructor(
    begin: () => RecordWalk<V>,
    read: (walk: RecordWalk<V>) => Entry<V>[],
    select: (entry: Entry<V>) => T,
  ) {
    this.#begin = begin;
    this.#read = read;
    this.#select = select;
  }

  next(): IteratorResult<T, undefined> {
    this.#walk ??= this.#begin();
    while (this.#at === this.#entries.length) {
      if (this.#ended || this.#walk.done) return this.return();
      this.#entries = this.#read(this.#walk);
      this.#at = 0;
    }
    return { done: false, value: this.#select(this.#entries[this.#at++]) };
  }

  return(): IteratorResult<T, undefined> {
    this.#ended = true;
    this.#at = this.#entries.length;
    return { done: true, value: undefined };
  }

  [Symbol.iterator](): this {
    return this;
  }
}

/** A page of a walk: groups until there are `count` records, or so many groups were empty. */
export class PageOfWalk<T> {
  readonly #walk: { readonly done: boolean };
  readonly #count: number;
  readonly found: T[] = [];
  #groups = 0;

  constructor(walk: { readonly done: boolean }, count: number) {
    this.#walk = walk;
    this.#count = count;
  }

  get complete(): boolean {
    const enough = this.found.length >= this.#count;
    return this.#walk.done || enough || this.#groups === EMPTY_GROUPS_MAX + this.#count;
  }

  /** What the next group has. */
  add(group: readonly T[]): void {
    this.#groups++;
    for (const one of group) this.found.push(one);
  }
}

/** Raises SW_INVALID_ARGUMENT. */
export function checkPage(cursor: number, count: number): void {
  if (!Number.isInteger(count) || count < 1) {
    throw invalid(`count must be 1 or more, not ${shown(count)}`);
  }
  if (!Number.isSafeInteger(cursor)) throw invalid(`not a cursor of this store: ${shown(cursor)}`);
}
