import { StepwellError } from '../../errors.ts';
import type { Operation } from '../../verbs/index.ts';
import type { Key } from '../api.ts';
import { checkBatch } from '../calls/arguments.ts';
import { keyBytes } from '../calls/key-range.ts';
import type { RangeScan } from '../calls/range-scan.ts';
import type { Scan } from '../ordered-api.ts';

/** The store that a scan is of. */
export interface ScanHost {
  /** Raises SW_CLOSED. */
  refuseClosed(): void;
  /** Runs one operation between two quiescent points. */
  runOne<T>(operation: () => Operation<T>): T;
}

/** A scan on a fabric whose verbs finish at once. */
export class SharedScan<T> implements Scan<T> {
  readonly #host: ScanHost;
  readonly #scan: RangeScan<T>;
  readonly #signal: AbortSignal | undefined;

  constructor(host: ScanHost, scan: RangeScan<T>, signal: AbortSignal | undefined) {
    this.#host = host;
    this.#scan = scan;
    this.#signal = signal;
  }

  next(): IteratorResult<T, undefined> {
    this.#refuse();
    const scan = this.#scan;
    for (;;) {
      const value = scan.take();
      if (value !== undefined) return { done: false, value };
      if (scan.done) return { done: true, value: undefined };
      this.#host.runOne(() => scan.step());
    }
  }

  nextMany(size: number): T[] {
    checkBatch(size);
    this.#refuse();
    const scan = this.#scan;
    const taken = scan.takeMany(size);
    while (taken.length < size && !scan.done) {
      this.#host.runOne(() => scan.step());
      for (const value of scan.takeMany(size - taken.length)) taken.push(value);
    }
    return taken;
  }

  seek(key: Key): void {
    this.#refuse();
    this.#scan.seek(keyBytes(key));
  }

  return(): IteratorResult<T, undefined> {
    this.#scan.end();
    return { done: true, value: undefined };
  }

  [Symbol.iterator](): Scan<T> {
    return this;
  }

  [Symbol.dispose](): void {
    this.#scan.end();
  }

  /** By asking, not by listening: a scan that is just forgotten leaves no listener behind. */
  #refuse(): void {
    this.#host.refuseClosed();
    const signal = this.#signal;
    if (signal === undefined || !signal.aborted) return;
    this.#scan.end();
    const cause: unknown = signal.reason;
    throw new StepwellError('SW_ABORTED', 'the scan was aborted by its signal', { cause });
  }
}
