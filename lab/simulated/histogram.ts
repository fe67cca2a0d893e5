/** Buckets between two powers of two: the error of a quantile is below 1/64. */
const STEPS = 32;
const POWERS = 48;

/** A logarithmic histogram of non-negative values, for latencies of many orders of magnitude. */
export class Histogram {
  readonly #counts = new Float64Array(STEPS * POWERS);
  count = 0;
  sum = 0;
  minimum = Number.POSITIVE_INFINITY;
  maximum = 0;

  record(value: number): void {
    this.#counts[bucketOf(value)]++;
    this.count++;
    this.sum += value;
    if (value < this.minimum) this.minimum = value;
    if (value > this.maximum) this.maximum = value;
  }

  get mean(): number {
    return this.sum / this.count;
  }

  /**
   * The smallest value that `share` of the values do not exceed, to within a bucket; NaN if empty.
   */
  quantile(share: number): number {
    if (this.count === 0) return Number.NaN;
    const rank = Math.max(1, Math.ceil(share * this.count));
    if (rank >= this.count) return this.maximum;
    let seen = 0;
    for (let bucket = 0; bucket < this.#counts.length; bucket++) {
      seen += this.#counts[bucket];
      if (seen >= rank) return Math.min(this.maximum, Math.max(this.minimum, middleOf(bucket)));
    }
    return this.maximum;
  }
}

function bucketOf(value: number): number {
  if (value < 1) return 0;
  const power = Math.floor(Math.log2(value));
  const step = Math.floor((value / 2 ** power - 1) * STEPS);
  return Math.min(STEPS * POWERS - 1, power * STEPS + Math.max(0, Math.min(STEPS - 1, step)));
}

function middleOf(bucket: number): number {
  const power = Math.floor(bucket / STEPS);
  return 2 ** power * (1 + ((bucket % STEPS) + 0.5) / STEPS);
}
