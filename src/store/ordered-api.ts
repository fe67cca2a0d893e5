import type { Key } from './key-value.ts';

/**
 * The public types of ordered access, for stores on an ordered index (`chime`, `hstore`). Keys are
 * in the order of their bytes: a prefix comes before what it begins, and strings come in the order
 * of their UTF-8 bytes, which is that of their code points.
 */

/**
 * A range of keys: those of a prefix, or those between two ends, of which one that is left out is
 * open. Ends need an ordered index. A prefix works on every index: an ordered one reads only the
 * keys of the prefix, any other one reads the whole store.
 */
export interface RangeBounds {
  /** Only keys that begin with these bytes. It goes without ends. The empty one means all keys. */
  prefix?: Key;
  /** The lowest key of the range, */
  gte?: Key;
  /** or the key above which it begins; one of the two. */
  gt?: Key;
  /** The highest key of the range, */
  lte?: Key;
  /** or the key below which it ends; one of the two. */
  lt?: Key;
}

export interface RangeOptions extends RangeBounds {
  /** From the highest key down; needs an ordered index. Default false. */
  reverse?: boolean;
  /** At most so many records, from the end where the range begins. Default: all. */
  limit?: number;
}

export interface ScanOptions extends RangeOptions {
  /** Once it is aborted, the scan raises SW_ABORTED, with the signal's reason as `cause`. */
  signal?: AbortSignal;
}

/**
 * A scan in progress. Every key that is present throughout the scan comes exactly once, in order,
 * with a value that was current at some moment of the scan. A key that is written or removed
 * meanwhile comes at most once. It is no snapshot: two keys may be of different moments. On an
 * index without order the records of a prefix come in no particular order.
 *
 * Records are read ahead, some dozens at a time. Between two calls a scan holds nothing of the
 * pool, however long it takes: leaving it early (`break`, `return`, or just forgetting it) costs
 * nobody anything. After an error it is over.
 *
 * Keys as bytes and short byte values may be views of memory that they share, as small Buffers of
 * Node are: 8 KiB, or one long key. None overlaps another, but `value.buffer` is more than the
 * value. It cannot be transferred to another thread, and one view that is kept keeps all of it.
 * `value.slice()` is a copy of its own.
 *
 * @throws StepwellError SW_CLOSED once the store is closed, SW_ABORTED once its signal is aborted.
 */
export interface Scan<T> extends IterableIterator<T> {
  next(): IteratorResult<T, undefined>;
  return(): IteratorResult<T, undefined>;
  /** The batch form: the next `size` records, fewer at the end, none when the scan is over. */
  nextMany(size: number): T[];
  /**
   * Continues with the first record at or behind `key` in the scan's direction, forward or back,
   * but never leaves the scan's range. The limit goes on counting.
   *
   * @throws StepwellError SW_UNSUPPORTED on an index without order.
   */
  seek(key: Key): void;
  [Symbol.iterator](): Scan<T>;
  [Symbol.dispose](): void;
}

/** As `Scan`, with promises; the event loop turns now and then, so that others get their turn. */
export interface AsyncScan<T> extends AsyncIterableIterator<T> {
  next(): Promise<IteratorResult<T, undefined>>;
  return(): Promise<IteratorResult<T, undefined>>;
  nextMany(size: number): Promise<T[]>;
  seek(key: Key): void;
  [Symbol.asyncIterator](): AsyncScan<T>;
  [Symbol.asyncDispose](): Promise<void>;
}
