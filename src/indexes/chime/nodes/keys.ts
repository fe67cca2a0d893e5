import { compareKeys, compareWhole } from '../../substrates/key-range.ts';

export { compareKeys, compareWhole };

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
