import {
  type Index,
  type IndexScan,
  isOrdered,
  type KeyRange,
  type OrderedIndex,
  type RecordBlock,
} from '../../indexes/contract.ts';
import type { Request } from '../../indexes/substrates/request.ts';
import { walkOf } from '../../indexes/traversal/walk.ts';
import { CODEC_STATE } from '../../records/codec.ts';
import type { Operation } from '../../verbs/index.ts';
import type { Key } from '../api.ts';
import { unsupported } from '../arguments.ts';
import { inSection } from '../attachment.ts';
import { keyBytes } from '../keys.ts';
import type { ScanOptions } from '../ordered-api.ts';
import { isEmptyRange, rangeBehind, rangeFrom, rangeOf } from './key-range.ts';
import { Namespace } from './namespace.ts';
import type { CallSettings, RecordAccess } from './record-access.ts';
import { type Builders, foundKey, type ResultBuilder } from './result-builders.ts';

/** What a scan reads: whole records, their keys alone, or the states of helpers. */
export type Part = 'records' | 'keys' | 'states';

/** A scan whose options have been checked and which has not begun. */
export interface ScanPlan<T> {
  readonly signal: AbortSignal | undefined;
  begin(access: RecordAccess): RangeScan<T>;
  /** The bytes of a key at which to go on. Raises SW_INVALID_KEY. */
  place(key: Key): Uint8Array;
}

/**
 * An index whose keys have no order finds the keys of a prefix by a walk over the store. Raises
 * SW_INVALID_ARGUMENT and SW_INVALID_KEY, and SW_UNSUPPORTED for what such an index cannot do.
 */
export function planScan<T>(
  index: Index,
  options: ScanOptions,
  part: Part,
  builders: Builders<T>,
  { name, namespace }: Pick<CallSettings, 'name' | 'namespace'>,
): ScanPlan<T> {
  const { range: asked, limit } = rangeOf(options);
  const range = namespace?.within(asked) ?? asked;
  const { prefix, reverse, signal } = options;
  if (prefix === undefined || reverse) orderedIndex(index, name);
  const walked = isOrdered(index) ? undefined : new Namespace(prefix ?? '', namespace);
  return {
    signal,
    place: (key) => {
      orderedIndex(index, name);
      return keyBytes(namespace?.key(key) ?? key);
    },
    begin: (access) => new RangeScan(access, range, limit, builders, part, walked),
  };
}

/** Raises SW_UNSUPPORTED for an index whose keys have no order. */
export function orderedIndex(index: Index, store: string): OrderedIndex {
  if (isOrdered(index)) return index;
  const why = `store ${store} has the index ${index.manifest.name}, whose keys have no order`;
  throw unsupported(`${why}; create it with the index chime or hstore for ranges`);
}

/** How a scan reads records: in the order of their keys, or by a walk over all of them. */
type Steps = Pick<IndexScan, 'done' | 'next'>;

/**
 * A scan of a range, on any fabric. `step`, an operation, reads records; the caller then takes them
 * one by one or together. Between two steps the scan holds nothing of the pool.
 */
export class RangeScan<T> {
  readonly #access: RecordAccess;
  readonly #index: Index;
  readonly #range: KeyRange;
  readonly #keysOnly: boolean;
  readonly #builders: Builders<T>;
  /** The builder of the step in progress. */
  #builder: ResultBuilder<T> | undefined;
  readonly #visit: (request: Request, keyBytes: number) => void;
  readonly #visitBlock = (block: RecordBlock) => this.#addBlock(block);
  /** Undefined at the end of the range. */
  #steps: Steps | undefined;
  /** Records that may still be taken. */
  #left: number;
  /** Records that may still be taken from the step in progress. */
  #room = 0;
  /** Whether it left out expired or hidden records, which the index counts towards the limit. */
  #skipped = false;
  /** If so, the last key that it met. */
  #last: Uint8Array | undefined;
  /** Records of the last step, and how many of them have been taken. */
  #met: T[] = [];
  #at = 0;

