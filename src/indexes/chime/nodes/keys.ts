import { compareKeys, compareWhole } from '../../substrates/key-range.ts';

export { compareKeys, compareWhole };

/** Whether two bounds are the same; undefined is above all keys. */
export function areSame(a: Uint8Array | undefined, b: Uint8Array | undefined): boolean {
  return a === b || (a !== undefined && b !== undefined && compareWhole(a, b) === 0);
}

/** The shortest prefix of `above` that is greater than `below`. */
export function separatorOf(below: Uint8Array, above: Uint8Array): Uint8Array {
  let same = 0;
  while (same < below.length && below[same] === above[same]) same++;
  return above.slice(0, same + 1);
}
