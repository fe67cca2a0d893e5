import type { KeyRange } from '../contract.ts';

/** Compares byte strings lexicographically; a prefix comes first. */
export function compareKeys(
  a: Uint8Array,
  aAt: number,
  aBytes: number,
  b: Uint8Array,
  bAt: number,
  bBytes: number,
): number {
  const common = aBytes < bBytes ? aBytes : bBytes;
  for (let i = 0; i < common; i++) {
    const difference = a[aAt + i] - b[bAt + i];
    if (difference !== 0) return difference;
  }
  return aBytes - bBytes;
}

export function compareWhole(a: Uint8Array, b: Uint8Array): number {
  return compareKeys(a, 0, a.length, b, 0, b.length);
}

/** Keys from `from` up to, and without, `to`; without `to` there is no upper bound. */
export interface HalfOpenRange {
  from: Uint8Array;
  to: Uint8Array | undefined;
}

export function halfOpen({ lower, upper }: KeyRange): HalfOpenRange {
  const from = lower === undefined ? new Uint8Array(0) : edge(lower.key, !lower.inclusive);
  return { from, to: upper && edge(upper.key, upper.inclusive) };
}

/** The rest of a scan's range after it seeks to a key. */
export function narrowed(range: HalfOpenRange, key: Uint8Array, reverse: boolean): HalfOpenRange {
  if (!reverse) return compareWhole(key, range.from) > 0 ? { ...range, from: key.slice() } : range;
  const to = edge(key, true);
  return range.to === undefined || compareWhole(to, range.to) < 0 ? { ...range, to } : range;
}

export function isEmpty({ from, to }: HalfOpenRange): boolean {
  return to !== undefined && compareWhole(from, to) >= 0;
}

/** The intersection of two ranges. */
export function common(a: HalfOpenRange, b: HalfOpenRange): HalfOpenRange {
  const from = compareWhole(a.from, b.from) > 0 ? a.from : b.from;
  if (a.to === undefined || b.to === undefined) return { from, to: a.to ?? b.to };
  return { from, to: compareWhole(a.to, b.to) < 0 ? a.to : b.to };
}

/** The key, or the lowest key greater than it. */
export function edge(key: Uint8Array, behind: boolean): Uint8Array {
  if (!behind) return key.slice();
  const next = new Uint8Array(key.length + 1);
  next.set(key);
  return next;
}
