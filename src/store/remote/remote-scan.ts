import { unlessAborted } from '../abortable.ts';
import type { Key } from '../api.ts';
import { checkBatch } from '../arguments.ts';
import type { RangeScan } from '../calls/range-scan.ts';
import { refuseAborted, type ScanPlan } from '../calls/range-scan.ts';
import type { StoreCalls } from '../calls/store-calls.ts';
import type { AsyncScan } from '../ordered-api.ts';
import type { Session } from './session.ts';

/** A session and the calls of the store in it. */
export interface OpenSession {
  session: Session;
  calls: StoreCalls<unknown>;
}

/** The store that a scan is of. */
export interface RemoteScanHost {
  /** Raises SW_CLOSED. */
  refuseClosed(): void;
  live(): Promise<OpenSession>;
}

/** A scan whose steps are operations over the network; calls wait for one another. */
export class RemoteScan<T> implements AsyncScan<T> {
  readonly #host: RemoteScanHost;
  readonly #plan: ScanPlan<T>;
  /** A scan stays with the session in which it began. */
  #open: OpenSession | undefined;
  #scan: RangeScan<T> | undefined;
  #sought: Uint8Array | undefined;
  #over = false;
  #last: Promise<unknown> = Promise.resolve();

  constructor(host: RemoteScanHost, plan: ScanPlan<T>) {
    this.#host = host;
    this.#plan = plan;
  }

  async next(): Promise<IteratorResult<T, undefined>> {
    const [value] = await this.#take(1);
    return value === undefined ? { done: true, value: undefined } : { done: false, value };
  }

  async nextMany(size: number): Promise<T[]> {
    checkBatch(size);
    return this.#take(size);
  }

  #take(size: number): Promise<T[]> {
    return unlessAborted('the scan', this.#plan.signal, () => {
      const taking = this.#last.then(() => this.#takeNow(size));
      this.#last = taking.catch(() => {});
      return taking;
    });
  }

  async #takeNow(size: number): Promise<T[]> {
    this.#refuse();
    if (this.#over) return [];
    this.#open ??= await this.#host.live();
    const { session, calls } = this.#open;
    this.#scan ??= calls.newScan(this.#plan);
    if (this.#sought) this.#scan.seek(this.#sought);
    this.#sought = undefined;
    return session.pool.run(this.#scan.takeMany(size));
  }

  seek(key: Key): void {
    this.#refuse();
    const bytes = this.#plan.place(key);
    this.#last = this.#last.then(() => {
      this.#sought = bytes;
    });
  }

  async return(): Promise<IteratorResult<T, undefined>> {
    this.#over = true;
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): AsyncScan<T> {
    return this;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#over = true;
  }

  #refuse(): void {
    this.#host.refuseClosed();
    refuseAborted(this.#plan.signal, () => {
      this.#over = true;
    });
  }
}
