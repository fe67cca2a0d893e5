import type { IndexParameters } from '../../../src/indexes/contract.ts';
import { HASH_PADDING, KeyHash } from '../../../src/records/hash.ts';
import { Scratch } from '../../../src/verbs/index.ts';
import type { Subject } from '../subjects/subject.ts';

/** Hashes names, one after the other in one place: a choice of keys goes through many thousands. */
export class NameHasher {
  readonly #scratch = new Scratch(64 + HASH_PADDING);
  readonly #hash = new KeyHash();
  readonly #seed: number;

  constructor(seed: number) {
    this.#seed = seed;
  }

  /** The hash of a name, until the next one is asked for. */
  of(name: string): KeyHash {
    const { u8, i32 } = this.#scratch;
    for (let i = 0; i < name.length; i++) u8[i] = name.charCodeAt(i);
    u8.fill(0, name.length);
    this.#hash.compute(i32, 0, name.length, this.#seed);
    return this.#hash;
  }
}

/** Keys that an index tells apart only by their records, in the same places. */
export function keysAlike(count: number, subject: Subject, parameters: IndexParameters): string[] {
  return chooseKeys(count, subject, parameters, (fingerprint, last) => fingerprint === last);
}

/** Keys in the same places, each with a smaller fingerprint than the one before. */
export function keysInDescent(
  count: number,
  subject: Subject,
  parameters: IndexParameters,
): string[] {
  return chooseKeys(count, subject, parameters, (fingerprint, last) => fingerprint < last);
}

/** Keys in the same places, each with a fingerprint that may follow the one before. */
function chooseKeys(
  count: number,
  subject: Subject,
  parameters: IndexParameters,
  mayFollow: (fingerprint: number, last: number) => boolean,
): string[] {
  const hasher = new NameHasher(parameters.seed);
  const keys: string[] = [];
  let lastFingerprint = 0;
  let place = '';
  for (let i = 0; keys.length < count; i++) {
    const name = `k${i.toString(36)}`;
    const hash = hasher.of(name);
    const fingerprint = subject.fingerprint(hash);
    // The fingerprint first: nearly all names end here, and a place costs more.
    if (keys.length > 0 && !mayFollow(fingerprint, lastFingerprint)) continue;
    const own = subject.place(hash, parameters);
    if (keys.length > 0 && own !== place) continue;
    lastFingerprint = fingerprint;
    place = own;
    keys.push(name);
  }
  return keys;
}
