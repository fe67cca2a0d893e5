import { RaceGeometry, type RaceShape } from '../indexes/race/geometry.ts';
import { HASH_PADDING, KeyHash } from '../records/hash.ts';
import { Scratch } from '../verbs/index.ts';

export function hashOf(name: string, seed: number): KeyHash {
  const scratch = new Scratch(64 + HASH_PADDING);
  for (let i = 0; i < name.length; i++) scratch.u8[i] = name.charCodeAt(i);
  const hash = new KeyHash();
  hash.compute(scratch.i32, 0, name.length, seed);
  return hash;
}

/** Keys with the same four buckets, the same lowest bits of the hash and, if asked, fingerprint. */
export function keysAlike(
  count: number,
  shape: RaceShape,
  { suffixBits, fingerprint }: { suffixBits: number; fingerprint: boolean },
): string[] {
  const geometry = new RaceGeometry(shape);
  const keys: string[] = [];
  let wanted = '';
  for (let i = 0; keys.length < count; i++) {
    const name = `k${i.toString(36)}`;
    const { h1, h2, h3 } = hashOf(name, shape.seed);
    const likeness = [
      h1 & (2 ** suffixBits - 1),
      geometry.firstChoice(h2),
      geometry.secondChoice(h2, h3),
      fingerprint ? h1 >>> 24 : 0,
    ].join('/');
    if (keys.length > 0 && likeness !== wanted) continue;
    wanted = likeness;
    keys.push(name);
  }
  return keys;
}
