import type { LocalPool } from '../../pool/local-pool.ts';
import type { Key } from '../api.ts';
import { checkBatch } from '../calls/arguments.ts';
import type { RangeScan } from '../calls/ranges/range-scan.ts';
import { refuseAborted, type ScanPlan } from '../calls/ranges/scan-plan.ts';
import type { StoreCalls } from '../calls/store-calls.ts';
import type { Scan } from '../ordered-api.ts';
import type { LocalAttachment } from './local-attachment.ts';

/** A scan on a fabric whose verbs finish at once. */
export class SharedScan<T> implements Scan<T> {
  readonly #pool: LocalPool;
  readonly #attachment: LocalAttachment;
  readonly #calls: StoreCalls<unknown>;
  readonly #scan: RangeScan<T>;
  readonly #signal: AbortSignal | undefined;
  readonly #place: (key: Key) => Uint8Array;

  constructor(attachment: LocalAttachment, calls: StoreCalls<unknown>, plan: ScanPlan<T>) {
    this.#pool = attachment.pool;
    this.#attachment = attachment;
    this.#calls = calls;
    this.#scan = plan.begin(calls.ordered());
    this.#signal = plan.signal;
    this.#place = plan.place;
  }

  next(): IteratorResult<T, undefined> {
    this.#refuse();
    const scan = this.#scan;
    for (;;) {
      const value = scan.take();
      if (value !== undefined) return { done: false, value };
      if (scan.done) return { done: true, value: undefined };
      this.#pool.run(this.#calls.stepOf(scan));
    }
  }

  nextMany(size: number): T[] {
    checkBatch(size);
    this.#refuse();
    return this.#pool.run(this.#calls.takeOf(this.#scan, size));
  }

  seek(key: Key): void {
    this.#refuse();
    this.#scan.seek(this.#place(key));
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

  #refuse(): void {
    this.#attachment.refuseClosed();
    refuseAborted(this.#signal, () => this.#scan.end());
  }
}
