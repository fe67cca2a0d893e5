/**
 * Converts inclusive indexes, of which negative ones count from the end, to a range from `from` to
 * before `to`.
 */
export function rangeWithin(
  start: bigint,
  end: bigint,
  length: number,
): { from: number; to: number } {
  if (start < 0n && end < 0n && start > end) return { from: 0, to: 0 };
  const from = clamp(start < 0n ? start + BigInt(length) : start, length);
  const last = end < 0n ? end + BigInt(length) : end;
  return { from, to: Math.max(from, clamp(last < 0n ? 1n : last + 1n, length)) };
}

function clamp(index: bigint, length: number): number {
  if (index < 0n) return 0;
  return index > BigInt(length) ? length : Number(index);
}
