import type { IndexWalk } from '../../indexes/contract.ts';
import type { Request } from '../../indexes/substrates/request.ts';
import { walkOf } from '../../indexes/traversal/walk.ts';
import { CODEC_BYTES, CODEC_STATE, decodeFrom } from '../../records/codec.ts';
import type { Operation } from '../../verbs/index.ts';
import type { Entry, Key } from '../api.ts';
import { invalid, shown } from '../arguments.ts';
import { inSection } from '../attachment.ts';
import type { CopiedRecord } from '../internal-calls.ts';
import { prefixRange } from '../keys.ts';
import { rangeOf } from './key-range.ts';
import type { RecordAccess } from './record-access.ts';
import { entryBuilder, foundKey, type ResultBuilder, rawKeyBuilder } from './result-builders.ts';

/** How many groups beyond its count a page may visit without finding enough records. */
const EMPTY_GROUPS_MAX = 64;
/** A page of a copy ends after so many bytes of values. */
const COPIED_BYTES_MAX = 8 * 2 ** 20;

/**
 * A walk over a store, on any fabric, one group of buckets at a time. Each step is an operation of
 * its own: between two steps the walk holds nothing of the pool, however long the caller takes.
 */
export class RecordWalk<V> {
  readonly #access: RecordAccess;
  readonly #walk: IndexWalk;
  readonly #entries: ResultBuilder<Entry<V>>;

  /** If keys have no order, the walk ignores the prefix, and the caller leaves out other keys. */
  constructor(access: RecordAccess, cursor = 0, wanted?: Key) {
    const { index, settings } = access;
    const prefix = settings.namespace?.key(wanted ?? '') ?? wanted;
    const hint = prefix === undefined ? undefined : rangeOf(prefixRange(prefix)).range;
    this.#access = access;
    this.#walk = walkOf(index, cursor, hint);
    this.#entries = entryBuilder(settings);
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
    return this.#step(rawKeyBuilder(this.#access.settings.namespace), true);
  }

  /** The keys of the next group, including expired ones. */
  keysToClear(): Operation<Uint8Array[]> {
    return this.#step(rawKeyBuilder(this.#access.settings.namespace), true, true);
  }

  *#step<T>(builder: ResultBuilder<T>, keysOnly: boolean, clears = false): Operation<T[]> {
    const { attachment, index, meter, settings } = this.#access;
    const { namespace } = settings;
    builder.begin();
    const visit = (request: Request, keyBytes: number) => {
      if (namespace !== undefined && !namespace.has(request, keyBytes)) return;
      if (request.found.codec === CODEC_STATE) return;
      if (clears || !index.records.isExpired(request)) builder.add(request, keyBytes);
    };
    yield* inSection(attachment, () => this.#walk.next(visit, keysOnly));
    const group = builder.end();
    if (!clears) meter.countScanned(group.length);
    return group;
  }
}

/** A page of a walk: groups until there are `count` records, or so many groups were empty. */
export function* pageOf<T>(
  walk: { readonly done: boolean },
  count: number,
  next: () => Operation<readonly T[]>,
): Operation<T[]> {
  const found: T[] = [];
  for (let groups = 0; groups < EMPTY_GROUPS_MAX + count; groups++) {
    if (walk.done || found.length >= count) break;
    for (const one of yield* next()) found.push(one);
  }
  return found;
}

/** Raises SW_INVALID_ARGUMENT. */
export function checkPage(cursor: number, count: number): void {
  if (!Number.isInteger(count) || count < 1) {
    throw invalid(`count must be 1 or more, not ${shown(count)}`);
  }
  if (!Number.isSafeInteger(cursor)) throw invalid(`not a cursor of this store: ${shown(cursor)}`);
}

/**
 * A page of records as the store holds them, including the states of helpers, and the next cursor:
 * 0 at the end.
 */
export function* copyPage(
  { attachment, index }: RecordAccess,
  cursor: number,
  count: number,
): Operation<{ cursor: number; records: CopiedRecord[] }> {
  attachment.refuseClosed();
  const walk = walkOf(index, cursor);
  const records: CopiedRecord[] = [];
  let bytes = 0;
  const copy = (request: Request, keyBytes: number) => {
    if (index.records.isExpired(request)) return;
    const { foundExpiry: expiry } = request;
    const { memory: found, contentAt, contentBytes, codec } = request.found;
    const value = decodeFrom(found, contentAt, contentBytes, CODEC_BYTES) as Uint8Array;
    bytes += value.length;
    records.push({ key: foundKey(request, keyBytes), value, codec, expiry });
  };
  for (let groups = 0; groups < EMPTY_GROUPS_MAX + count; groups++) {
    if (walk.done || records.length >= count || bytes >= COPIED_BYTES_MAX) break;
    yield* inSection(attachment, () => walk.next(copy));
  }
  return { cursor: walk.cursor, records };
}

/** Iterates over a walk, synchronously. `read` runs the walk's next step. */
export class WalkIterator<V, T> implements IterableIterator<T> {
  readonly #begin: () => RecordWalk<V>;
  readonly #read: (walk: RecordWalk<V>) => Entry<V>[];
  readonly #select: (entry: Entry<V>) => T;
  #walk: RecordWalk<V> | undefined;
  #entries: Entry<V>[] = [];
  #at = 0;
  #ended = false;

  /** The walk begins when the first record is asked for. */
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
