/**
 * Walks go through the suffixes in the order of their reversed bits: a segment that is split is
 * then still one run of the order. Returns the next suffix of `depth` bits or, after
 * the last, undefined.
 */
export function nextSuffix(suffix: number, depth: number): number | undefined {
  // Adding one to the reversed number is carrying from the highest bit downwards.
  let bit = depth - 1;
  let next = suffix;
  while (bit >= 0 && (next & (1 << bit)) !== 0) next &= ~(1 << bit--);
  return bit < 0 ? undefined : next | (1 << bit);
}
