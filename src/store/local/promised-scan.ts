import type { Key } from '../api.ts';
import type { AsyncScan, Scan } from '../ordered-api.ts';

/** Records after which the event loop turns: a promise that is settled already never lets it. */
const RECORDS_PER_TURN = 1024;

/** A scan that runs at once, behind promises. */
export class PromisedScan<T> implements AsyncScan<T> {
  readonly #scan: Scan<T>;
  #sinceTurn = 0;

  constructor(scan: Scan<T>) {
    this.#scan = scan;
  }

  async next(): Promise<IteratorResult<T, undefined>> {
    // Before the turn: calls that do not wait for one another get their records in order.
    const step = this.#scan.next();
    await this.#turn(1);
    return step;
  }

  async nextMany(size: number): Promise<T[]> {
    const records = this.#scan.nextMany(size);
    await this.#turn(records.length);
    return records;
  }

  seek(key: Key): void {
    this.#scan.seek(key);
  }

  async return(): Promise<IteratorResult<T, undefined>> {
    return this.#scan.return();
  }

  [Symbol.asyncIterator](): AsyncScan<T> {
    return this;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#scan.return();
  }

  #turn(records: number): Promise<void> | undefined {
    this.#sinceTurn += records;
    if (this.#sinceTurn < RECORDS_PER_TURN) return undefined;
    this.#sinceTurn = 0;
    return new Promise((resolve) => setImmediate(resolve));
  }
}
