/** Byte strings in full lexicographic order: a prefix comes before what it begins. */
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

/** Undefined stands for what is above all keys. */
export function areSame(a: Uint8Array | undefined, b: Uint8Array | undefined): boolean {
  return a === b || (a !== undefined && b !== undefined && compareWhole(a, b) === 0);
}

/** The shortest key that is greater than `below` and not greater than `above`: its prefix. */
export function separatorOf(below: Uint8Array, above: Uint8Array): Uint8Array {
  let same = 0;
  while (same < below.length && below[same] === above[same]) same++;
  return above.slice(0, same + 1);
}