  /** The prefix that a walk looks for, if the index has no order; else undefined. */
  constructor(
    access: RecordAccess,
    range: KeyRange,
    limit: number,
    builders: Builders<T>,
    part: Part,
    walked: Namespace | undefined,
  ) {
    const { index } = access;
    this.#access = access;
    this.#index = index;
    this.#keysOnly = part === 'keys';
    this.#builders = builders;
    this.#range = range;
    this.#left = limit;
    this.#steps = this.#begin(range);
    this.#visit = (request, keyBytes) => {
      if (walked?.has(request, keyBytes) === false) return;
      const isState = request.found.codec === CODEC_STATE;
      const isHidden = isState !== (part === 'states') || index.records.isExpired(request);
      // The limit of a walk does not count what is left out.
      if (isHidden) this.#skipped = walked === undefined;
      else if (this.#room-- > 0) this.#builder?.add(request, keyBytes);
      if (this.#skipped) this.#last = foundKey(request, keyBytes);
    };
  }

  #addBlock(block: RecordBlock): void {
    const { count, words, keyAt, keyBytes } = block;
    const wanted = Math.min(count, Math.max(0, this.#room));
    this.#room -= count;
    this.#builder?.addBlock?.(block, wanted);
    const at = keyAt[count - 1];
    if (this.#skipped && count > 0) this.#last = words.u8.slice(at, at + keyBytes[count - 1]);
  }

  /** Whether nothing is left, neither to take nor to read. */
  get done(): boolean {
    return this.#left === 0 || (this.#at === this.#met.length && (this.#steps?.done ?? true));
  }

  /** The next record that has been read; undefined if `step` must run first, or at the end. */
  take(): T | undefined {
    if (this.#at === this.#met.length || this.#left === 0) return undefined;
    this.#left--;
    return this.#met[this.#at++];
  }

  /** The next `size` records; fewer at the end only. */
  *takeMany(size: number): Operation<T[]> {
    let taken = this.#takeRead(size);
    while (taken.length < size && !this.done) {
      yield* this.step();
      const more = this.#takeRead(size - taken.length);
      if (taken.length === 0) taken = more;
      else for (const value of more) taken.push(value);
    }
    return taken;
  }

  /** Up to `size` of the records that have been read. */
  #takeRead(size: number): T[] {
    const met = this.#met;
    const from = this.#at;
    const end = Math.min(met.length, from + Math.min(size, this.#left));
    this.#left -= end - from;
    this.#at = end;
    if (from > 0 || end < met.length) return met.slice(from, end);
    // All of them: the list itself, which is not used again.
    this.#forgetMet();
    return met;
  }

  /**
   * Reads the next records, perhaps none. Call it when all records that were read have been taken.
   */
  *step(): Operation<void> {
    const { attachment, meter } = this.#access;
    yield* inSection(attachment, () => this.#readNext());
    meter.countScanned(this.#met.length);
  }

  *#readNext(): Operation<void> {
    this.#forgetMet();
    if (this.#steps === undefined) return;
    this.#room = this.#left;
    const builder = this.#builders.take();
    this.#builder = builder;
    builder.begin();
    try {
      const visitBlock = builder.addBlock === undefined ? undefined : this.#visitBlock;
      yield* this.#steps.next(this.#visit, this.#keysOnly, visitBlock);
      this.#met = builder.end();
    } catch (error) {
      // The step may have met some of its records and not others.
      this.end();
      throw error;
    } finally {
      this.#builder = undefined;
      this.#builders.give(builder);
    }
    if (this.#skipped && this.#steps.done) this.#steps = this.#beginBehind();
  }

  /** Continues behind the last key: the limit allows other records in place of those left out. */
  #beginBehind(): Steps | undefined {
    const left = this.#left - this.#met.length;
    if (left <= 0 || this.#last === undefined || this.#left === Number.POSITIVE_INFINITY) {
      return undefined;
    }
    const key = this.#last;
    this.#skipped = false;
    this.#last = undefined;
    const range = rangeBehind(this.#range, key);
    return this.#begin(range, left);
  }

  /** Goes on at `key`, or at the beginning of the range if the key is before it. */
  seek(key: Uint8Array): void {
    if (this.#left === 0) return;
    this.#forgetMet();
    this.#steps = this.#begin(rangeFrom(this.#range, key));
  }

  #forgetMet(): void {
    this.#met = [];
    this.#at = 0;
  }

  #begin(range: KeyRange, limit = this.#left): Steps | undefined {
    if (limit === 0 || isEmptyRange(range)) return undefined;
    const index = this.#index;
    return isOrdered(index) ? index.scan({ ...range, limit }) : walkOf(index);
  }

  /** Ends the scan: no record comes any more, even after a seek. */
  end(): void {
    this.#left = 0;
    this.#forgetMet();
    this.#steps = undefined;
  }
}

/** Counts the keys of a range. In a timed store, it reads each record's expiry. */
export function* countKeys(
  { attachment }: RecordAccess,
  index: OrderedIndex,
  range: KeyRange,
  isTimed: boolean,
): Operation<number> {
  if (isEmptyRange(range)) return 0;
  const scan = index.scan(range);
  let count = 0;
  const visit = (request: Request) => {
    if (request.found.codec !== CODEC_STATE && !index.records.isExpired(request)) count++;
  };
  while (!scan.done) {
    yield* inSection(attachment, function* () {
      if (scan.countNext && !isTimed) count += yield* scan.countNext();
      else yield* scan.next(visit, true);
    });
  }
  return count;
}
