import type { OracleShape } from './oracle-shape.ts';

/** Sum that was acknowledged, what is under way, and what was under way when a worker died. */
const ACKNOWLEDGED = 0;
const PENDING = 1;
const UNCERTAIN = 2;

/** A range of sums: `low` if nothing uncertain took place, `high` if everything did. */
export interface Bounds {
  low: number;
  high: number;
}

const WORDS_PER_SUM = 4;

/**
 * Sums that all workers change at once, in a row of each worker: between two bounds whatever was
 * under way when a worker was killed.
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

  /** A change that was under way in a dead worker may or may not have taken place. */
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

  /** What the sum may be. Nothing may be under way. */
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
