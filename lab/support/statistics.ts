/** The median; NaN without values, so that a missing measurement cannot pass for a number. */
export function median(values: readonly number[]): number {
  if (values.length === 0) return Number.NaN;
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

export interface Spread {
  median: number;
  minimum: number;
  maximum: number;
}

export function spread(values: readonly number[]): Spread {
  const minimum = values.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY);
  const maximum = values.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY);
  return { median: median(values), minimum, maximum };
}
