import type { IndexParameters } from '../../../src/indexes/contract.ts';
import { HASH_PADDING, KeyHash } from '../../../src/records/hash.ts';
import { Scratch } from '../../../src/verbs/index.ts';
import type { Subject } from '../subjects/subject.ts';

export function hashOf(name: string, seed: number): KeyHash {
  const scratch = new Scratch(64 + HASH_PADDING);
  for (let i = 0; i < name.length; i++) scratch.u8[i] = name.charCodeAt(i);
  const hash = new KeyHash();
  hash.compute(scratch.i32, 0, name.length, seed);
  return hash;
}

/** Keys that an index tells apart only by their records, in the same places. */
export function keysAlike(count: number, subject: Subject, parameters: IndexParameters): string[] {
  const keys: string[] = [];
  let wanted = '';
  for (let i = 0; keys.length < count; i++) {
    const name = `k${i.toString(36)}`;
    const hash = hashOf(name, parameters.seed);
    const likeness = `${subject.place(hash, parameters)}/${subject.fingerprint(hash)}`;
    if (keys.length > 0 && likeness !== wanted) continue;
    wanted = likeness;
    keys.push(name);
  }
  return keys;
}

/** Keys in the same places, each with a smaller fingerprint than the one before. */
export function keysInDescent(
  count: number,
  subject: Subject,
  parameters: IndexParameters,
): string[] {
  const keys: { name: string; hash: KeyHash }[] = [];
  const placeOf = (hash: KeyHash) => subject.place(hash, parameters);
  for (let i = 0; keys.length < count; i++) {
    const name = `k${i.toString(36)}`;
    const hash = hashOf(name, parameters.seed);
    const last = keys.at(-1)?.hash;
    const isNext =
      last === undefined ||
      (placeOf(hash) === placeOf(last) && subject.fingerprint(hash) < subject.fingerprint(last));
    if (isNext) keys.push({ name, hash });
  }
  return keys.map(({ name }) => name);
}
