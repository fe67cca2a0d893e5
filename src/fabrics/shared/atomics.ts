/**
 * Compare-and-swap of some bits of a word; returns the old word. Lock-free: each turn of the loop
 * but the last is another client's success.
 */
export function maskedCompareExchange(
  words: BigInt64Array,
  index: number,
  expected: bigint,
  desired: bigint,
  compareMask: bigint,
  swapMask: bigint,
): bigint {
  for (;;) {
    const old = Atomics.load(words, index);
    if (((old ^ expected) & compareMask) !== 0n) return old;
    const wanted = (old & ~swapMask) | (desired & swapMask);
    if (Atomics.compareExchange(words, index, old, wanted) === old) return old;
  }
}
