/** Values of one power of two are told apart in so many steps: an error below 1/64. */
const STEPS = 32;
const POWERS = 48;

/** Counts of non-negative values by their logarithm, for latencies over many orders. */
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

  /** The value that a share of all values do not exceed, to within a step; NaN for none. */
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
