import type { OracleShape } from './oracle-shape.ts';

/** Changes that were acknowledged, that are in flight, and that were when a worker died. */
const ACKNOWLEDGED = 0;
const PENDING = 1;
const UNCERTAIN = 2;

/** A sum lies between `low` and `high`; uncertain changes make the difference. */
export interface Bounds {
  low: number;
  high: number;
}

const WORDS_PER_SUM = 4;

/**
 * Sums that all workers change concurrently; each worker has a row. Changes that were in flight
 * when a worker was killed are uncertain, so a sum has two bounds.
 */
export class ExpectedSums {
  readonly #rows: number;
  readonly #count: number;
  readonly #words: Int32Array;

  constructor(words: Int32Array, shape: OracleShape) {
    this.#rows = shape.rows;
    this.#count = sumsOf(shape);
    this.#words = words;
  }

  static words(shape: OracleShape): number {
    return WORDS_PER_SUM * shape.rows * sumsOf(shape);
  }

  /** The worker of `row` is about to change the sum by `by`, which is not 0. */
  begin(row: number, sum: number, by: number): void {
    Atomics.store(this.#words, this.#at(row, sum, PENDING), by);
  }

  end(row: number, sum: number, done: boolean): void {
    const pending = this.#at(row, sum, PENDING);
    const by = Atomics.load(this.#words, pending);
    if (done) Atomics.add(this.#words, this.#at(row, sum, ACKNOWLEDGED), by);
    Atomics.store(this.#words, pending, 0);
  }

  /** A dead worker's change that was in flight may or may not have happened. */
  abandon(row: number): void {
    for (let sum = 0; sum < this.#count; sum++) {
      const pending = this.#at(row, sum, PENDING);
      const by = Atomics.load(this.#words, pending);
      if (by === 0) continue;
      const at = this.#at(row, sum, by > 0 ? UNCERTAIN : UNCERTAIN + 1);
      Atomics.add(this.#words, at, by);
      Atomics.store(this.#words, pending, 0);
    }
  }

  acknowledged(row: number, sum: number): number {
    return Atomics.load(this.#words, this.#at(row, sum, ACKNOWLEDGED));
  }

  /** The possible values of the sum. No change may be in flight. */
  bounds(sum: number): Bounds {
    let low = 0;
    let high = 0;
    for (let row = 0; row < this.#rows; row++) {
      const sure = this.acknowledged(row, sum);
      low += sure + Atomics.load(this.#words, this.#at(row, sum, UNCERTAIN + 1));
      high += sure + Atomics.load(this.#words, this.#at(row, sum, UNCERTAIN));
    }
    return { low, high };
  }

  #at(row: number, sum: number, field: number): number {
    return WORDS_PER_SUM * (row * this.#count + sum) + field;
  }
}

/** Counters first, then tokens. */
function sumsOf({ counters, tokens }: OracleShape): number {
  return counters + tokens;
}
