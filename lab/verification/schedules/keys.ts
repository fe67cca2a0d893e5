import type { IndexParameters } from '../../../src/indexes/contract.ts';
import { HASH_PADDING, KeyHash } from '../../../src/records/hash.ts';
import { Scratch } from '../../../src/verbs/index.ts';
import type { Subject } from '../subjects/subject.ts';

/** Hashes names, reusing one object, because choosing keys tries many thousands of names. */
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

/** Keys in the same slots, which an index can distinguish only by their records. */
export function keysAlike(count: number, subject: Subject, parameters: IndexParameters): string[] {
  return chooseKeys(count, subject, parameters, (fingerprint, last) => fingerprint === last);
}

/** Keys in the same slots, each with a smaller fingerprint than its predecessor. */
export function keysInDescent(
  count: number,
  subject: Subject,
  parameters: IndexParameters,
): string[] {
  return chooseKeys(count, subject, parameters, (fingerprint, last) => fingerprint < last);
}

/** Keys in the same slots, each with a fingerprint that may follow its predecessor's. */
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
    // The fingerprint first: it rejects nearly all names, and slots cost more to compute.
    if (keys.length > 0 && !mayFollow(fingerprint, lastFingerprint)) continue;
    const own = subject.place(hash, parameters);
    if (keys.length > 0 && own !== place) continue;
    lastFingerprint = fingerprint;
    place = own;
    keys.push(name);
  }
  return keys;
}
